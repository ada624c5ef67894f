#!/usr/bin/env python3
"""Validates a record of xgsw: recomputes every number of its report from the per-step times and holds it against
published ones.

    validation/validate.py gsw.h5 [--tolerance 0.05] [--reference CELLS.csv] [--log OUTPUT]
    validation/validate.py --recover gsw.h5.journal-1      first makes a record of what a killed run left

One line a case, its findings below it, and PASSED or FAILED at the end; PASSED says that the record is consistent
and no case too slow, and how many could be compared; INCOMPLETE that it is consistent, but its run ended early.
Status 0 PASSED, 1 FAILED, 75 INCOMPLETE; 2: arguments or file unusable.
Slower than the matching reference by more than the tolerance is a failure; faster is not.
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from validate import libraries  # noqa: E402

libraries.need()

from validate import checks, printed, recover, reference  # noqa: E402
from validate.findings import Findings  # noqa: E402
from validate.record import Unreadable, read_record  # noqa: E402

CELLS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "reference", "cells.csv")


def share(text):
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 up to 1")
    return value


def read_arguments():
    parser = argparse.ArgumentParser(
        description="Recomputes the numbers of a record of xgsw and compares them with published ones."
    )
    parser.add_argument("record", help="the HDF5 file of a run")
    parser.add_argument("--recover", action="store_true", help="the file is the journal of a run that was killed: make "
                        "a record of it, named in the first line, and validate that")
    parser.add_argument(
        "--tolerance", type=share, default=0.05, help="how much slower than the reference may be (0.05)"
    )
    parser.add_argument("--reference", default=CELLS, help="table of published cells (validation/reference/cells.csv)")
    parser.add_argument("--log", help="the run's output: its XGSW_RESULT lines must say what the record says")
    return parser.parse_args()


def unusable(sentence):
    print(f"validate.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def read_all(arguments):
    """Record, reference rows and printed results; ends with status 2 where one cannot be read."""
    try:
        if arguments.recover:
            arguments.record = recover.recover(arguments.record)
        record = read_record(arguments.record)
    except Unreadable as error:
        unusable(f"{arguments.record} cannot be read: {error}")
    try:
        rows = reference.read_cells(arguments.reference)
    except (OSError, KeyError, TypeError, ValueError) as error:
        unusable(f"{arguments.reference} cannot be read as reference: {error}")
    try:
        return record, rows, printed.read_results(arguments.log) if arguments.log else None
    except (OSError, ValueError) as error:
        unusable(f"{arguments.log} cannot be read as output of a run: {error}")


def print_opening(path, record):
    p = record.provenance
    changed = ", from changed sources" if p.get("dirty") else ""
    recovered = f", recovered {record.root['recovered']}" if "recovered" in record.root else ""
    print(f"{path}: written {p.get('written')} by commit {str(p.get('git_commit'))[:12]}{changed}{recovered}")
    hosts = sorted(set(p.get("hosts", [])))
    shown = " ".join(hosts[:4]) + (" ..." if len(hosts) > 4 else "")
    ranks = len(p.get("hosts", []))
    print(f"deck {p.get('deck_name')}, {len(record.cases)} cases, {ranks} ranks on {len(hosts)} hosts: {shown}")


def describe(case):
    s = case.settings
    layout = " ".join(f"{axis} {s[axis]}" for axis in (*checks.AXES, "expert") if s[axis] > 1) or "one rank"
    if s["experts"] and s["capacity"] != "1":
        layout += f", capacity {s['capacity']}"
    kind = " ".join(s[key] for key in ("workload", "size", "precision", "backend"))
    return f"case {s['case']}: {kind}, {s['ranks']} ranks ({layout})"


def speed(case):
    if case.recovered:
        return f"{len(case['steps/step'])} of {case.total} steps, INTERRUPTED"
    names = ("median_seconds", "tokens_per_second", "tflops_per_gpu")
    seconds, tokens, tflops = (case["results/" + name] for name in names)
    verdicts = f"{case.settings['verdict']}, {case.settings['validity']}"
    return f"{seconds:.6g} s, {tokens:.6g} tokens/s, {tflops:.4g} TFLOP/s/GPU, {verdicts}"


def judge(case, record, rows, results, tolerance):
    """The case's line, and what is wrong with it."""
    f = Findings()
    checks.check_case(case, record.provenance, f)
    if results is not None:
        printed.check_printed(case, results, f)
    try:
        phrase = reference.compare(case, rows, tolerance, f)
        numbers = f"{f.numbers} numbers recomputed, largest difference {f.worst:.1g}"
        return f"{describe(case)}: {speed(case)}; {numbers}; {phrase}", f
    except (KeyError, TypeError, ValueError) as error:
        f.add(f"incomplete: {type(error).__name__} {error}")
        return case.name, f


def print_case(case, record, rows, results, tolerance):
    """Number of findings."""
    if not case.ran:
        s = case.settings
        print(f"case {s['case']}: {s.get('workload')} SKIPPED: {s.get('skipped')}")
        return 0
    line, f = judge(case, record, rows, results, tolerance)
    print(line)
    for sentence in f.sentences:
        print(f"    {sentence}")
    return len(f.sentences)


def print_failed(total, failing):
    print(f"FAILED: {total} finding{'s' if total > 1 else ''} in {', '.join(failing)}")
    return 1


def print_sound(record, rows):
    """The last line of a record without findings; the status."""
    ran, missing = [case for case in record.cases if case.ran], checks.missing(record)
    valid = sum(case.settings["validity"] == "VALID" for case in ran)
    compared = sum(bool(reference.row_of(case, rows)) for case in ran)
    word = f"INCOMPLETE: {'; '.join(missing)};" if missing else "PASSED:"
    print(f"{word} {len(ran)} cases recomputed, {valid} of them VALID, {compared} compared with a published cell")
    return 75 if missing else 0


def main():
    arguments = read_arguments()
    record, rows, results = read_all(arguments)
    whole = Findings()
    checks.check_record(record, whole)
    print_opening(arguments.record, record)
    wrong = {case.name: print_case(case, record, rows, results, arguments.tolerance) for case in record.cases}
    for sentence in whole.sentences:
        print(sentence)
    failing = [name for name, count in wrong.items() if count] + ["the record as a whole"] * bool(whole.sentences)
    total = sum(wrong.values()) + len(whole.sentences)
    return print_failed(total, failing) if total else print_sound(record, rows)


if __name__ == "__main__":
    sys.exit(main())
