#!/usr/bin/env python3
"""Faults in every kind of operation that a fault can name, both in the check and in the timed steps (faults.py): one
kind of fault for each operation in one layout (full test: two); in the long test all kinds in all layouts. Also faults
that cannot strike, or that strike another operation in the check than in the timed steps."""
from collections import Counter

from faults import LAYOUTS, NEVER, PRECISIONS, RANKS, executions, judge, operations, run, wrong
from program import FULL, LONG, PROGRAM, Tap, alone, deck_file, results

BRIEF = 0, 2, 4, 7, 8, 11     # layouts of the short test: they execute every kind of operation
KINDS = ["drop", "stale", "scale", "repeat", "flip"]
# Here the 24th product writes a gradient in the check, and adds to one in the timed steps.
ELSEWHERE = "record = none\nbackend = host\nsteps = 1\nwarmup = 0\n[llama3.1-8b]\nsize = small\nlayers = 1\n" \
            "global_batch = 4\nfault = repeat matmul 24 0\n"
STRIKES_NOT = [("drop matmul 9999 1", ""), (f"drop matmul 1 {RANKS}", ""), ("unwait rope_forward 1 0", ""),
               ("drop matmul 62 0", "layers = 3\n")]          # the last one only in the timed steps

tap = Tap()
cells = [(*layout, PRECISIONS[(at + turn) % len(PRECISIONS)], "") for turn in ((0, 1, 2, 3) if LONG else (0,))
         for at, layout in enumerate(LAYOUTS) if FULL or at in BRIEF]
healthy = dict(zip((cell[:3] for cell in cells), run(cells)))
failed = [cell for cell, result in healthy.items() if not result["passed"]]
tap.ok(not failed, f"{len(healthy)} cases without a fault PASSED", failed)

faults, seen = [], Counter()
for where, result in healthy.items():
    for at, operation in enumerate(operations(result)):
        if seen[operation] and not LONG:
            continue
        seen[operation] += 1
        count = executions(result, operation)
        for turn in range(len(KINDS) if LONG else 1 + FULL):
            kind = KINDS[(len(faults) + at + turn) % len(KINDS)]
            faults.append((*where, f"{kind} {operation} {1 + (at + turn) * 7 % count} {(at + turn) % RANKS}"))
words = judge(faults, healthy)
for word, count in sorted(Counter(words).items()):
    tap.say(f"{count:4} {word}")
tap.ok("WRONG" not in " ".join(words), f"{len(faults)} faults are FAILED or harmless", wrong(faults, words))
tap.ok(sum("FAILED" in word for word in words) > len(faults) // 2, "more than half of them are FAILED")
named = alone("--keys", "developer").stdout.rpartition("Operations for fault:")[2].split()
tap.ok(named and set(named) == set(seen), "every kind of operation that a fault can name has a row",
       set(named) ^ set(seen))

where = ("llama3.1-8b", "tensor = 2\nsharding = optimizer\noverlap = off", "precision = fp32")
lost = [(where[0], where[1] + "\n" + more, where[2], fault) for fault, more in STRIKES_NOT]
for case, result in zip(lost, run(lost)):
    tap.ok(result["verdict"] == "FAILED" and NEVER in str(result["fail_reasons"]),
           f"{case[3]} is said to strike nothing", result["fail_reasons"])
run_elsewhere = alone(deck_file(ELSEWHERE), threads=2, program=PROGRAM)
said = results(run_elsewhere)[0]["fail_reasons"]
tap.ok(run_elsewhere.returncode == 1 and "(backward: written, read, read) in the check, but matmul" in str(said),
       "a fault that strikes other operations in the check and in the timed steps is FAILED, status 1", said)
tap.done()
