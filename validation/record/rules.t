#!/usr/bin/env python3
"""The run rules, on records that each break one rule (units/bench/rules.c): validate.py finds what the program says,
and detects a record that is wrongly called VALID. TAP."""

import os
import subprocess
import tempfile

from runs import TOP, UNITS, Tap, read_record

import numpy as np
from program import alone
from validate import rules, slow
from validate.findings import Findings


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
    wrong = {case.settings["model_name"]: sentences for case in record.cases
             if (sentences := found(case, record.provenance))}
    tap.ok(not wrong, f"{len(record.cases)} cases are as VALID as the rules say", wrong)
    unfound = []
    for case in planted:
        broken |= {begins for begins, rule in rules.RULES.items() if rule(case, record.provenance)}
        call_valid(case)
        if not any("recorded VALID, but" in s for s in found(case, record.provenance)):
            unfound.append(case.settings["model_name"])
    tap.ok(not unfound, f"{len(planted)} of them, called VALID, are found out", unfound)
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
