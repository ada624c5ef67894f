#!/usr/bin/env python3
"""check = full on the GPU compares every operation of the check's steps and of the replayed steps with the host, in
FP32 and BF16, with both attention engines."""
import os
import sys

sys.path.insert(0, "validation/program")
from program import Tap, deck_file, ranks, results  # noqa: E402

SIZE = os.environ.get("XGSW_TEST_SIZE", "small")     # the emulator uses check
DECK = "backend = cuda\nrecord = none\ncheck = full\nsize = " + SIZE + \
         "\nsequence = 128\nwarmup = 0\nsteps = 1\n" \
       "precision = fp32 bf16\nstall_seconds = 120\n"

tap = Tap()
for engine in ("auto", "own"):
    for workload in ("llama3.1-8b", "llama2-70b"):
        run = ranks(1, deck_file(DECK + f"attention = {engine}\n[{workload}]\n"),
                    program=os.environ.get("XGSW", "./xgsw"))
        told = results(run)
        for i, precision in enumerate(("fp32", "bf16")):
            case = told[i] if i < len(told) else {}
            engines = str(case.get("engines")).split("\n", maxsplit=1)[0]      # the other lines are the products
            tap.ok(case.get("passed") and case.get("backend") == "cuda",
                   f"{workload}, {precision}, attention {engine}: {engines}",
                   case.get("fail_reasons") or run.stdout[-1500:] + run.stderr[-1500:])
tap.done()
