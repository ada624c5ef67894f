"""The two sides of a comparison: what launches, each a record, show of each case, and in what they differ."""

import glob
import hashlib
import os
from dataclasses import dataclass

import numpy as np

from validate import checks, views
from validate.record import Unreadable, read_record

# What may differ between sides and is printed: its name, and its place in the provenance.
WHERE = (("processor", "processor"), ("MPI", "mpi_library"), ("products", "products_library"), ("CUDA", "cuda_library"),
         ("kernel", "kernel"))
NAMED = 6


@dataclass
class Launch:
    """One case of one record: log speeds of its repeats by mean and by median, averaged; None if there are none."""

    work: dict
    logs: tuple
    wrong: str              # why it cannot be compared; empty: it can
    skipped: bool
    facts: dict             # layout, program and machine
    digest: str             # of the record


@dataclass
class Side:
    name: str
    cases: dict             # (work as a tuple, which of several in a record) -> launches

    @property
    def digests(self):
        return {launch.digest for launches in self.cases.values() for launch in launches}


def contradiction(record):
    """The first sentence of validate's checks, other than that a case FAILED; None if the record is sound."""
    whole, of_case = checks.check_all(record)
    sentences = [sentence for f in (whole, *of_case.values()) for sentence in f.sentences]
    return next((sentence for sentence in sentences if not sentence.startswith("recorded FAILED:")), None)


def reason(case):
    """Why the speed of one case of a sound record cannot be compared; None if it can."""
    s = case.settings
    if s["verdict"] == "SKIPPED":
        return f"SKIPPED: {s['skipped']}"
    if s["verdict"] != "PASSED":
        reasons = case.values.get("results/fail_reasons") or [case.values.get("results/interrupted") or case.progress]
        return f"{s['verdict']}: {reasons[0]}"
    if s["validity"] != "VALID":
        return f"NOT VALID: {case['results/invalid_rules'][0]}: {case['results/invalid_reasons'][0]}"
    return None


def facts_of(record, case):
    p, words = record.provenance, case.values.get("results/device") or "none"
    found = {"layout": views.layout(case), "ranks": case.settings["ranks"], "hosts": len(set(p["hosts"])),
             "backend": case.settings["backend"], "device": words,
             "program": p["git_commit"][:12] + " with changes" * p["dirty"]}
    return {name: str(value) for name, value in found.items()} | {name: p.get(key, "none").split(",")[0]
                                                                for name, key in WHERE}


def launch_of(record, group, against, digest):
    """against: why nothing of this record counts; None otherwise."""
    wrong = f"contradicts itself: {against}" if against else next(filter(None, map(reason, group)), "")
    usable = not against and all(case.settings["verdict"] == "PASSED" for case in group)
    logs = np.log([views.speed(case) for case in group]).mean(axis=0) if usable else [np.nan]
    return Launch(views.work(group[0]), tuple(map(float, logs)) if np.isfinite(logs).all() else None, wrong,
                  wrong.startswith("SKIPPED"), {} if against else facts_of(record, group[0]), digest)


def read_launches(path, digest):
    """(work, which of several) -> what one record has of the case."""
    record, found = read_record(path), {}
    against = contradiction(record)
    for group in views.repeats(record.cases):
        work = tuple(views.work(group[0]).values())
        found[work, sum(other == work for other, _ in found)] = launch_of(record, group, against, digest)
    return found


def files_of(path):
    """Records and their SHA-256; a copy of a record is no second launch."""
    files = sorted(glob.glob(os.path.join(glob.escape(path), "*.h5"))) if os.path.isdir(path) else [path]
    found = {}
    for file in files:
        try:
            with open(file, "rb") as content:
                digest = hashlib.sha256(content.read()).hexdigest()
        except OSError as error:
            raise Unreadable(f"{file} cannot be read: {error.strerror}") from None
        if digest in found:
            raise Unreadable(f"{file} is a copy of {found[digest]}: one launch counts once")
        found[digest] = file
    return found


def read_side(path, name):
    """All launches of a record or of a folder of records."""
    side, files = Side(name, {}), files_of(path)
    if not files:
        raise Unreadable(f"{path} has no records (*.h5)")
    for digest, file in files.items():
        try:
            launches = read_launches(file, digest)
        except Unreadable as error:
            raise Unreadable(f"{file} cannot be read: {error}") from None
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Unreadable(f"{file} is incomplete: {type(error).__name__} {error}") from None
        for key, launch in launches.items():
            side.cases.setdefault(key, []).append(launch)
    return side


def names_of(paths):
    """Short names of sides: their paths below the folder that holds all of them."""
    whole = [os.path.abspath(path) for path in paths]
    above = os.path.commonpath(list(map(os.path.dirname, whole)))
    return [os.path.relpath(path, above).removesuffix(".h5") for path in whole]


def fault(side, key):
    """Why the case cannot be compared on this side's account; None if all its launches can."""
    launches = side.cases[key]
    wrong = [launch.wrong for launch in launches if launch.wrong]
    return f"{side.name}: {len(wrong)} of {len(launches)} {wrong[0]}" if wrong else None


def pairs(first, second):
    """(key or None, key or None) of every case: of equal work, else of the same workload and precision."""
    left = [key for key in second.cases if key not in first.cases]
    for key in first.cases:
        like = [other for other in left if other[0][0] == key[0][0] and other[0][2] == key[0][2]]
        yield key, key if key in second.cases else left.pop(left.index(like[0])) if like else None
    yield from ((None, key) for key in left)


def unlike(first, second, keys):
    """Why the two cases are not of the same work, or that one is missing; None if both are there and alike."""
    for side, key in zip((first, second), keys):
        if key is None:
            return f"{side.name} has no such case"
    here, there = (side.cases[key][0].work for side, key in zip((first, second), keys))
    differing = [name for name in here if here[name] != there[name]]
    return f"other work: {differing[0]} {here[differing[0]]}, {second.name} {there[differing[0]]}" if differing else None


def title(key):
    """A case in words: workload, precision, size."""
    (workload, size, precision, *_), number = key
    return f"{workload} {precision} {size}" + (f" no. {number + 1}" if number else "")


def difference(name, first, second):
    """In words how a fact differs between the sides, or within one; empty if it does not. The case is named if others
    have another difference."""
    shared = [key for key in first.cases if key in second.cases]
    both = {key: [" or ".join(sorted({x.facts[name] for x in side.cases[key] if x.facts})) for side in (first, second)]
            for key in shared}
    differing = [key for key, (a, b) in both.items() if a and b and (a != b or " or " in a)]
    if not differing:
        return ""
    words = f"{name} {both[differing[0]][0]} \u2192 {both[differing[0]][1]}"
    return words if len({tuple(pair) for pair in both.values()}) == 1 else f"{words} ({title(differing[0])})"


def differences(first, second):
    """In words what differs in layout, program and machine."""
    facts = next((x.facts for launches in first.cases.values() for x in launches if x.facts), {})
    words = list(filter(None, (difference(name, first, second) for name in facts)))
    more = f"; {len(words) - NAMED} more" if len(words) > NAMED else ""
    return "; ".join(words[:NAMED]) + more if words else "nothing in layout, program and machine: a repetition"
