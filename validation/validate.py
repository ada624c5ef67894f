#!/usr/bin/env python3
"""Validates a record of xgsw: recomputes every number of its report from the per-step times, and compares the speed
with published numbers.

    validation/validate.py gsw.h5 [--tolerance PART] [--reference CELLS.csv] [--log OUTPUT]
                              [--deck-with XGSW]
    validation/validate.py --recover gsw.h5.journal-1      first makes a record from the journal of a killed run
    validation/validate.py gsw.h5 --csv cases|steps|ranks  prints a table of the record, and validates nothing

Prints one line for each case, its findings below it, and a verdict at the end. PASSED means that the record is
consistent; its cases may still be NOT VALID or NOT ACCEPTED. INCOMPLETE means that the run ended early.
With --deck-with ./xgsw, that program resolves the recorded deck again for as many ranks. Every key of every case must
have the recorded value. With --log, the SHA-256 and numbers in the run's output must be those of the record. With
--tolerance 0.05, a case more than 5 % slower than its published cell is a finding, too.
Status: 0 PASSED, 1 FAILED, 75 INCOMPLETE, 2 unusable arguments or file.
"""

import argparse
import os
import sys
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from validate import libraries  # noqa: E402

libraries.need()

from validate import checks, printed, recover, reference, resolved, tables  # noqa: E402
from validate.findings import count  # noqa: E402
from validate.record import Unreadable, read_record  # noqa: E402


def share(text):
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not in [0, 1)")
    return value


def read_arguments():
    parser = argparse.ArgumentParser(
        description="Recomputes the numbers of a record of xgsw and compares them with published ones.")
    parser.add_argument("record", help="the HDF5 file of a run")
    parser.add_argument("--recover", action="store_true", help="the file is the journal of a run that was killed: make "
                        "a record of it, named in the first line, and validate that")
    parser.add_argument("--tolerance", type=share, help="a case slower than its published cell by more than this part "
                        "is a finding")
    parser.add_argument("--reference", default=reference.CELLS,
                        help="table of published cells (validation/reference/cells.csv)")
    parser.add_argument("--log", help="the run's output: its XGSW_RESULT lines must say what the record "
                        "says, of a case that a kill ended its step lines")
    parser.add_argument("--deck-with", metavar="XGSW", help="a program that resolves the recorded deck anew; what "
                        "differs from the record is a finding")
    parser.add_argument("--csv", choices=tables.TABLES, help="print this table of the record as CSV, and nothing else")
    return parser.parse_args()


def unusable(sentence):
    print(f"validate.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def read_or_stop(read, path, what):
    """Returns what `read` returns of a file. Exits with status 2 if it cannot be read."""
    try:
        return read(path)
    except (OSError, KeyError, TypeError, ValueError) as error:
        unusable(f"{path} cannot be read as {what}: {error}")


def read_all(arguments):
    """Returns the record, the reference rows and the printed output. Exits with status 2 if one cannot be read."""
    try:
        if arguments.recover:
            arguments.record = recover.recover(arguments.record)
        record = read_record(arguments.record)
    except recover.Taken as error:
        unusable(str(error))
    except Unreadable as error:
        unusable(f"{arguments.record} cannot be read: {error}")
    rows = read_or_stop(reference.read_cells, arguments.reference, "reference")
    return record, rows, read_or_stop(printed.read_output, arguments.log, "output of a run") if arguments.log else None


def print_opening(path, record):
    p = record.provenance
    changed = ", from changed sources" if p.get("dirty") else ""
    recovered = f", recovered {record.root['recovered']}" if "recovered" in record.root else ""
    print(f"{path}: written {p.get('written')} by commit {str(p.get('git_commit'))[:12]}{changed}{recovered}")
    hosts = sorted(set(p.get("hosts", [])))
    shown = " ".join(hosts[:4]) + (" ..." if len(hosts) > 4 else "")
    ranks = len(p.get("hosts", []))
    print(f"deck {p.get('deck_name')}, {count(len(record.cases), 'case')}, {count(ranks, 'rank')} on "
          f"{count(len(hosts), 'host')}: {shown}")


def describe(case):
    s = case.settings
    layout = " ".join(f"{axis} {s[axis]}" for axis in (*checks.AXES, "expert") if s[axis] > 1) or "tensor 1"
    if s["experts"] and s["capacity"] != "1":
        layout += f", capacity {s['capacity']}"
    kind = " ".join(s[key] for key in ("workload", "size", "precision", "backend"))
    return f"case {s['case']}: {kind}, {count(s['ranks'], 'rank')} ({layout})"


def speed(case):
    if case.recovered:
        return f"{case.progress}, INTERRUPTED"
    names = ("mean_seconds", "tokens_per_second", "tflops_per_gpu")
    seconds, tokens, tflops = (case["results/" + name] for name in names)
    verdicts = ", ".join(filter(None, (case.settings[word] for word in ("verdict", "validity", "acceptance"))))
    return f"{seconds:.6g} s, {tokens:.6g} tokens/s, {tflops:.4g} TFLOP/s/GPU, {verdicts}"


def judge(case, f, rows, said, tolerance):
    """Returns the line of the case, and whether the case was compared with a published cell. Adds findings to f. said:
    a note on what the output was compared with, or nothing."""
    s = case.settings
    if not case.ran:
        return f"case {s['case']}: {s.get('workload')} SKIPPED: {s.get('skipped')}", False
    try:
        row, phrase = reference.compare(case, rows, tolerance, f)
        numbers = f"{count(f.numbers, 'number')} compared, largest difference {f.worst:.1g}"
        return "; ".join(filter(None, (f"{describe(case)}: {speed(case)}", numbers, phrase, said))), bool(row)
    except (KeyError, TypeError, ValueError) as error:
        f.add(f"incomplete: {type(error).__name__} {error}")
        return case.name, False


def examine(arguments, record, rows, output):
    """Returns findings about the whole record and about each case by name; each case's line and whether it was compared
    with a published cell; whether the file has the SHA-256 that its run printed."""
    whole, of_case = checks.check_all(record)
    recovered = "recovered" in record.root
    if arguments.deck_with:
        checks.attempt(resolved.check, whole, arguments.deck_with, record, of_case)
    # Compares no numbers with the output of another run.
    if output and not checks.attempt(printed.check_same_run, whole, output, record):
        output = None
    said = {case.name: checks.attempt(printed.check_printed, of_case[case.name], case, output, recovered)
            for case in record.cases if case.ran and output}
    judged = {case.name: judge(case, of_case[case.name], rows, said.get(case.name), arguments.tolerance)
              for case in record.cases}
    return whole, of_case, judged, bool(output) and printed.check_sha256(arguments.record, output, recovered, whole)


def last_line(record, found, judged, more):
    """Returns the last line and the exit status. found: findings by name; more: what else was compared."""
    if any(found.values()):
        total = sum(map(len, found.values()))
        return f"FAILED: {count(total, 'finding')} in {', '.join(name for name in found if found[name])}", 1
    ran, missing = [case for case in record.cases if case.ran], checks.missing(record)
    valid = sum(case.settings["validity"] == "VALID" for case in ran)
    word = f"INCOMPLETE: {'; '.join(missing)};" if missing else "PASSED:"
    return (f"{word} {count(len(ran), 'case')} recomputed, {valid} of them VALID, "
            f"{sum(held for _, held in judged.values())} compared with a published cell{more}"), 75 if missing else 0


def print_report(arguments, record, rows, output):
    """Prints findings about the whole record first, because they may explain the others. Returns the exit status."""
    whole, of_case, judged, same_file = examine(arguments, record, rows, output)
    print_opening(arguments.record, record)
    print("".join(sentence + "\n" for sentence in whole.sentences), end="")
    for name, (line, _) in judged.items():
        print("\n    ".join((line, *of_case[name].sentences)))
    found = {"the record as a whole": whole.sentences, **{name: f.sentences for name, f in of_case.items()}}
    line, status = last_line(record, found, judged, "; SHA-256 as printed" * same_file
                             + "; deck resolved anew" * bool(arguments.deck_with))
    print(line)
    return status


def main():
    # Tampered numbers overflow or have no logarithm. The checks report that, so numpy need not warn.
    warnings.simplefilter("ignore", RuntimeWarning)
    arguments = read_arguments()
    record, rows, output = read_all(arguments)
    try:
        status = tables.write(record, arguments.csv, sys.stdout) if arguments.csv else \
            print_report(arguments, record, rows, output)
        sys.stdout.flush()
        return status
    except resolved.Unusable as error:
        unusable(f"--deck-with {arguments.deck_with}: {error}")
    except BrokenPipeError:
        # The reader closed the pipe, as in validate.py ... | head. Python must not flush to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
