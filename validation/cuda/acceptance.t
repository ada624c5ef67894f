#!/usr/bin/env python3
"""The list of run/gpu-acceptance, and the acceptance itself on the emulated GPU with small decks. The long test runs
every part, otherwise one or two of each kind run."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, "validation/program")
from program import LONG, Tap  # noqa: E402

LIST = "validation/cuda/acceptance.list"
CALL_SECONDS = 480.0        # in a call of 9 minutes; finding a GPU and machine.txt take a minute
SMALL = " size=check sequence=64 layers=2 global_batch=1 warmup=0 steps=1"
QUICK = ("timed-fp8", "slice-8b-fp8", "ours-before", "peer", "ours-after", "moves", "links-2")
FAULT = "fault 600 deck one-gpu.dat 1 fault=scale,matmul,3,0" + SMALL + "\nafter 60 check operations_moves\n"


def acceptance(folder, parts):
    """Runs the parts on the emulated GPU. Returns the run and its last line."""
    path = os.path.join(folder, "parts.list")
    with open(path, "w", encoding="utf-8") as f:
        f.write(parts)
    environment = {**os.environ, "XGSW": "build/emulator/xgsw-emulator", "BUILD": "build/emulator",
                   "XGSW_TEST_SIZE": "check", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(["run/gpu-acceptance", "--out", os.path.join(folder, "out"), "--minutes", "55", "--parts",
                          path], env=environment, capture_output=True, text=True, check=False)
    return run, (run.stdout.splitlines() or [""])[-1]


def smaller(line):
    """Returns a row of the list as the emulator can run it, or nothing if the part is omitted."""
    words = line.split("#")[0].split()
    if len(words) < 4:
        return " ".join(words) + "\n"
    if words[0] not in QUICK and not LONG:
        return ""
    if words[2] == "slice":     # a tiny case on the host: a real one needs minutes and a GPU's memory
        words[3:] = ["check-512.dat", "512", "--seconds", "0.01", "--on-host"]
    if words[0] == "agreement":     # eight emulated ranks need minutes for a layout
        words[4] = "2"
    return " ".join([words[0], "1800", *words[2:]]) + (SMALL if words[2] == "deck" else "") + "\n"


tap = Tap()
with open(LIST, encoding="utf-8") as f:
    rows = f.read().splitlines()
printed = subprocess.run(["run/gpu-acceptance", "--list"], capture_output=True, text=True, check=False)
parts = re.findall(r"^(\S+) +(\d+\.\d)  (\S.*) \(((check|deck|slice|peer) .*)\)$", printed.stdout, re.M)
told = " ".join(what for _, _, _, what, _ in parts)
fp8 = ("operations ", "operations_fp8 ", "operations_matmul", "operations_experts", "one-gpu.dat 1 precision=fp8")
tap.ok(printed.returncode == 0 and len(parts) > 30 and all(words in told + " " for words in fp8),
       f"--list prints {len(parts)} parts with limit and purpose; FP8 operations, products and a timed case are there",
       printed.stdout + printed.stderr)
longest, group, inside = 0.0, 0.0, False
for words in (row.split("#")[0].split() for row in rows):
    if not words:
        continue
    inside = words[0] != "end" and (inside or words[0] == "beside")
    group = (group if inside and words[0] != "beside" else 0.0) + (float(words[1]) if len(words) > 3 else 0.0)
    longest = max(longest, group)
tap.ok(0.0 < longest <= CALL_SECONDS, f"every part and group fits into 9 minutes; the longest has {longest:.0f} s")
with tempfile.TemporaryDirectory() as folder:
    small = "".join(smaller(row) for row in rows)
    kinds = {kind for kind in ("check", "deck", "slice", "peer") if f" {kind} " in small}
    whole, last = acceptance(folder, small)
    tap.ok(whole.returncode == 0 and last.startswith("PASSED: ") and "not run" not in last and len(kinds) == 4,
           f"all kinds of parts run to the end on the emulator: {last}", whole.stdout + whole.stderr)
with tempfile.TemporaryDirectory() as folder:
    whole, last = acceptance(folder, FAULT)
    tap.ok(whole.returncode == 1 and last == "FAILED: 1 of 2 parts passed; 1 failed (fault)",
           "a part with a wrong product makes it fail, and the next part still runs", whole.stdout + whole.stderr)
tap.done()
