#!/usr/bin/env python3
"""validate.py --deck-with: the program that wrote a record resolves its deck to the recorded settings, and every other
setting is named. Also, the table of fields and rules is what the program prints. TAP."""

import os
import subprocess

import runs
from program import alone
from validate import resolved, rules, schema
from validate.findings import Findings
from validate.record import read_record

SCRIPT = os.path.join(runs.TOP, "validation", "validate.py")
# backend = auto, a sweep that omits some combinations, repeats, a word as seed, rules that fill in missing keys, and a
# case that is SKIPPED.
DECK = """a deck
to be resolved anew
check = off
steps = 3
size = check
[llama3.1-8b]
seed = tender-7 3
precision = fp32 fp8
fp8_scale = power_of_two exact
repeats = 2
[grok1-314b]
size = auto
expect = 1e3
layers = 2
[nemotron4-340b]
tensor = 4
"""


def validate(program, record):
    run = subprocess.run([SCRIPT, "--deck-with", program, record], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


def spoilt(value):
    return not value if isinstance(value, bool) else value + "x" if isinstance(value, str) else value * 2 + 1


def differences(record):
    """Returns sentences about the whole record and about its cases."""
    whole, of_case = Findings(), {case.name: Findings() for case in record.cases}
    resolved.check(runs.XGSW, record, of_case, whole)
    return [sentence for f in (whole, *of_case.values()) for sentence in f.sentences]


def is_named(record, case, name):
    """Returns whether another value of the setting is found."""
    kept = case.settings.get(name)
    case.settings[name] = spoilt(kept)
    sentences = differences(record)
    case.settings[name] = kept
    return any(sentence.startswith(f"{name} is ") for sentence in sentences)


def every_setting(tap, record):
    """Tests each setting of a case that ran, except those that identify the case or depend on the machine."""
    case = record.cases[0]
    other = {"case", "backend", "backend_reason", "verdict", "validity", "rules", "acceptance", "not_accepted",
             "expected_tokens_per_second", "NX_class", "default"}
    silent = [name for name in sorted(case.settings.keys() - other) if not is_named(record, case, name)]
    tap.ok(not silent, f"each of {len(case.settings.keys() - other)} settings is named if it differs", silent)


def tables(tap):
    with open(schema.WORDS_TABLE, encoding="utf-8") as file:
        same = file.read() == alone("--fields", "--rules", "--json", "-").stdout
    name = os.path.relpath(schema.WORDS_TABLE)
    tap.ok(same, f"{name} is what xgsw prints of its fields and rules", f"./xgsw --fields --rules --json {name}")
    developers = alone("--keys", "developer").stdout.split("\n\n")[0].split("\n")[1:]
    tap.ok([line.split()[0] for line in developers] == list(rules.DEVELOPER_KEYS),
           "rules.py knows the keys for developers")


def main():
    tap, place = runs.Tap(), runs.Place(DECK)
    tables(tap)
    status, output, errors = place.run(2)
    path = place.file(place.names(".h5")[0])
    record = read_record(path)
    tap.ok(status == 1 and len(record.cases) == 14, "the run leaves 14 cases", output[-500:] + errors)
    code, told = validate(runs.XGSW, path)
    tap.ok(code == 0 and told.endswith("; deck resolved anew\n"), "the deck resolves to what was recorded", told)
    every_setting(tap, record)
    record.deck = record.deck.replace(b"layers = 2", b"layers = 3")
    found = differences(record)
    tap.ok("layers is 2 in the record, the deck makes it 3" in found, "another deck is found", found)
    record.deck += b"layers = none\n"
    found = differences(record)
    tap.ok(found and found[0].startswith("the deck cannot be resolved: "), "so is one that is refused", found)
    for program in ("/nowhere/xgsw", "/bin/echo"):
        code, told = validate(program, path)
        tap.ok(code == 2 and told.startswith(f"validate.py: --deck-with {program}: "), f"{program} is of no use", told)
    place.close()
    tap.done()


main()
