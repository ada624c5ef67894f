#!/usr/bin/env python3
"""Cases on GPUs, checked before and after: every way to divide a model among 1, 2 and 4 ranks, in FP32 and BF16."""
import os
import sys

sys.path.insert(0, "validation/program")
from program import Tap, deck_file, ranks, results  # noqa: E402

SIZE = os.environ.get("XGSW_TEST_SIZE", "small")     # the emulator uses check
CUTS = {
    1: ["tensor = 1"],
    2: ["tensor = 2", "pipeline = 2", "data = 2\nsharding = none", "data = 2\nsharding = optimizer", "context = 2"],
    4: ["tensor = 2\npipeline = 2\nchunks_per_stage = 2", "tensor = 2\ncontext = 2",
        "tensor = 2\ndata = 2\noverlap = off"],
}
COMMON = "backend = cuda\nshare_devices = yes\nrecord = none\nsize = " + SIZE + \
         "\nsequence = 128\nwarmup = 1\nsteps = 3\n" \
         "precision = fp32 bf16\nstall_seconds = 120\n"

tap = Tap()
for count, cuts in CUTS.items():
    deck = COMMON + "".join(f"[llama3.1-70b]\n{cut}\n" for cut in cuts)
    run = ranks(count, deck_file(deck), program=os.environ.get("XGSW", "./xgsw"), timeout=3600)
    told = results(run)
    for i, cut in enumerate(cuts):
        for j, precision in enumerate(("fp32", "bf16")):
            case = told[2 * i + j] if 2 * i + j < len(told) else {}
            residual = (case.get("check_model") or {}).get("residual")
            tap.ok(case.get("passed") and case.get("backend") == "cuda" and case.get("precision") == precision,
                   f"{count} rank(s), {cut.replace(chr(10), ', ')}, {precision}: residual {residual}",
                   case.get("fail_reasons") or run.stdout[-1500:] + run.stderr[-1500:])
tap.done()
