"""The recorded deck, resolved anew by a program (`xgsw --dry-run --json -`) and compared with the record key by key."""

import json
import math
import os
import re
import subprocess
import tempfile

from validate.reference import is_named

GIVEN = "the deck says so"                              # why a case has its backend, unless auto chose it


class Unusable(Exception):
    """A program that cannot be run, or that answers with something else."""


def known_device(program, record):
    """--device NAME for the record's GPUs, if the program knows them: their rows of the recipes come first."""
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=False).stdout
    found = [name for name in re.findall(r"^  device (\S+)", listed, re.M)
             for case in record.cases[:1] if is_named(str(case.values.get("results/device", "")), name)]
    return ["--device", *found[:1]] if found else []


def resolve(program, record, on_host):
    """All cases of the deck by their numbers, a repeat each, if backend = auto takes the host or GPUs; and why the
    program refuses the deck, if it does."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "recorded.dat")
        with open(path, "wb") as file:
            file.write(record.deck)
        command = [program, "--dry-run", path, "--ranks", str(len(record.provenance["hosts"])), "--json", "-"]
        try:
            command += known_device(program, record)
            run = subprocess.run(command + ["--on-host"] * on_host, capture_output=True, text=True, check=False)
            lines = [json.loads(line) for line in run.stdout.splitlines()]
            # The forecast of a dry run comes after the keys.
            found = [dict(list(line.items())[:list(line).index("invalid_reasons")]) for line in lines]
        except (OSError, ValueError) as error:
            raise Unusable(error) from None
    return {case["case"] + n: {**case, "case": case["case"] + n, "repeat": n + 1} for case in found
            for n in range(case["repeats"])}, run.stderr.strip()


def is_free(name, value, case):
    """What the machine lacks is not in the deck."""
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
    """Adds each key whose value differs. What auto took is what the record says."""
    auto = {case.settings.get("backend") for case in record.cases if case.settings.get("backend_reason") != GIVEN}
    answers = {backend: resolve(program, record, backend == "host") for backend in auto or {"host"}}
    refusals = {refusal for _, refusal in answers.values() if refusal}
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
