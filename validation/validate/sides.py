"""The sides of a comparison: reads the cases of launches (one record each), and finds how two sides differ."""

import glob
import itertools
import os
from dataclasses import dataclass

import numpy as np

from validate import checks, views
from validate.record import Unreadable, read_record

# Facts that may differ between sides. They are printed in this order: of cases, of hosts and program, then WHERE.
OF_CASE = ("layout", "ranks", "backend", "device")
WHERE = {"MPI": "mpi_library", "products": "products_library", "CUDA": "cuda_library", "processor": "processor",
         "kernel": "kernel"}
NAMED = 6


@dataclass
class Launch:
    """One case of one record, with its repeats."""

    work: dict
    logs: list              # log speed by mean and by median, averaged over the repeats; empty if wrong
    wrong: str              # why it cannot be compared; empty if it can
    facts: dict             # layout, program and machine
    record: int             # identity of its record


@dataclass
class Side:
    name: str
    records: dict           # identities -> paths
    cases: dict             # (work, number among equal ones in a record) -> launches


def reason(case):
    """Returns why the speed of a case in a sound record cannot be compared, or None if it can."""
    s = case.settings
    if s["verdict"] in ("SKIPPED", "INTERRUPTED"):
        return f"{s['verdict']}: {s['skipped'] or case.progress}"
    if s["verdict"] != "PASSED":
        return f"{s['verdict']}: {case['results/fail_reasons'][0]}"
    if s["validity"] != "VALID":
        rule, why = case["results/invalid_rules"][0], case["results/invalid_reasons"][0]
        return f"NOT VALID: {why}" if rule in why else f"NOT VALID: {rule}: {why}"
    return None


def facts_of(p, case):
    """Returns layout, program and machine of a case. p: provenance of the record."""
    s = case.settings
    found = (views.layout(case), s["ranks"], s["backend"], case.values.get("results/device", ""),
             len(set(p["hosts"])), p["git_commit"][:12] + " with changes" * p["dirty"])
    names = (*OF_CASE, "hosts", "program")
    return dict(zip(names, map(str, found))) | {name: p.get(key, "").split(",")[0] for name, key in WHERE.items()}


def identity(record):
    """Returns a hash that identifies a launch by its start and step times."""
    steps = [case["steps/step_seconds"].tobytes() for case in record.cases if case.ran]
    return hash((record.provenance["started"], *steps))


def launches_of(record):
    """Returns (work, number among equal ones) -> Launch of a record."""
    whole, of_case = checks.contradictions(record)
    found, against = {}, next(iter([*whole, *itertools.chain(*of_case.values())]), None)
    for group in views.repeats(record.cases):
        work = views.work(group[0])
        wrong = f"contradicts itself: {against}" if against else next(filter(None, map(reason, group)), "")
        logs = [] if wrong else np.log([views.speed(case) for case in group]).mean(axis=0).tolist()
        key = tuple(work.values()), sum(other[0] == tuple(work.values()) for other in found)
        found[key] = Launch(work, logs, wrong, facts_of(record.provenance, group[0]), identity(record))
    return found


def records_of(folder):
    """The files of a folder that may be records; those of the pre-flight are none."""
    every = sorted(glob.glob(os.path.join(glob.escape(folder), "*.h5")))
    return [path for path in every if not path.endswith(".calibration.h5")]


def read_side(path, name):
    """Reads all launches of a record or of a folder of records. Refuses copies of a record."""
    side = Side(name, {}, {})
    for file in records_of(path) if os.path.isdir(path) else [path]:
        try:
            record = read_record(file)
            if identity(record) in side.records:
                raise Unreadable(f"it is a copy of {side.records[identity(record)]}, and one launch counts once")
            side.records[identity(record)] = file
            for key, launch in launches_of(record).items():
                side.cases.setdefault(key, []).append(launch)
        except (Unreadable, OSError, KeyError, TypeError, ValueError, IndexError) as error:
            raise Unreadable(f"{file} cannot be used: {error}") from None
    if not side.cases:
        raise Unreadable(f"{path} cannot be used: it has no records (*.h5) with cases")
    return side


def names_of(paths):
    """Returns short names of sides: their paths below their common folder."""
    whole = [os.path.abspath(path) for path in paths]
    above = os.path.commonpath(list(map(os.path.dirname, whole)))
    return [os.path.relpath(path, above).removesuffix(".h5") for path in whole]


def title(key):
    """Describes a case by workload, precision and size."""
    (workload, size, precision, *_), number = key
    return f"{workload} {precision} {size}" + (f" no. {number + 1}" if number else "")


def pairs(first, second):
    """Yields each case's keys on both sides: of equal work, else of equal workload and precision, else one is None."""
    left = [key for key in second.cases if key not in first.cases]
    for key in first.cases:
        like = [other for other in left if (other[0][0], other[0][2]) == (key[0][0], key[0][2])]
        yield key, key if key in second.cases else left.pop(left.index(like[0])) if like else None
    yield from ((None, key) for key in left)


def fault(sides, keys):
    """Returns why a case cannot be compared (missing, other work, or wrong launches), or None if it can."""
    for side, key in zip(sides, keys):
        if key is None:
            return f"{side.name} has no such case"
    here, there = (side.cases[key][0].work for side, key in zip(sides, keys))
    for name in (name for name in here if here[name] != there[name]):
        return f"other work: {name} {here[name]}, {sides[1].name} {there[name]}"
    for side, key in zip(sides, keys):
        wrong = [launch.wrong for launch in side.cases[key] if launch.wrong]
        if wrong:
            return f"{side.name}: {len(wrong)} of {len(side.cases[key])} {wrong[0]}"
    return None


def difference(name, first, second):
    """Describes how a fact of shared cases or of whole sides differs between the sides or within one; empty if it does
    not. Names the case if the fact differs between cases."""
    shared = [key for key in first.cases if key in second.cases] if name in OF_CASE else [None]
    both = {key: [" or ".join(sorted({x.facts[name] for other in side.cases if key in (other, None)
                                      for x in side.cases[other]} - {""})) for side in (first, second)]
            for key in shared}
    differing = [key for key, (a, b) in both.items() if a and b and (a != b or " or " in a)]
    if not differing:
        return ""
    words = f"{name} {' -> '.join(both[differing[0]])}"
    return words if len({tuple(pair) for pair in both.values()}) == 1 else f"{words} ({title(differing[0])})"


def differences(first, second):
    """Describes the differences in layout, program and machine."""
    words = [difference(name, first, second) for name in (*OF_CASE, "hosts", "program", *WHERE)]
    words = ["no case in common"] * first.cases.keys().isdisjoint(second.cases) + list(filter(None, words))
    more = f"; {len(words) - NAMED} more" if len(words) > NAMED else ""
    return "; ".join(words[:NAMED]) + more if words else "nothing (layout, program, machine)"
