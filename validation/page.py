#!/usr/bin/env python3
"""Writes one page of HTML from records of xgsw: the verdict and its reasons, where time went, who is slow, what ran.

    validation/page.py gsw.h5 [MORE.h5...] [-o gsw.html] [--anonymous]

The page loads nothing, runs no script and prints to A4. Several records of one workload get a table of sizes on top.
--anonymous replaces hosts by node-001 ..., and hides UUIDs, serial numbers and paths. Links are shown if the
pre-flight's gsw.calibration.h5 lies next to gsw.h5. Prints the file and the verdict.
Status 0 written; 1 written, but a record contradicts itself; 2 arguments or a record unusable.
"""

import argparse
import hashlib
import os
import re
import sys
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from validate import libraries  # noqa: E402

libraries.need("matplotlib", "jinja2")

from validate import checks, html  # noqa: E402
from validate.page import tables, verdict  # noqa: E402
from validate.page.shown import Run, Shown  # noqa: E402
from validate.record import Unreadable, read_record  # noqa: E402

SYSTEM = "/(?:usr|lib|lib64|opt|proc|sys|etc|dev)/"    # paths that are no user's
PRIVATE = re.compile(rf"(?:GPU|MIG)-[0-9a-fA-F][-0-9a-fA-F/]{{7,}}|(?<![\w.\])])(?!{SYSTEM})~?/[^\s;:,'\"]+")
WORD = re.compile(r"[\w-]+(?:\.[\w-]+)*")
HIDDEN = ("command_line", "deck_name", "device_identity", "device_serial")


class Cleaner:
    """Hides names, paths and UUIDs in a text, if that is asked; a host has one name in all records."""

    def __init__(self, anonymous):
        self.anonymous, self.names, self.hosts = anonymous, {}, 0

    def host(self, host):
        if not self.anonymous:
            return host
        if host not in self.names:
            self.hosts += 1
            self.names[host] = self.names[host.split(".")[0]] = f"node-{self.hosts:03d}"
        return self.names[host]

    def __call__(self, text):
        hidden = PRIVATE.sub("(hidden)", text) if self.anonymous else text
        return WORD.sub(lambda word: self.names.get(word[0], word[0]), hidden) if self.names else hidden


def clean_all(values, clean):
    """Cleans each text and list of texts of a dictionary."""
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = clean(value)
        elif isinstance(value, list):
            values[name] = [clean(text) for text in value]


def read_run(path, number, clean):
    """A record with what validate finds in it; that it says FAILED contradicts nothing."""
    record = read_record(path)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    whole, of_case = checks.check_all(record)
    for host in record.provenance["hosts"]:
        clean.host(host)
    told = {case.name: f"recorded {case.settings.get('verdict')}: " for case in record.cases}
    found = {name: [clean(sentence) for sentence in f.sentences if not sentence.startswith(told[name])]
             for name, f in of_case.items()}
    if clean.anonymous:
        clean_all(record.provenance, clean)
        record.provenance.update({name: ["(hidden)"] * len(record.provenance[name]) if isinstance(
            record.provenance[name], list) else "(hidden)" for name in HIDDEN if name in record.provenance})
        for case in record.cases:
            clean_all(case.values, clean)
            case.settings.update({name: clean(case.settings[name]) for name in ("not_accepted", "skipped")})
    name = f"record {number}" if clean.anonymous else os.path.basename(path)
    return Run(record, [clean(sentence) for sentence in whole.sentences], found, name, path, digest, clean)


def page_of(runs):
    """The page and its word."""
    cases = [Shown(run, case, ("" if len(runs) == 1 else f"record {n}, ") + f"case {case.settings['case']}")
             for n, run in enumerate(runs, 1) for case in run.record.cases]
    word, first = verdict.word_of(runs, cases), verdict.by_severity(cases)[0]
    tiles = [verdict.speed_tile(cases, first), verdict.time_tile(first), verdict.slow_tile(first),
             verdict.residual_tile(cases)]
    return word, html.render(
        "page.html", title=f"xgsw: {word}", word=word, words=verdict.WORDS, counts=verdict.counts(cases),
        reasons=verdict.box_reasons(runs, cases, word), origins=[verdict.origin(run) for run in runs], tiles=tiles,
        sizes=list(verdict.sizes(cases)) if len(runs) > 1 else [], rows=[verdict.row(group) for group in
                                                                         verdict.views.repeats(cases)],
        first=tables.in_full(first), others=[tables.in_full(case) for case in cases if case is not first],
        runs=[(run, tables.links_of(run), tables.what_ran(run)) for run in runs])


def main():
    parser = argparse.ArgumentParser(description="Writes one page of HTML from records of xgsw.")
    parser.add_argument("record", nargs="+", help="the HDF5 file of a run")
    parser.add_argument("-o", metavar="FILE", help="the page; the first record's name with .html if not given")
    parser.add_argument("--anonymous", action="store_true", help="hide names of hosts, UUIDs, serial numbers and paths")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)    # numbers that were tampered with overflow
    out = arguments.o or os.path.splitext(arguments.record[0])[0] + ".html"
    path = arguments.record[0]
    try:
        runs, clean = [], Cleaner(arguments.anonymous)
        for path in arguments.record:
            runs.append(read_run(path, len(runs) + 1, clean))
        if not any(run.record.cases for run in runs):
            raise Unreadable("it has no case: the run ended before one began")
        word, text = page_of(runs)
        path = out
        with open(out, "w", encoding="utf-8") as file:
            file.write(text)
    except (Unreadable, OSError) as error:
        print(f"page.py: {path}: {error}", file=sys.stderr)
        return 2
    print(f"{out}: {word}")
    return int(word == "RECORD CONTRADICTS ITSELF")


if __name__ == "__main__":
    sys.exit(main())
