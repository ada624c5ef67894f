#!/usr/bin/env python3
"""The same deck on the GPU and on the host: the losses and gradient norms of every step. FP32 sums in another order and BF16
rounding move them; ten steps at these rates multiply what moved by less than ten. Limits, relative: FP32 2e-5, as agreement between
layouts has it (1e-6 a step, ten steps, two programs); BF16 2^-8 (a rounding of one unit, half of it in each program, in the whole loss
is far more than rounding of many terms makes). Norms take ten times as much: they are roots of sums of squares of differences."""
import os
import sys

sys.path.insert(0, "validation/program")
from program import Tap, deck_file, ranks, results  # noqa: E402

LIMIT = {"fp32": 2e-5, "bf16": 2.0 ** -8}
SIZE = os.environ.get("XGSW_TEST_SIZE", "small")     # check: on the emulator
DECK = "algorithms = none\nrecord = none\ncheck = off\nsize = " + SIZE + "\nsequence = 128\nwarmup = 0\nsteps = 10\n"

tap = Tap()
for precision, limit in LIMIT.items():
    for workload in ("llama3.1-8b", "llama3.1-70b"):
        seen = {}
        for backend in ("cuda", "host"):
            run = ranks(1, deck_file(DECK + f"backend = {backend}\nprecision = {precision}\n[{workload}]\n"),
                        program=os.environ.get("XGSW", "./xgsw"))
            told = (results(run) or [{}])[0]
            seen[backend] = list(zip(told.get("gradient_norms", []), told.get("losses", [])))
            tap.ok(run.returncode == 0 and len(seen[backend]) == 10 and told["backend"] == backend, f"{workload}, {precision} runs on {backend}", run.stdout[-1500:] + run.stderr[-1500:])
        pairs = list(zip(seen["cuda"], seen["host"]))
        norm, loss = (max((abs(a[i] / b[i] - 1.0) for a, b in pairs), default=1.0) for i in (0, 1))
        tap.ok(loss <= limit and norm <= 10 * limit, f"{workload}, {precision}: losses differ by {loss:.2g} of {limit:.2g}, norms by {norm:.2g}")
tap.done()
