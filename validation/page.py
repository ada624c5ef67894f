#!/usr/bin/env python3
"""Writes one HTML page from records of xgsw: the verdict and its reasons, where the time went, slow ranks, what ran.

    validation/page.py gsw.h5 [MORE.h5...] [-o gsw.html] [--anonymous]

The page loads nothing, runs no script and prints to A4. Several records of one workload get a table of sizes at the
top. --anonymous replaces hosts by node-001 ..., and leaves out the deck, paths and all that may name a site or a
person. Links are shown if the pre-flight's gsw.calibration.h5 lies next to gsw.h5. Prints the file and the verdict.
Status: 0 written; 1 written, but a record contradicts itself; 2 not written, arguments or a record are unusable.
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

from validate import checks, html, views  # noqa: E402
from validate.findings import count  # noqa: E402
from validate.page import tables, verdict  # noqa: E402
from validate.page.shown import Run, Shown  # noqa: E402
from validate.record import Unreadable, read_record  # noqa: E402

PRIVATE = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F][-0-9a-fA-F/]{7,}|(?<![\w.\])])(?!/sys/)~?/[^\s;:,'\"]+")
# The provenance that an anonymous page shows, with hosts renamed. It leaves out all the rest.
PUBLIC = ("nodes", "processor", "processors", "threads", "device_name", "device_driver", "device_power_limit",
          "device_clock_limit", "cuda_library", "products_library", "git_commit", "dirty", "binary_sha256", "started",
          "written")
TEXTS = ("not_accepted", "skipped")    # settings that may name hosts
# Exceptions of a part of the page if numbers that it needs are missing or wrong.
BROKEN = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError,
          html.jinja2.TemplateError)


class Cleaner:
    """Hides hosts, paths and UUIDs in texts of an anonymous page. A host gets the same new name in all records."""

    def __init__(self, anonymous):
        self.anonymous, self.names, self.hosts, self.pattern = anonymous, {}, {}, None

    def host(self, host):
        if not self.anonymous:
            return host
        if host not in self.hosts:
            self.hosts[host] = f"node-{len(self.hosts) + 1:03d}"
            for name in (host, host[:32], host.split(".")[0]):    # the record cuts names in some texts
                self.names.setdefault(name.lower(), self.hosts[host])
            self.pattern = None
        return self.hosts[host]

    def __call__(self, text):
        if isinstance(text, list):
            return [self(line) for line in text]
        if not self.anonymous or not isinstance(text, str):
            return text
        if not self.pattern:
            names = "|".join(re.escape(name) for name in sorted(self.names, key=len, reverse=True) if name) or "(?!)"
            self.pattern = re.compile(rf"({names})(?:\.\w[\w-]*)*", re.IGNORECASE)
        return self.pattern.sub(lambda found: self.names[found[1].lower()], PRIVATE.sub("(hidden)", text))


def clean_record(record, clean):
    """Removes private provenance, and hides names in the results and settings that the page shows."""
    p = record.provenance
    record.provenance = {name: p[name] for name in PUBLIC if name in p}
    record.provenance.update(deck="", hosts=[clean.host(host) for host in p.get("hosts", ())])
    for case in record.cases:
        for values in (case.values, case.settings):
            for name in (name for name in values if name in TEXTS or name.startswith("results/")):
                values[name] = clean(values[name])


def read_run(path, number, clean):
    """Returns a record with its contradictions."""
    record = read_record(path)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    whole, of_case = checks.contradictions(record)
    for host in record.provenance.get("hosts", ()):
        clean.host(host)
    found = {name: clean(sentences) for name, sentences in of_case.items()}
    if not clean.anonymous:
        return Run(record, whole, found, os.path.basename(path), path, digest, clean)
    clean_record(record, clean)
    failed = [f"{count(len(whole), 'check')} failed; validate.py shows them"] if whole else []
    return Run(record, failed, found, f"record {number}", path, "", clean)


def page_of(runs):
    """Returns the page and its word. If drawing fails, leaves out the cases with contradictions."""
    try:
        return draw(runs, lambda run, case: True)
    except BROKEN:
        return draw(runs, lambda run, case: not run.whole and not run.of_case[case.name])


def draw(runs, keep):
    """Returns the page and its word. Draws the cases to keep, and lists findings of the others."""
    every = [(run, case, ("" if len(runs) == 1 else f"record {n}, ") + f"case {case.settings['case']}")
             for n, run in enumerate(runs, 1) for case in run.record.cases]
    cases = [Shown(*one) for one in every if keep(*one[:2])]
    left_out = [(label, run.of_case[case.name] or run.whole) for run, case, label in every if not keep(run, case)]
    sound = [run for run in runs if not run.whole or any(case.run is run for case in cases)]
    word, ran = verdict.word_of(runs, cases), [case for case in cases if case.case.ran]
    first = next(iter(verdict.by_severity(ran or cases)), None)
    tiles = [verdict.speed_tile(cases, first), verdict.time_tile(first), verdict.slow_tile(first),
             verdict.residual_tile(cases)] if first else []
    return word, html.render(
        "page.html", title=f"xgsw: {word}", word=word, words=verdict.WORDS, counts=verdict.counts(cases),
        reasons=verdict.box_reasons(runs, cases, word, left_out), origins=[verdict.origin(run) for run in sound],
        tiles=tiles, sizes=list(verdict.sizes(cases)) if len(runs) > 1 else [], left_out=left_out,
        rows=[verdict.row(group) for group in views.repeats(cases)], first=first and tables.in_full(first),
        others=[tables.in_full(case) for case in cases if case is not first],
        runs=[(run, tables.links_of(run), tables.what_ran(run)) for run in sound])


def main():
    parser = argparse.ArgumentParser(description="Writes one page of HTML from records of xgsw.")
    parser.add_argument("record", nargs="+", help="the HDF5 file of a run")
    parser.add_argument("-o", metavar="FILE", help="the page; the first record's name with .html if not given")
    parser.add_argument("--anonymous", action="store_true", help="hide hosts, the deck, UUIDs, serials and paths")
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
    except BROKEN as error:
        print(f"page.py: no page can be written, take another copy of the record or run the deck again: {error!r}",
              file=sys.stderr)
        return 2
    print(f"{out}: {word}")
    return int(word == "RECORD CONTRADICTS ITSELF")


if __name__ == "__main__":
    sys.exit(main())
