#!/usr/bin/env python3
"""Libraries that are wrong only at the timed shapes, because those of the check model are smaller: the replay must fail
every case. On the host they are oneDNN and MPI, wrong by a preloaded library (wrong_shapes.c). On the emulated GPU it
is one algorithm of cuBLASLt (EMULATOR_WRONG_PRODUCTS), or MPI, which carries NCCL's messages there. The long test tries
all deeds on the emulated GPU, too."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, "validation/program")
from program import LONG, Tap, deck_file, results  # noqa: E402

DECK = "size = small\nlayers = {layers}\nhidden = 256\nffn = {ffn}\nheads = 8\nkv_heads = 4\n" \
       "vocabulary = {vocabulary}\n" \
       "sequence = {sequence}\nmicrobatch = 1\nglobal_batch = {batch}\nrecord = none\nprecision = {precision}\n" \
       "warmup = 0\nsteps = {steps}\nbackend = {backend}\n[{workload}]\n{more}\n"
EMULATOR = "build/emulator/xgsw-emulator"
# The check model's largest product takes 65,536 bytes and 8.4 million multiplications, its largest message less than
# 60,000 bytes (issue 28). PRODUCT and FLOPS lie between that and the timed model's. PIECE is the timed model's
# all_to_all over four expert ranks: 128 tokens / 4 ranks x 2 choices x hidden 256 of two bytes. No other message has
# this length.
PRODUCT, FLOPS, MESSAGE, PIECE = 100000, 16000000, 60000, 32768


def deck_of(**what):
    given = {"layers": 2, "ffn": 512, "vocabulary": 2048, "sequence": 128, "batch": 2, "precision": "bf16",
             "steps": 2, "backend": "host", "workload": "llama3.1-8b", "more": ""}
    return deck_file(DECK.format(**given | what))


def run(deck, ranks, program, **variables):
    environment = dict(os.environ, OMP_NUM_THREADS="1", ASAN_OPTIONS="verify_asan_link_order=0", **variables)
    start = [program] if ranks == 1 else ["run/local", "-q", "-n", str(ranks), "-x", program]
    command = [*start, deck, "--json", "-"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)


def judge(tap, name, done, words, count=1):
    """words: part of a reason of each FAILED case, which must not be a reason of the check; None: the cases pass."""
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
        deck = deck_of(precision="fp32 bf16 fp8")
        judge(tap, "as it is", run(deck, 1, program), None, 3)
        for deed in ("zeros", "piece"):
            done = run(deck, 1, program, LD_PRELOAD=shim, WRONG_SHAPES=f"{deed} {PRODUCT}")
            judge(tap, f"oneDNN: {deed}", done, "matrix product", 3)
        deck = deck_of(sequence=256, more="tensor = 2")
        done = run(deck, 2, program, LD_PRELOAD=shim, WRONG_SHAPES=f"cut {MESSAGE}")
        judge(tap, "MPI: messages cut to 8 bytes", done, "what arrived is not what was sent")
        for backend, it in ("host", program), ("cuda", EMULATOR):
            deck = deck_of(layers=1, ffn=256, vocabulary=512, batch=4, backend=backend, workload="grok1-314b",
                           more="expert = 4")
            for deed in ("exchange", "before") if it is program or LONG else ("exchange",):
                done = run(deck, 4, it, LD_PRELOAD=shim, WRONG_SHAPES=f"{deed} {PIECE}")
                judge(tap, f"all_to_all on {backend}: {deed}", done, "all_to_all over expert: what arrived")
    deck = deck_of(precision="bf16 fp8", steps=1, backend="cuda")
    for deed in ("zeros", "piece", "terms") if LONG else ("terms",):
        done = run(deck, 1, EMULATOR, EMULATOR_WRONG_PRODUCTS=f"{deed} {FLOPS}")
        judge(tap, f"an algorithm of cuBLASLt: {deed}", done, "matrix product", 2)
    tap.done()


main()
