#!/usr/bin/env python3
"""The page of a record has the record's numbers and the worst word, names a slow GPU among 512, and loads nothing. In
the long test headless Chromium draws it. TAP."""

import html
import os
import re
import shutil
import subprocess
import warnings

from runs import LONG, Tap, call, read_record, shared

import h5py
import multiplied
import numpy as np
import page    # validation/page.py
from validate.html import NARROW, number, scaled, seconds
from validate.page.shown import Run

FOREIGN = re.compile(r"<script|<link|<iframe|\bsrc\s*=|https?:|url\((?!#)|@import", re.IGNORECASE)


def write(*arguments):
    """Returns status and output of page.py, and the page that it names."""
    status, said = call(page, *arguments)
    name = said.split(": ")[0]
    text = open(name, encoding="utf-8").read() if os.path.exists(name) else ""
    return status, said, text


def words(text):
    """Returns the text that a reader sees on a page, including pictures."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<style.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)))


def is_number(text, value):
    """Returns whether the text is this value with three digits, possibly in ms or s."""
    found = re.match(r"([\d.]+)(ms|s)?$", re.sub(r"\s", "", text))
    return bool(found) and abs(float(found[1]) * (1e-3 if found[2] == "ms" else 1) / value - 1) < 0.005


def check_numbers(tap, record, text):
    rows = re.findall(r"<tr><td><a href=.*?</tr>", text, re.DOTALL)
    cases, compared = {str(case.settings["case"]): case for case in record.cases if case.ran}, 0
    for row in rows:
        cells = [words(cell).strip() for cell in re.split("<td[^>]*>", row)]
        numbers = "results/mean_seconds", "results/tokens_per_second_per_gpu", "check_model/residual"
        if cells[1] not in cases:    # several repeats, or a skipped case
            continue
        case, compared = cases[cells[1]], compared + 1
        found = [any(is_number(cell, case[name]) for cell in cells) for name in numbers]
        tap.ok(all(found), f"{case.name}: step, speed and residual are the record's", f"{found} {cells}")
    tap.ok(len(rows) == 5 and compared == 3 and "script-src" not in text
           and "default-src 'none'" in text and not FOREIGN.search(text)
           and "Page <script>alert(1)</script> of a test" in words(text),
           "it loads nothing and runs nothing; a title with a script is text", FOREIGN.findall(text))


def recover(record):
    """Reduces the last case to what a journal would leave of it."""
    case = record.cases[-1]
    kept = {"steps/step", "steps/step_seconds", "steps/losses", "results/completed", "results/invalid_reasons"}
    case.values = {path: value for path, value in case.values.items() if path in kept}
    case.settings.update(verdict="INTERRUPTED", validity="NOT VALID")


def skip(record):
    for case in record.cases:
        case.values = {}
        case.settings.update(verdict="SKIPPED", skipped="needs 64 ranks", validity="NOT VALID")


def set_all(**settings):
    return lambda record: [case.settings.update(settings) for case in record.cases]


def set_last(**settings):
    return lambda record: record.cases[-1].settings.update(settings)


# From the best word to the worst. Each record is a sound one with all changes up to its line.
WORDS = (("NOTHING TRAINED", (skip,)), ("VALID", ()), ("NOT VALID", (set_last(validity="NOT VALID"),)),
         ("ACCEPTED", (set_all(acceptance="ACCEPTED"),)),
         ("NOT ACCEPTED", (set_last(acceptance="NOT ACCEPTED", verdict="SKIPPED", skipped="needs 64 ranks"),)),
         ("INCOMPLETE", (recover,)), ("FAILED", (lambda record: record.cases[0].settings.update(verdict="FAILED"),)),
         ("RECORD CONTRADICTS ITSELF", ()))


def word_in_box(path, changes, contradictions):
    record = read_record(path)
    record.cases = [case for case in record.cases if case.ran]
    record.root["cases_planned"] = len(record.cases)
    for change in (set_all(verdict="PASSED", validity="VALID", acceptance=""), *changes):
        change(record)
    run = Run(record, contradictions, {case.name: [] for case in record.cases}, "gsw.h5", path, "0" * 64,
              page.Cleaner(False))
    return re.search(r"<h1>\S+ (.*?)</h1>", page.page_of([run])[1])[1]


def check_words(tap, path):
    so_far = ()
    for word, changes in WORDS:
        contradictions = ["invented"] if word.startswith("RECORD") else []
        found = word_in_box(path, so_far + changes, contradictions)
        tap.ok(found == word, f"the word {word}", found)
        so_far += changes if word != "NOTHING TRAINED" else ()


def check_spoilt(tap, place, path):
    spoilt = place.file("spoilt.h5")
    shutil.copy(path, spoilt)
    with h5py.File(spoilt, "r+") as file:
        file["case_0001/results/tokens_per_second"][()] = 1.0
    status, said, text = write(spoilt)
    tap.ok(status == 1 and "tokens_per_second is" in words(text), "a spoilt record: status 1, the page says why", said)
    with h5py.File(spoilt, "r+") as file:
        del file["case_0001/ranks/late_seconds"]
    status, said, text = write(spoilt)
    tap.ok(status == 1 and "late_seconds" in words(text) and "This case is not drawn" in words(text),
           "a dataset is missing: status 1, the page says which and draws the rest", said)
    status, said, _ = write(place.file("none.h5"))
    tap.ok(status == 2 and "there is no such file" in said, "no record: status 2 and a sentence", said)


def check_recovered(tap, path):
    records = [read_record(path) for _ in range(2)]
    recover(records[0])
    runs = [Run(record, [], {case.name: [] for case in record.cases}, "gsw.h5", path, "0" * 64, page.Cleaner(False))
            for record in records]
    word, text = page.page_of(runs)
    tap.ok(word == "INCOMPLETE" and "by number of ranks" in text, "a recovered record and another have a page", word)


def check_rounding(tap):
    found = [str(text).replace(NARROW, " ") for text in (
        number(9.996), number(999.6), number(3524030), seconds(0.9999), scaled(999900, "B"), scaled(5e-4, "J"))]
    expected = ["10.0", "1 000", "3 524 030", "1.00 s", "1.00 MB", "0.500 mJ"]
    tap.ok(found == expected, "numbers are rounded before their unit is chosen", found)


def check_many(tap, place, path):
    many, name = place.file("many.h5"), "nid100023 GPU 5"
    multiplied.multiply(path, many, 512, 2, 189, 46)
    bus = ", bus 00000000:15:00.0"    # the sixth GPU of a node
    status, said, text = write(many)
    box, tiles = text[text.index('<div class="box') : text.index("<h2>")].split('<div class="tiles"')
    tap.ok(status == 0 and name + bus in words(box) and f"1 of 512 rank 189, {name}{bus}" in words(tiles),
           "among 512 GPUs the slow one is in the box and in a tile, with its bus", f"{said} {box} {tiles}")
    tap.ok("node nid100046: +" in text and "no verdict" in text and "nid100046: its 8 ranks compute 5" in words(text),
           "a node that is a little slow is named on the map")
    with h5py.File(place.file("many.calibration.h5"), "w") as file:    # the third of four hosts is not in the record
        file["ranks/host"] = np.array([b"nid100000", b"nid100001", b"nid1spare", b"nid100003"])
        file["links/ranks"] = np.array([(0, 1), (2, 3), (0, 2), (1, 3)])
        file["links/seconds"] = np.array([[1.0], [1.5], [1.0], [1.0]])
    status, said, text = write(many, "--anonymous", "-o", place.file("anonymous.html"))
    shown = [word for word in ("nid1", "GPU-0000", place.path, "many", "of a test", "00000000:") if word in text]
    hidden = status == 0 and "node-024 GPU 5" in words(text) and not shown
    tap.ok(hidden, "--anonymous hides names", f"{said} {shown}")
    tap.ok("rank 2 on node-065, rank 3 on node-004 50.0 %" in words(text), "the slowest link is named")
    return place.file("many.html")


def check_chromium(tap, place, path):
    program = shutil.which("chromium")
    if not program:
        return tap.ok(True, "Chromium draws and prints it # SKIP no chromium here")
    # Chromium must run scripts, because it takes the picture by one. The page's policy (CSP) forbids its own scripts.
    for how in ("--screenshot --window-size=1200,3000", "--screenshot --window-size=400,3000", "--print-to-pdf"):
        out = place.file("drawn.png" if "shot" in how else "drawn.pdf")
        words = how.replace("--screenshot", f"--screenshot={out}").replace("to-pdf", f"to-pdf={out}").split()
        done = subprocess.run([program, "--headless", "--no-sandbox", "--enable-logging=stderr", *words,
                               f"--user-data-dir={place.file('browser')}", path], capture_output=True, text=True,
                              check=False, timeout=300)
        tap.ok(os.path.exists(out) and os.path.getsize(out) > 10000 and "CONSOLE" not in done.stderr, how, done.stderr)


def main():
    warnings.simplefilter("ignore", RuntimeWarning)
    tap, place = Tap(), shared("host")
    path = place.file("gsw.h5")
    status, said, text = write(path)
    tap.ok(status == 0, "a page is written", said)
    check_numbers(tap, read_record(path), text)
    check_words(tap, path)
    check_spoilt(tap, place, path)
    check_recovered(tap, path)
    check_rounding(tap)
    many = check_many(tap, place, path)
    if LONG:
        check_chromium(tap, place, many)
    place.close()
    tap.done()


main()
