#!/usr/bin/python3
"""--calibrate judges the machine's parts: clean runs name nobody, a slow processor and a slow pair are named. Long
test: more clean runs."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "record"))
from runs import LONG, TOP, XGSW, Place, Tap, Wrong, shim_path  # noqa: E402

import h5py  # noqa: E402

tap = Tap()
place = Place("""a machine
before a run
backend = host
size = check
precision = fp32
check = off
[llama3.1-8b]
""")
cores = sorted(os.sched_getaffinity(0))
preload = f"env LD_PRELOAD={shim_path('machine/misdeeds')}"


def calibrate(ranks, wrapper="", seconds="0.05", **variables):
    """Status 1 says that a part of the machine deviates."""
    done = subprocess.run([f"{TOP}/run/local", "-q", "-n", str(ranks), "-x", XGSW, "-w", wrapper, "deck.dat",
                           "--calibrate", "--seconds", seconds], cwd=place.path, capture_output=True, text=True,
                          check=False, env=dict(os.environ, OMP_NUM_THREADS="1", **variables), timeout=600)
    if done.returncode not in (0, 1):
        raise Wrong(done.stdout + done.stderr)
    return done


def read(name):
    with open(place.file(name), encoding="utf-8") as file:
        return file.read()


def clean():
    done = calibrate(2, place.file("pinned"))
    return (done.returncode == 0 and "deviations  none" in done.stdout and read("deck.exclude") == "",
            done.stdout + done.stderr)


def slow_rank():
    done = calibrate(2, f"{place.file('pinned')} {preload}", "0.3", MISDEED="1 start slow")
    return (done.returncode == 1 and re.search(r"^DEVIATES +rank 1 on .*: computes \d+\.\d % longer", done.stdout, re.M)
            and "rank 0 on" not in done.stdout, done.stdout + done.stderr)


def slow_pair():
    done = calibrate(4, preload, MISDEED="1 pair3 delayed")
    named = re.findall(r"^DEVIATES +(.*exchange data)", done.stdout, re.M)
    with h5py.File(place.file("deck.calibration.h5")) as record:
        if record["links/ranks"].shape != (6, 2) or record["operations/seconds"].shape[1] != 4:
            raise Wrong(str(list(record)))
    return (done.returncode == 1 and len(named) == 1 and re.search("rank 1 on .* and rank 3 on", named[0])
            and len(read("deck.exclude").split()) == 1, done.stdout + done.stderr)


with open(place.file("pinned"), "w", encoding="utf-8") as wrapper:
    wrapper.write(f'#!/bin/bash\ncores=({" ".join(map(str, cores))})\n'
                  f'exec taskset -c "${{cores[${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} % {len(cores)}]}}" "$@"\n')
os.chmod(wrapper.name, 0o755)
for i in range(5 if LONG else 1):
    tap.timed(clean, f"clean run {i + 1} names nobody")
tap.timed(slow_rank, "a rank that computes more slowly is named")
tap.timed(slow_pair, "a slow pair is named")
tap.done()
