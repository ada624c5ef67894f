#!/usr/bin/env python3
"""The clock that times the steps: a library preloaded to slow it is found out, on all ranks or on one, always or in
between; a healthy one is not suspected. What the record says of it, of samples and of their cost."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "record")]
from runs import SHAPE, Place, Tap, read_record, shim_path  # noqa: E402

import numpy as np  # noqa: E402

VALIDATE = os.path.join(os.path.dirname(HERE), "validate.py")
TOLERANCE = 1e-3   # CLOCK_TOLERANCE of src/bench/monitor/clocks.c


def deck(steps):
    return "a test\nof clocks\nrecord = r.h5\n" + SHAPE.format(64) + f"[llama3.1-8b]\nsteps = {steps}\n"


def run(ranks, steps, **more):
    """Its one case as the record has it, its report, and what validate.py says of the record."""
    place = Place(deck(steps))
    status, out, error = place.run(ranks, **more)
    said = subprocess.run([VALIDATE, place.file("r.h5")], capture_output=True, text=True, check=False).stdout
    case = read_record(place.file("r.h5")).cases[0] if status == 0 else None
    place.close()
    return case, out + error, said


def reasons(case):
    return [reason for reason in case["results/invalid_reasons"] if "clock" in reason] if case else []


def expect(tap, name, told, ranks=2, steps=60, **more):
    case, out, said = run(ranks, steps, **more)
    tap.ok(reasons(case) == told and "validate.py: PASSED" in said.replace("\nPASSED", "\nvalidate.py: PASSED"),
           name, f"{reasons(case)}\n{said}\n{out[-2000:]}")
    return case, out


tap = Tap()
shim = shim_path("program/slow_clock")
case, out = expect(tap, "a healthy run's clocks agree", [], steps=500)
spent = case["ranks/rank_seconds"].sum(axis=0)
kernel = case["clocks/kernel_seconds"]
tap.say(f"steps of {spent[0]:.3f} s; to the kernel's own {np.abs(spent / kernel - 1).max():.1e}, "
        f"error {np.abs(case['clocks/clock_error']).max():.1e}, sampling {case['results/sampling_share']:.1e}")
tap.ok((np.abs(spent / kernel - 1) < TOLERANCE).all(), "the sum of its steps is the kernel's time",
       f"{spent} {kernel}")
tap.ok(case["results/sampling_share"] < 0.005, "sampling costs less than 0.5 % of a core",
       case["results/sampling_share"])
first = case["samples/rank"] == 0
seconds = case["samples/seconds"][first]
# A sample is late by what the thread waits for a core: less than half of what lies between two.
tap.ok(seconds[0] < 0.1 and abs(seconds[-1] - spent[0]) < 0.5 and "\nSamples " in out,
       "samples reach from the window's begin to its end", f"{seconds}\n{out[-2000:]}")
slow = "the clock of rank {} lost 90.0 % against the kernel's own"
expect(tap, "a clock at a tenth of its rate is found", [slow.format(0)], LD_PRELOAD=shim, SLOW_CLOCK="-1 0.1")
expect(tap, "and that of one rank", [slow.format(1)], LD_PRELOAD=shim, SLOW_CLOCK="1 0.1")
expect(tap, "and a fast one", ["the clock of rank 0 gained 10.0 % against the kernel's own"], ranks=0,
       LD_PRELOAD=shim, SLOW_CLOCK="-1 1.1")
case, out, _ = run(0, 300, LD_PRELOAD=shim, SLOW_CLOCK="-1 0.1 0.05")
told = reasons(case)
wrong = r"the clock of rank 0 (lost|gained) [\d.]+ % against the kernel's own"
tap.ok(len(told) == 1 and re.fullmatch(wrong, told[0]),
       "a clock that is set right again and again is found within a step", f"{told}\n{out[-2000:]}")
tap.say(told)
tap.ok(f"Preloaded  {shim}" in out, "the report names what was preloaded", out)
case, out = expect(tap, "preloaded, but honest: valid as far as clocks go", [], ranks=0, LD_PRELOAD=shim)
tap.done()
