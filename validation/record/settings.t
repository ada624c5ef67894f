#!/usr/bin/env python3
"""validate/deck.py resolves decks as the program does: random decks of all workloads, layouts and sizes on 1 to 2048
ranks, every setting of every case. And its tables of keys and fields are those that the program prints. TAP."""

import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE]
import runs  # noqa: E402, F401  (sets the path, and asks for h5py)
from program import Tap, alone  # noqa: E402
from validate import catalogue, deck, rules, schema  # noqa: E402
from validate.findings import Findings  # noqa: E402
from validate.record import read_record  # noqa: E402

LONG = "XGSW_TEST_LONG" in os.environ
SOUND, SEED = 2000 if LONG else 60, 16
RECORD_FILE = os.path.join(os.environ.get("BUILD", "build/mpicc"), "units", "record_file")
DEGREES = ("1", "2", "4", "8")
VALUES = {
    "size": ("full", "full", "small", "check", "auto"), "precision": ("bf16", "fp8", "fp32", "bf16 fp8"),
    "fp8_scale": ("exact", "power_of_two exact"), "steps": ("10", "12 50"), "warmup": ("0", "3"),
    "seed": ("1", "1 2", "7", "tender-7 1"), "tokens": ("uniform", "ramp", "zeros uniform"), "tensor": DEGREES,
    "pipeline": DEGREES, "context": ("1", "2"), "expert": ("1", "2", "8"), "data": ("1", "2", "2 4"),
    "shard": ("1", "2"), "chunks_per_stage": ("1", "2", "5", "8", "12"), "capacity": ("1", "1 none", "1.25"),
    "micro_batch": ("1", "2"), "global_batch": ("64", "128", "256 512"), "sequence": ("4096", "8192"),
    "layers": ("2", "8", "30", "32"), "hidden": ("256",), "ffn": ("1024",), "heads": ("8",), "kv_heads": ("4", "8"),
    "vocabulary": ("32000",), "recompute": ("none", "attention none"), "sharding": ("none", "none optimizer"),
    "schedule": ("gpipe", "1f1b", "interleaved"), "strips": ("1", "2 4", "3"), "context_gradients": ("bf16 fp32",),
    "overlap": ("off", "off on"), "order": ("hostile", "submitted hostile"), "order_seed": ("1 2",),
    "attention": ("own auto",), "transfer_sms": ("0", "16 32"), "learning_rate": ("1e-3", "0.00025", "3e-4 1e-4"),
    "learning_rate_warmup": ("5",), "check": ("off", "model"), "fault": ("drop  adamw 1 0",),
    "backend": ("host", "cuda"),
    "stall_seconds": ("7.5",), "time_limit": ("3600", "none"), "repeats": ("1", "3", "2 3"),
    "minutes": ("0.5", "none 2"), "expect": ("reference", "1e5", "none 2000"), "tolerance": ("0.25", "0.05 0.1"),
    "peak_bf16": ("500", "none 989"), "peak_fp8": ("1000", "none 1979"),
}
OFTEN = ("size", "precision", "tensor", "pipeline", "data", "chunks_per_stage", "layers")


def some_deck(rng):
    """Its text, and ranks for it. Layout keys are given together, mostly."""
    keys = [key for key in VALUES if rng.random() < (0.3 if key in OFTEN else 0.06)]
    body = "".join(f"{key} = {rng.choice(VALUES[key])}  # {key}\n" for key in keys if rng.random() < 0.5)
    for workload in rng.sample(sorted(catalogue.WORKLOADS), rng.choice((1, 1, 2))):
        own = "".join(f"{key} = {rng.choice(VALUES[key])}\n" for key in keys if rng.random() < 0.5)
        body += f"[{workload}]\n{own}"
    return f"a deck\nby chance\nrecord = none\n{body}", rng.choice((1, 2, 4, 6, 8, 16, 32, 64, 96, 128, 512, 2048))


def compare(folder, text, ranks):
    """Of a deck that the program takes: how many cases it has, and what differs."""
    name, out = os.path.join(folder, "deck.dat"), os.path.join(folder, "deck.h5")
    text = text.replace("record = none", f"record = {out}")
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    run = subprocess.run([RECORD_FILE, "--deck", name, str(ranks), out], capture_output=True, check=False)
    if run.returncode:
        return 0, []
    record, f = read_record(out), Findings()
    record.provenance["hosts"] = ["node"] * ranks
    expected = deck.check(record, f)
    for case in record.cases:
        deck.check_settings(case, expected.get(case.settings["case"]), f)
    f.demand(len(expected) == len(record.cases), f"{len(record.cases)} cases, not {len(expected)}")
    return len(record.cases), f.sentences


def random_decks(tap):
    rng, sound, cases, tried, wrong = random.Random(SEED), 0, 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        while sound < SOUND and not wrong:
            text, ranks = some_deck(rng)
            count, sentences = compare(folder, text, ranks)
            tried, sound, cases = tried + 1, sound + (count > 0), cases + count
            wrong = [f"{ranks} ranks:", *text.splitlines(), *sentences] if sentences else []
    tap.ok(not wrong, f"{sound} random decks of {cases} cases resolve to the program's settings ({tried} tried)",
           "\n".join(wrong))


def keys_drawn(tap):
    rare = {"record", "fp8_scaling", "share_devices", "deterministic", "weight_gradient_queue"}
    absent = deck.KEYS.keys() - VALUES.keys() - rare
    tap.ok(not absent, "random decks draw every key but those that are named here", absent)


def tables(tap):
    for options, path in ((("--keys", "--keys developer"), deck.KEYS_TABLE), (("--fields",), schema.FIELDS_TABLE)):
        printed = "".join(alone(*option.split()).stdout for option in options)
        with open(path, encoding="utf-8") as file:
            same = file.read() == printed
        name, program = os.path.relpath(path), "; ".join(f"./xgsw {option}" for option in options)
        tap.ok(same, f"{name} is what xgsw {' and '.join(options)} print", f"({program}) > {name}")
    developers = alone("--keys", "developer").stdout.split("\n\n")[0].split("\n")[1:]
    tap.ok([line.split()[0] for line in developers] == list(rules.DEVELOPER_KEYS),
           "rules.py knows the keys for developers")


def main():
    tap = Tap()
    tables(tap)
    keys_drawn(tap)
    random_decks(tap)
    tap.done()


main()
