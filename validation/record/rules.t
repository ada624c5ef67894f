#!/usr/bin/env python3
"""The run rules, on records that each break one rule (units/bench/rules.c): validate.py finds what the program says,
and detects a record that is wrongly called VALID. TAP."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "program")]
from validate import libraries  # noqa: E402

libraries.need()

import numpy as np  # noqa: E402
from program import Tap, alone  # noqa: E402
from validate import rules, slow  # noqa: E402
from validate.findings import Findings  # noqa: E402
from validate.record import read_record  # noqa: E402

UNITS = os.environ.get("XGSW_UNITS", os.path.join(TOP, os.environ.get("BUILD", "build/mpicc"), "units"))


def found(case, provenance):
    f = Findings()
    rules.check_rules(case, provenance, f)
    slow.check_slow_steps(case, f)
    return f.sentences


def call_valid(case):
    case.settings["validity"] = "VALID"
    case.values["results/invalid_reasons"] = []


def main():
    tap, broken = Tap(), set()
    tables = [np.random.default_rng(n).integers(0, 4, (50, n)) / 3 for n in range(2, 8)]     # with ties
    expected = [[np.median(np.delete(t, i, axis=1), axis=1) for i in range(t.shape[1])] for t in tables]
    tap.ok(all(np.array_equal(slow.medians_of_others(t).T, e) for t, e in zip(tables, expected)),
           "the median of a rank's peers, of 2 to 7 ranks")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rules.h5")
        subprocess.run([os.path.join(UNITS, "rules"), "--record", path], check=True)
        record = read_record(path)
    planted = [case for case in record.cases if case.settings["validity"] != "VALID"]
    for case in record.cases:
        name, sentences = case.settings["model_name"], found(case, record.provenance)
        tap.ok(not sentences, f"{name}: {case.settings['validity']}, as the rules say", sentences)
    for case in planted:
        broken |= {begins for begins, rule in rules.RULES.items() if rule(case, record.provenance)}
        call_valid(case)
        name, sentences = case.settings["model_name"], found(case, record.provenance)
        tap.ok(any("recorded VALID, but" in s for s in sentences), f"{name}, called VALID, is found out", sentences)
    case = next(case for case in record.cases if case.settings["model_name"] == "sound_on_the_host")
    case.settings.update(steps=3, minutes="0.001")
    tap.ok(not found(case, record.provenance), "a soak has the steps that it came to, not the deck's")
    case.settings.update(minutes="none")
    tap.ok(found(case, record.provenance) == ["recorded VALID, but it timed 3 steps, 10 are needed"],
           "a case that is no soak has the deck's")
    unbroken = rules.RULES.keys() - broken - {"debug build"}
    with open(os.path.join(TOP, "validation", "RULES.md"), encoding="utf-8") as file:
        page = file.read()
    table = alone("--rules").stdout
    tap.ok(table.startswith("| name |") and f"## VALID\n\n{table}\n" in page, "RULES.md has what --rules prints", table)
    names = {word for line in table.splitlines()[2:] for word in line.split("|")[1].strip().split(", ")}
    told = {rule.split(":")[0] for rule in rules.RULES} | {"outlier"}
    tap.ok(names == told, "--rules names every rule", names ^ told)
    tap.ok(len(planted) >= 30 and not unbroken, f"{len(planted)} violations, of every rule", unbroken)
    tap.done()


main()
