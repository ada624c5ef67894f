#!/usr/bin/env python3
"""Defects of NCCL versions on the emulated NCCL: each row of the program's table (transfers/nccl_defects.c), and
windows that one rank cannot have. The run uses plain collectives and computes the same bits, or is refused. If a
version is not in the table, the watch names the operation that hangs."""
import os
import re
import sys

sys.path.insert(0, "validation/program")
from program import Tap, deck_file, ranks, results  # noqa: E402

PROGRAM = os.path.abspath("build/emulator/xgsw-emulator")
DECK = "record = none\ncheck = off\nwarmup = 0\nsteps = 2\nbackend = cuda\nstall_seconds = {}\nsize = check\n" \
       "global_batch = 2\n[llama3.1-8b]\n"


def run_on(keys, count=2, **emulated):
    variables = {f"EMULATOR_NCCL_{name}": str(value) for name, value in emulated.items()}
    deck = deck_file(DECK.format(10 if "DEFECT" in emulated else 120) + keys)
    return ranks(count, deck, program=PROGRAM, variables=variables)


def losses(run):
    return [case["losses"] for case in results(run)]


tap = Tap()
if not os.access(PROGRAM, os.X_OK):
    print(f"Bail out! no {PROGRAM}: make emulator")
    raise SystemExit(1)

TENSOR = "tensor = 2\nlayers = 1 2\n"        # two cases; the larger second one gets its memory first
windows = run_on(TENSOR)
tap.ok(windows.stdout.count("\nTransfers  NCCL 2.28.9, copy engines in 1 window; 0 SMs left free") == 2
       and len(losses(windows)) == 2,
       "two ranks have a window, in both cases", windows.stdout[-3000:] + windows.stderr)
run = run_on("tensor = 2\ndata = 1\nlayers = 1\n[llama3.1-8b]\ndata = 3\nglobal_batch = 3\nlayers = 1\n", count=3)
tap.ok(len(losses(run)) == 2 and run.stdout.count("\nTransfers  NCCL 2.28.9, copy engines in 1 window; ") == 2,
       "a rank that took no part in the first case has a window in the second", run.stdout[-3000:] + run.stderr)

for name, emulated, words in (
        ("2.29.7 takes no windows for pairs", {"VERSION": 22907},
         r"its kernels: NCCL 2\.29\.7 hangs in the first collective of copy engines between two ranks \(NVIDIA/nccl "
         r"issue 2241\): load 2\.31\.2 or newer; 8 SMs left free: tensor/expert 8\n"),
        ("no memory for windows on one rank", {"LACKS": "memory"}, "its kernels: rank 1: ncclMemAlloc: unhandled cuda"),
        ("no window on one rank", {"LACKS": "window"}, "its kernels: rank 1: no window for tensor of ")):
    run = run_on(TENSOR, **emulated)
    told = re.findall("\nTransfers  NCCL [0-9.]+, " + words, run.stdout)
    tap.ok(run.returncode == 0 and len(told) == 2 and losses(run) == losses(windows),
           f"{name}: both ranks use kernels, and compute the same bits", run.stdout[-3000:] + run.stderr)

run = run_on("pipeline = 2\n", VERSION=23007)
tap.ok(run.returncode == 2 and re.search(r":\d+: pipeline: rank 0 on \S+: NCCL 2\.30\.7 hangs in pipelines "
                                         r"\(NVIDIA/jaxpp issue 11\): load 2\.31\.2 or newer\n", run.stderr),
       "2.30.7 with a pipeline is refused", run.stdout + run.stderr)

for name, keys, words in (("pairs", TENSOR, "first transfer tensor of "), ("links", "pipeline = 2\n", "exchange ")):
    run = run_on(keys, DEFECT=name)
    tap.ok(run.returncode == 86 and re.search(f"rank [01] waits for {words}|waits for {words}", run.stderr),
           f"another version that hangs so ({name}): the watch names the transfer", run.stdout + run.stderr)
tap.done()
