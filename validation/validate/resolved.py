"""Resolves the recorded deck again by a program (`xgsw --dry-run --json -`) and compares all keys with the record."""

import json
import math
import os
import re
import subprocess
import tempfile
from decimal import Decimal

from validate import devices
from validate.reference import is_named

GIVEN = "the deck says so"                              # backend_reason of a case whose backend the deck sets


class Unusable(Exception):
    """The program cannot be run, or prints something else."""


def output_of(command):
    """Runs a program to its end. Reads its output as records are read, in any locale."""
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)


def known_device(program, record):
    """Returns --device NAME of the record's GPUs if the program knows them: the recipes prefer their rows."""
    listed = output_of([program, "--list"]).stdout
    found = [name for name in re.findall(r"^  device (\S+)", listed, re.M)
             for case in record.cases[:1] if is_named(str(case.values.get("results/device", "")), name)]
    return ["--device", *found[:1]] if found else []


def device_memory(p):
    """Returns --device-memory GB, as the run had it: 10^9 bytes, without rounding."""
    if not len(p["device_memory"]):
        return []
    return ["--device-memory", f"{Decimal(devices.memory(p['device_name'][0], p['device_memory'])).scaleb(-9):f}"]


def resolve(program, record, on_host):
    """Returns all cases of the deck by number, with one entry for each repeat, and the program's message if it refuses
    the deck. on_host: whether backend = auto takes the host."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "recorded.dat")
        with open(path, "wb") as file:
            file.write(record.deck)
        command = [program, "--dry-run", path, "--ranks", str(len(record.provenance["hosts"])), "--json", "-",
                   "--node-ranks", str(list(record.provenance["nodes"]).count(record.provenance["nodes"][0]))]
        try:
            command += known_device(program, record) + device_memory(record.provenance)
            run = output_of(command + ["--on-host"] * on_host)
            lines = [json.loads(line) for line in run.stdout.splitlines()]
            # The forecast of a dry run follows the keys.
            found = [dict(list(line.items())[:list(line).index("invalid_reasons")]) for line in lines]
        except (OSError, ValueError) as error:
            raise Unusable(error) from None
    return {case["case"] + n: {**case, "case": case["case"] + n, "repeat": n + 1} for case in found
            for n in range(case["repeats"])}, run.stderr.strip()


def is_free(name, value, case):
    """Returns whether a key may differ because it depends on the machine, not on the deck."""
    return name == "backend_reason" or name == "skipped" and not value and not case.ran


def equal(found, value):
    return found == value or value is None and isinstance(found, float) and math.isnan(found)


def check_case(case, expected, f):
    f.numbers += len(expected)
    f.demand(expected, f"the deck has no case {case.settings.get('case')}")
    for name, value in expected.items():
        found = case.settings.get(name)
        f.demand(equal(found, value) or is_free(name, value, case),
                 f"{name} is {found!r} in the record, the deck makes it {value!r}")


def check(program, record, of_case, whole):
    """Adds a finding for each key that differs. The record says which backend auto took."""
    auto = dict.fromkeys(case.settings.get("backend") for case in record.cases
                         if case.settings.get("backend_reason") != GIVEN)
    answers = {backend: resolve(program, record, backend == "host") for backend in auto or ("host",)}
    refusals = dict.fromkeys(refusal for _, refusal in answers.values() if refusal)
    for refusal in refusals:
        whole.add(f"the deck cannot be resolved: {refusal}")
    if refusals:
        return
    planned, any_answer = record.root.get("cases_planned"), next(iter(answers.values()))
    whole.demand(planned in [len(cases) for cases, _ in answers.values()],
                 f"cases_planned is {planned} in the record, the deck makes it {len(any_answer[0])}")
    for case in record.cases:
        cases, _ = answers.get(case.settings.get("backend"), any_answer)
        check_case(case, cases.get(case.settings.get("case"), {}), of_case[case.name])
