#!/usr/bin/env python3
"""Random faults over all families, precisions and several layouts, in the check and in the timed steps alike: each ends
FAILED, or leaves losses, norms and final weights bit for bit as they are without it.

    faults/random.t [SEED]       the default seed is the day's; 40 faults, 400 in the long suite

Final weights: the check model's by the digest in check_model; of the timed steps, in which the fault strikes every step,
those of all steps but the last by the losses and norms of the steps after."""
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "program"))
from program import Tap, deck_file, ranks, results  # noqa: E402

FAULTS, RANKS, STEPS, BLOCK = 400 if "XGSW_TEST_LONG" in os.environ else 40, 4, 3, 100
NEVER = "the planted fault never struck"
KINDS = ["drop", "stale", "repeat", "scale", "flip", "unwait"]
PRECISIONS = ["precision = fp32", "precision = bf16", "precision = fp8", "precision = fp8\nfp8_scaling = current"]
LAYOUTS = [
    ("llama3.1-8b", "tensor = 2\nsharding = optimizer\nstrips = 2"), ("llama3.1-8b", "context = 2\nsharding = optimizer"),
    ("llama3.1-8b", "tensor = 4"), ("llama3.1-70b", "pipeline = 2\nchunks_per_stage = 2\ntensor = 2"),
    ("llama3.1-70b", "pipeline = 4"), ("llama2-70b", "shard = 2\ndata = 2\nsharding = optimizer"),
    ("nemotron4-340b", "tensor = 2\ndata = 2\nsharding = optimizer"), ("gpt3-175b", "pipeline = 2\ndata = 2"),
    ("gpt3-175b", "data = 2\ntensor = 2\nsharding = optimizer"), ("grok1-314b", "expert = 2\ntensor = 2"),
    ("grok1-314b", "expert = 2\ncontext = 2\nsharding = optimizer"), ("grok1-314b", "expert = 4\nsharding = none"),
]


def run(cases):
    """Result lines of (workload, layout, precision, fault)."""
    found = []
    for at in range(0, len(cases), BLOCK):
        text = f"size = check\nsteps = {STEPS}\nwarmup = 0\nbackend = host\nrecord = none\n"
        for workload, layout, precision, fault in cases[at:at + BLOCK]:
            text += f"[{workload}]\n{precision}\n{layout}\n" + (f"fault = {fault}\n" if fault else "")
        done = ranks(RANKS, deck_file(text), timeout=3000)
        found += results(done)
        if len(found) != min(at + BLOCK, len(cases)):
            sys.exit(f"Bail out! {len(found)} results\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return found


def drawn(draw, healthy):
    """Faults of operations that rank 0 has, each kind of operation as often."""
    for _ in range(FAULTS):
        where = draw.choice(list(healthy))
        operation, counted = draw.choice(list(healthy[where]["operations"].items()))
        yield *where, (f"{draw.choice(KINDS)} {operation} {draw.randint(1, max(1, counted['count'] // STEPS))} "
                       f"{draw.randrange(RANKS)}")


def numbers(result):
    return result["check_model"]["digest"], result["losses"], result["gradient_norms"]


def found_by(result):
    check = result["check_model"]
    found = {"residual": not check["passed"] and not check["differing"], "shadow": result["shadowed_mismatches"],
             "transfers": "run twice" not in check["difference"] and check["differing"],
             "second run": "run twice" in check["difference"], "hazards": result["hazards"]}
    return next((name for name, by in found.items() if by and name != "residual"),
                "residual" if found["residual"] else "timed steps")


def verdict(result, healthy):
    if any(NEVER in reason for reason in result["fail_reasons"]):
        return "struck nothing"
    if result["verdict"] == "FAILED":
        return "FAILED by " + found_by(result)
    return "harmless" if numbers(result) == numbers(healthy) else "WRONG: passed, with other numbers"


def main():
    seed, tap = int(sys.argv[1]) if len(sys.argv) > 1 else int(time.time()) // 86400, Tap()
    draw = random.Random(seed)
    cells = [(*layout, precision, "") for layout in LAYOUTS for precision in PRECISIONS]
    cells = draw.sample(cells, min(len(cells), max(FAULTS // 4, 4)))
    sound = dict(zip((cell[:3] for cell in cells), run(cells)))
    bad = [cell for cell, result in sound.items() if not result["passed"]]
    tap.ok(not bad, f"seed {seed}: {len(sound)} cases without a fault PASSED", bad)
    faults = list(drawn(draw, sound))
    words = [verdict(result, sound[case[:3]]) for case, result in zip(faults, run(faults))]
    for word, count in sorted(Counter(words).items()):
        tap.say(f"{count:4} {word}")
    wrong = [f"{case}: {word}".replace("\\n", "; ") for case, word in zip(faults, words) if "WRONG" in word]
    tap.ok(not wrong, f"{FAULTS} random faults are FAILED or harmless", "\n".join(wrong))
    tap.ok(sum("FAILED" in word for word in words) > FAULTS // 4, "a quarter of them, at least, are FAILED")
    tap.done()


main()
