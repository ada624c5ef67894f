#!/usr/bin/env python3
"""10,000 records with a single change each (150 of them in make check): how many arithmetic finds, by kind, and that
with the chain all are found. And 20 forgeries, all of whose numbers fit together, rechained: validate.py calls them
UNSIGNED, and refuses each against the root that the run printed. TAP."""

import collections
import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE]
import runs  # noqa: E402, F401  (sets the path, and asks for h5py)
import changes  # noqa: E402
import h5py  # noqa: E402
import numpy as np  # noqa: E402
from program import Tap  # noqa: E402
from validate import chain, checks  # noqa: E402
from validate.findings import Findings  # noqa: E402
from validate.record import Unreadable, read_file  # noqa: E402

LONG = "XGSW_TEST_LONG" in os.environ
CHANGES, FORGERIES, SHOWN, SEED = 10000 if LONG else 150, 20 if LONG else 4, 40, 16
# Of single changes, that arithmetic must find without the chain.
LEAST = 0.9
SECONDS, BYTES = 120, 4 << 30   # that looking at one record may take, whatever it says
SCRIPT = os.path.join(os.path.dirname(HERE), "validate.py")


@functools.cache
def as_written(sample):
    """The record before any change: its cases, the lines of its manifest, and all that can be changed in it."""
    with h5py.File(sample, "r") as file:
        lines = {name: chain.manifest_of(file, name) for name in file}
        return {case.name: case for case in read_file(file).cases}, lines, changes.targets(file)


def case_of(where, how):
    """The one case that a change is in; nothing: it may be anywhere."""
    case = where.partition("/")[0].partition("@")[0]
    return case if case.startswith("case_") and (case != where or not how.startswith("group")) else None


def found(sample, file, case):
    """Does arithmetic find anything? What is in other cases than the changed one is as it was, and not read anew."""
    try:
        record = read_file(file, as_written(sample)[0], case) if case else read_file(file)
    except (Unreadable, OSError, KeyError, RuntimeError, ValueError):
        return True
    whole, of_case = checks.check_all(record, case)
    return bool(whole.sentences or checks.missing(record) or any(f.sentences for f in of_case.values()))


def found_by_chain(sample, file, case):
    f = Findings()
    known = {**as_written(sample)[1], case: chain.manifest_of(file, case)} if case else {}
    chain.check(file, f, known and chain.root_lines(file) + [line for lines in known.values() for line in lines])
    return bool(f.sentences)


def scratch():
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


def bound():
    """Whoever needs more memory, or longer (`changed`), ends, and the test with it."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def changed(arguments):
    """What was done to a copy, whether arithmetic found it, and whether the chain did."""
    sample, number = arguments
    signal.alarm(SECONDS)
    with scratch() as folder:
        path = os.path.join(folder, "changed.h5")
        shutil.copy(sample, path)
        with h5py.File(path, "r+") as file:
            what = changes.change(file, as_written(sample)[2], np.random.default_rng((SEED, number)))
        with h5py.File(path, "r") as file:
            case = case_of(*what)
            return what, found(sample, file, case), found_by_chain(sample, file, case)


def validate(*arguments):
    run = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout.strip().split("\n")


def forged(arguments):
    """Whether it is called sound, but unsigned; and whether it is refused, alone for its root."""
    sample, number, root = arguments
    signal.alarm(SECONDS)
    name, apply = list(changes.forgeries())[number]
    with scratch() as folder:
        path = os.path.join(folder, "forged.h5")
        shutil.copy(sample, path)
        with h5py.File(path, "r+") as file:
            apply(file)
            chain.seal(file)
        (sound, says), (refused, why) = validate(path), validate(path, "--root", root)
        alone = why[-1] == "FAILED: 1 finding in the record as a whole"
        return (name, sound == 0 and says[-1].endswith("; UNSIGNED") and says[-1].startswith("PASSED"),
                refused == 1 and alone and any("it is another record, or was changed" in line for line in why))


def print_kinds(answers):
    """By kind how many were found, and where those were that were not."""
    kinds, missed = collections.defaultdict(lambda: [0, 0]), collections.Counter()
    for (where, how), seen, _ in answers:
        kinds[how][0] += seen
        kinds[how][1] += 1
        missed[f"{where.split('/', 1)[-1] if where.startswith('case_') else where}, {how}"] += not seen
    for how, (seen, of) in sorted(kinds.items()):
        print(f"# {how}: {seen} of {of}")
    for what, count in missed.most_common(SHOWN if not LONG else None):
        if count:
            print(f"# not by arithmetic: {what} ({count})")


def tell_changes(tap, answers):
    print_kinds(answers)
    counts = [sum(seen for _, seen, _ in answers), sum(seen or chained for _, seen, chained in answers)]
    words = " and ".join(f"{who} {n} ({n / CHANGES:.2%})" for who, n in zip(("arithmetic", "with the chain"), counts))
    tap.ok(counts[0] >= LEAST * CHANGES, f"of {CHANGES} single changes are found: {words}", f"{LEAST:.0%} are expected")
    missed = "\n".join(f"{where}: {how}" for (where, how), seen, chained in answers if not chained)
    tap.ok(not missed, "each of them breaks the chain", missed)


def tell_forgeries(tap, answers):
    sound, refused = (sum(answer[which] for answer in answers) for which in (1, 2))
    names = "\n".join(f"{name}: sound {fits}, refused {out}" for name, fits, out in answers)
    tap.ok(sound == len(answers), f"of {len(answers)} forgeries that were rechained {sound} are called UNSIGNED alone",
           names)
    tap.ok(refused == len(answers), f"against the printed root {refused} are refused", names)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2, initializer=bound) as pool:
        sample = os.path.join(folder, "sample.h5")
        subprocess.run([os.path.join(os.environ["BUILD"], "units", "record_file"), "--sample", sample], check=True)
        with h5py.File(sample, "r") as file:
            root = chain.recorded_root(file)
            sound = not found(sample, file, None) and not found_by_chain(sample, file, None)
        tap.ok(sound, "nothing is found in the record as it was written")
        tell_changes(tap, list(pool.map(changed, ((sample, n) for n in range(CHANGES)), chunksize=25)))
        tell_forgeries(tap, list(pool.map(forged, ((sample, 7 * n % 20, root) for n in range(FORGERIES)))))
    tap.done()


if __name__ == "__main__":
    main()
