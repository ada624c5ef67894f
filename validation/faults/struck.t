#!/usr/bin/env python3
"""A fault may pass only where it strikes the same operation in the check and in the timed steps.

Here the 24th product writes a gradient in the check, where run twice it writes the same, and adds to one in the timed
steps, whose norms are then 5 % off. The first product is the same forward product in both."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "program"))
from program import Tap, alone, deck_file, results  # noqa: E402

SMALL = ("record = none\nbackend = host\nsteps = 1\nwarmup = 0\n"
         "[llama3.1-8b]\nsize = small\nlayers = 1\nglobal_batch = 4\n")
ELSEWHERE = ("the planted fault struck matmul d_attention_output (backward: written, read, read) in the check, "
             "but matmul down_gradient (backward: added to, read, read) in the timed steps")

tap = Tap()
for fault, passes, reason in (("repeat matmul 24 0", False, ELSEWHERE), ("repeat matmul 1 0", True, "")):
    run = alone(deck_file(SMALL + f"fault = {fault}\n"), threads=2)
    case = results(run)[0]
    said = [line for line in case["fail_reasons"] if reason in line] if reason else [""]
    tap.ok(case["passed"] == passes and run.returncode == (0 if passes else 1) and len(said) == 1,
           f"{fault}: {'PASSED' if passes else 'FAILED: ' + reason}", (case["verdict"], case["fail_reasons"]))
tap.done()
