#!/usr/bin/env python3
"""validate.py --deck-with: the program that wrote a record resolves its deck to the recorded settings, and every other
setting is named. Also, the table of fields and rules is what the program prints. TAP."""

import os
from types import SimpleNamespace

import runs
from program import alone
from validate import resolved, rules, schema
from validate.findings import Findings

VALIDATE = runs.script("validate")


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
    tap, place = runs.Tap(), runs.shared("sweep")
    tables(tap)
    record, kept, answers = runs.read_record(place.file("gsw.h5")), resolved.resolve, {}
    tap.ok(place.status == 1 and len(record.cases) == 9, "the run leaves 9 cases", place.text("err"))
    keys = {line.split()[0] for line in alone("--keys").stdout.split("\n\n")[0].split("\n")[1:]}
    absent = [keys - case.settings.keys() for case in record.cases]
    tap.ok(len(keys) > 30 and not any(absent), "each case has every key of a deck, even a skipped one", absent)
    # For all settings, the program resolves the deck once on each backend.
    answers.update((on_host, kept(runs.XGSW, record, on_host)) for on_host in (False, True))
    resolved.resolve = lambda _, __, on_host: answers[on_host]
    every_setting(tap, record)
    resolved.resolve = kept
    record.deck = record.deck.replace(b"layers = 2", b"layers = 3")
    found = differences(record)
    tap.ok("layers is 2 in the record, the deck makes it 3" in found, "another deck is found", found)
    record.deck += b"layers = none\n"
    found = differences(record)
    tap.ok(found and found[0].startswith("the deck cannot be resolved: "), "so is one that is refused", found)
    for program in ("/nowhere/xgsw", "/bin/echo"):
        code, told = runs.call(VALIDATE, "--deck-with", program, place.file("gsw.h5"))
        tap.ok(code == 2 and told.startswith(f"validate.py: --deck-with {program}: "), f"{program} is of no use", told)
    for least, size in ((8.5e10, "full"), (3e10, "small")):
        auto = SimpleNamespace(deck=b"of the device\ntext\n[llama3.1-70b]\n", cases=[], provenance={
            "hosts": ["a"] * 2, "nodes": [0] * 2, "device_name": ["NVIDIA H100"] * 2, "device_memory": [8.5e10, least]})
        found = kept(runs.XGSW, auto, False)
        tap.ok(found[0] and found[0][1]["size"] == size, f"size auto on GPUs of {least} bytes is {size}", found)
    place.close()
    tap.done()


main()
