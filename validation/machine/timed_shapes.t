#!/usr/bin/env python3
"""Libraries that are wrong at the timed shapes only, because the check model's are smaller: the replay fails every
case. On the host these are oneDNN and MPI, by a preloaded library (wrong_shapes.c); on the emulated GPU it is one
algorithm of cuBLASLt (EMULATOR_WRONG_PRODUCTS)."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, "validation/program")
from program import Tap, deck_file, results  # noqa: E402

DECK = "size = small\nlayers = 2\nhidden = 256\nffn = 512\nheads = 8\nkv_heads = 4\nvocabulary = 2048\n" \
       "sequence = {}\nmicro_batch = 1\nglobal_batch = 2\nrecord = none\nprecision = {}\nwarmup = 0\nsteps = {}\n" \
       "backend = {}\n[llama3.1-8b]\n{}\n"
EMULATOR = "build/emulator/xgsw-emulator"
# The check model's largest product takes 65,536 bytes and 8.4 million multiplications, its largest message less than
# 60,000 bytes (issue 28); PRODUCT and FLOPS are between that and the timed model's.
PRODUCT, FLOPS, MESSAGE = 100000, 16000000, 60000


def run(deck, ranks, program, **variables):
    environment = dict(os.environ, OMP_NUM_THREADS="1", **variables)
    command = [program, deck] if ranks == 1 else ["run/local", "-q", "-n", str(ranks), "-x", program, deck]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)


def judge(tap, name, done, words, count=1):
    """words: of a reason why each case FAILED, while none is of the check; None: it passes."""
    cases = results(done)
    found = len(cases) == count and all(
        not case["fail_reasons"] if words is None else any(words in reason for reason in case["fail_reasons"])
        for case in cases)
    reasons = [reason for case in cases for reason in case["fail_reasons"]]
    tap.ok(found and not any(reason.startswith("check") for reason in reasons), name,
           reasons or done.stdout[-1500:] + done.stderr[-1500:])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        shim = os.path.join(folder, "wrong_shapes.so")
        subprocess.run([os.environ.get("MPICC", "mpicc"), "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", shim,
                        "validation/machine/wrong_shapes.c", "-ldl"], check=True)
        program = os.path.abspath(os.environ.get("XGSW", "./xgsw"))
        deck = deck_file(DECK.format(128, "fp32 bf16 fp8", 2, "host", ""))
        judge(tap, "as it is", run(deck, 1, program), None, 3)
        for deed in ("zeros", "piece"):
            done = run(deck, 1, program, LD_PRELOAD=shim, WRONG_SHAPES=f"{deed} {PRODUCT}")
            judge(tap, f"oneDNN: {deed}", done, "matrix product", 3)
        deck = deck_file(DECK.format(256, "bf16", 2, "host", "tensor = 2"))
        done = run(deck, 2, program, LD_PRELOAD=shim, WRONG_SHAPES=f"cut {MESSAGE}")
        judge(tap, "MPI: messages cut to 8 bytes", done, "what arrived is not what was sent")
    deck = deck_file(DECK.format(128, "bf16 fp8", 1, "cuda", "algorithms = none"))
    for deed in ("zeros", "piece", "terms"):
        done = run(deck, 1, EMULATOR, EMULATOR_WRONG_PRODUCTS=f"{deed} {FLOPS}")
        judge(tap, f"an algorithm of cuBLASLt: {deed}", done, "matrix product", 2)
    tap.done()


main()
