#!/usr/bin/python3
"""--calibrate and what uses it: --project with its sheet and with a run's record; a run with its sheet; run/launch with
PREFLIGHT. deviates.t tests its judgement."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "record"))
from runs import TOP, XGSW, Place, Tap, shim_path  # noqa: E402

import h5py  # noqa: E402

DECK = """a machine
before a run
backend = host
size = check
precision = fp32
check = off
steps = 12
{}[llama3.1-8b]
"""
tap = Tap()
place = Place(DECK.format(""))


def run(ranks, *arguments, wrapper="", command=(), **variables):
    command = command or [f"{TOP}/run/local", "-q", "-n", str(ranks), "-x", XGSW, "-w", wrapper]
    return subprocess.run([*command, *arguments], cwd=place.path, capture_output=True, text=True, check=False,
                          env=dict(os.environ, OMP_NUM_THREADS="1", **variables), timeout=600)


told = run(2, "deck.dat", "--calibrate", "--seconds", "0.05")
tap.ok(told.returncode in (0, 1), "it judges the machine", told.stdout + told.stderr)
with h5py.File(place.file("deck.calibration.h5")) as record:
    tap.ok(record["links/ranks"].shape == (1, 2)
           and record["operations/seconds"].shape[1] == 2,
           "the record has its pair and each rank's operations", str(list(record)))

paper = run(1, command=(XGSW, "--project", "deck.dat", "--ranks", "2", "--sheet", "deck.sheet"))
tap.ok("step " in paper.stdout and "NOT PRICED" not in paper.stdout and "; 0 % of the computing" in paper.stdout,
       "the sheet has every operation of the deck", paper.stdout + paper.stderr)
measured = run(2, "deck.dat")
with open(place.file("empty.sheet"), "w", encoding="utf-8") as file:
    file.write("device host\ngap us 2 1 4 assumed nothing\noperations times 1 1 1 assumed nothing\n"
               "nearest times 1 1 1 assumed nothing\ntransfers times 1 1 1 assumed nothing\n"
               "op fill f32[123456789] 4e12 us 1e6\n")
paper = run(1, command=(XGSW, "--project", "deck.dat", "--ranks", "2", "--sheet", "empty.sheet", "--from", "gsw.h5"))
tap.ok(measured.returncode == 0 and "step " in paper.stdout and "NOT PRICED" not in paper.stdout
       and "; 0 % of the computing" in paper.stdout, "--from prices every operation of a run",
       paper.stdout + paper.stderr)
os.rename(place.file("gsw.h5"), place.file("before.h5"))
other = run(1, command=(XGSW, "--project", "deck.dat", "--ranks", "2", "--sheet", "dgx-h100", "--from", "before.h5"))
tap.ok(other.returncode == 2 and "not the record of a run on the machine of the sheet dgx-h100" in other.stderr,
       "a host's record prices no GPU", other.stderr)

with open(place.file("deck.dat"), "w", encoding="utf-8") as file:
    file.write(DECK.format("sheet = deck.sheet\n"))
beside = run(2, "deck.dat")
with h5py.File(place.file("gsw.h5")) as record:
    seconds = record["case_0001/phases/expected_seconds"][:]
band = re.search(r"^Sheet +deck.sheet expects \S+ s a step, from (\S+) to (\S+); measured (\S+) s", beside.stdout, re.M)
least, most, took = map(float, band.groups()) if band else (0, 0, 0)
gap = re.search(r"^Verdict .*; .* the sheet", beside.stdout, re.M)
tap.ok(beside.returncode == 0 and band and (gap is None) == (least <= took <= most)
       and max(seconds[seconds == seconds]) > 0,
       "a run beside its sheet: phases, axes, and the largest gap if the step lies outside its band",
       beside.stdout + beside.stderr)
with open(place.file("deck.sheet"), "a", encoding="utf-8") as file:
    file.write("op fill 3 ms 4\ntransfer all_gather 2 us 4\n")
wrong = run(2, "deck.dat")
tap.ok(wrong.returncode == 2 and wrong.stderr.count("deck.sheet:") == 2,
       "mistakes in lines of operations and transfers", wrong.stderr)

launch = run(1, "--start", "mpirun", "deck.dat", command=(f"{TOP}/run/launch",), PREFLIGHT="true", JOB_TOTAL_GPUS="4",
             GPUS_PER_NODE="4", MISDEED="1 pair3 delayed", XGSW=XGSW, LD_PRELOAD=shim_path("machine/misdeeds"))
tap.ok(launch.returncode == 1 and "no spare nodes" in launch.stderr and "DEVIATES" in launch.stderr,
       "run/launch starts no cell on a machine that deviates and has no spare nodes", launch.stdout + launch.stderr)
tap.done()
