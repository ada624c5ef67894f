#!/usr/bin/env python3
"""Random faults over all families, precisions and layouts, both in the check and in the timed steps (faults.py).

    faults/random.t [SEED]       the default seed is 1; 40 faults, 400 in the long test"""
import random
import sys
from collections import Counter

from faults import LAYOUTS, PRECISIONS, RANKS, executions, judge, operations, run, wrong
from program import LONG, Tap

FAULTS = 400 if LONG else 40
KINDS = ["drop", "stale", "repeat", "scale", "flip", "unwait"]

seed, tap = int(sys.argv[1]) if len(sys.argv) > 1 else 1, Tap()
draw = random.Random(seed)
cells = draw.sample([(*layout, precision, "") for layout in LAYOUTS for precision in PRECISIONS], FAULTS // 10 + 4)
healthy = dict(zip((cell[:3] for cell in cells), run(cells)))
failed = [cell for cell, result in healthy.items() if not result["passed"]]
tap.ok(not failed, f"seed {seed}: {len(healthy)} cases without a fault PASSED", failed)
faults = []
for _ in range(FAULTS):
    where = draw.choice(list(healthy))
    operation = draw.choice(operations(healthy[where]))
    nth = draw.randint(1, executions(healthy[where], operation))
    faults.append((*where, f"{draw.choice(KINDS)} {operation} {nth} {draw.randrange(RANKS)}"))
words = judge(faults, healthy)
for word, count in sorted(Counter(words).items()):
    tap.say(f"{count:4} {word}")
tap.ok("WRONG" not in " ".join(words), f"{FAULTS} random faults are FAILED or harmless", wrong(faults, words))
tap.ok(sum("FAILED" in word for word in words) > FAULTS // 4, "more than a quarter of them are FAILED")
tap.done()
