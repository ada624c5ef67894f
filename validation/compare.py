#!/usr/bin/env python3
"""Compares the speed of machines from records of xgsw: is each candidate as fast as the baseline, case by case?

    validation/compare.py BASELINE CANDIDATE... [--tolerance 0.05] [--between 0.02] [--history DIR]
                          [--html FILE] [--csv FILE] [--json FILE] [--markdown]

A side is a record (one launch) or a folder of records (several launches of the same decks). For each case compare.py
prints the ratio of speeds by the median step with its 95 % interval between runs, the ratio by the mean, and a word.
The worse ratio decides. FASTER: the interval lies above 1; AS FAST: above 1 - tolerance; SLOWER: below it; otherwise
UNDECIDED. NOT COMPARABLE: one side lacks the case, or has other work or a launch that is not PASSED and VALID or that
contradicts itself.
Status: 0 all as fast or faster, 1 one is slower, 2 unusable, 3 nothing comparable, 4 undecided; the worst of several.
"""

import argparse
import csv
import json
import os
import sys
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from validate import libraries  # noqa: E402

libraries.need("scipy")

from validate import comparison, sides  # noqa: E402
from validate.record import Unreadable  # noqa: E402


def part(text):
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def read_arguments():
    parser = argparse.ArgumentParser(description="Compares the speed of machines from records of xgsw.")
    parser.add_argument("baseline", help="a record, or a folder of records")
    parser.add_argument("candidate", nargs="+", help="the same of another machine")
    parser.add_argument("--tolerance", type=part, default=0.05, help="part of the speed that may be missing (0.05)")
    parser.add_argument("--between", type=part, default=0.02, help="assumed deviation between runs (0.02)")
    parser.add_argument("--history", metavar="DIR", help="earlier records of the baseline machine: the deviation of "
                        "two or more of a case, with its layout, replaces --between")
    for kind in ("html", "csv", "json"):
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write the comparison there as {kind.upper()}")
    parser.add_argument("--markdown", action="store_true", help="print tables for a ticket")
    return parser.parse_args()


HEAD = ("case", "ratio", "from", "to", "by mean", "runs", "word", "note")


def words_of(row):
    """Returns a line of the printed table."""
    numbers = ["n/a" if row[name] is None else f"{row[name]:.3f}" for name in ("ratio", "low", "high", "ratio_by_mean")]
    return (row["case"], *numbers, f"{row['runs_baseline']} + {row['runs']}", row["word"], "; ".join(row["notes"]))


def print_rows(found, markdown):
    rows = [HEAD, *map(words_of, found["cases"])]
    if markdown:
        rows.insert(1, ["---"] * len(HEAD))
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows] + [""]
    else:
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    print("\n".join(lines))
    print("Differs: " + found["differs"])
    if found["left_out"]:
        print(f"Left out: {found['left_out']} of the cases, which need more ranks than there are")
    print()


def write_csv(path, every):
    rows = [{"baseline": found["baseline"], "candidate": found["candidate"], **row, "notes": "; ".join(row["notes"])}
            for found in every for row in found["cases"]]
    names = [name for name in rows[0] if name != "launches"] if rows else []
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)


def write_all(options, every):
    """Writes the requested files."""
    if options.csv:
        write_csv(options.csv, every)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**vars(options), "comparisons": every}, file, indent=1, allow_nan=False)
    if options.html:
        libraries.need("matplotlib", "jinja2")
        from validate import forest
        with open(options.html, "w", encoding="utf-8") as file:
            file.write(forest.page(every, options))


def main():
    warnings.simplefilter("ignore", RuntimeWarning)     # the checks report tampered numbers
    options = read_arguments()
    paths = [options.baseline, *options.candidate]
    try:
        baseline, *candidates = (sides.read_side(*pair) for pair in zip(paths, sides.names_of(paths)))
        history = sides.read_side(options.history, "history") if options.history else None
        every = [comparison.compare(baseline, candidate, options, history) for candidate in candidates]
        write_all(options, every)
    except (Unreadable, OSError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    for found in every:
        print_rows(found, options.markdown)
    for found in every:
        print(f"{found['word']}: {found['summary']}")
    return comparison.STATUS[max((found["word"] for found in every), key=comparison.SEVERITY)]


if __name__ == "__main__":
    sys.exit(main())
