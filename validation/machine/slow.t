#!/usr/bin/python3
"""A rank that computes more slowly than its peers is named with its excess, and the case is NOT VALID: a rank stopped
for two thirds of the time, or one that wastes a third of its CPU time. Clean runs name no rank. Long test: more of
each, and tensor ranks."""

import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "record"))
from runs import LONG, Place, Tap, Wrong, ranks_of, read_record, shim_path  # noqa: E402

WARMUP, STEPS = 2, 120 if LONG else 30
DECK = f"""a slow
rank
[llama3.1-8b]
size = small
precision = fp32
layers = 2
hidden = 256
ffn = 512
heads = 4
kv_heads = 2
vocabulary = 512
sequence = 128
microbatch = 1
global_batch = 8
warmup = {WARMUP}
steps = {STEPS}
tensor = %d
"""
RUN, STOP = 0.004, 0.008  # seconds
SLOW = 1.5                # misdeeds.c
# Two processors of a virtual machine may be two threads of one core. There a rank runs up to twice as fast while its
# peer waits. So the time that the slow rank takes may be half or twice the expected one. units/bench/outliers.c checks
# the arithmetic.
CORE = 2
tap = Tap()
place = Place()
SHIM = shim_path("machine/misdeeds")


def processor_seconds(pid):
    """Returns the CPU seconds of the thread that computes."""
    with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) * 1e-9


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def rank_in(run, rank):
    for pid in ranks_of(run):
        with open(f"/proc/{pid}/environ", "rb") as file:
            if re.search(rb"(OMPI_COMM_WORLD|PMI)_RANK=%d\0" % rank, file.read()):
                return pid
    raise ProcessLookupError


def stop_once(pid):
    """Stops the process after a fixed while, and returns for how many seconds."""
    time.sleep(RUN)
    os.kill(pid, signal.SIGSTOP)
    while state(pid) not in "TZ":
        time.sleep(0.0002)
    begin = time.monotonic()
    time.sleep(STOP)
    os.kill(pid, signal.SIGCONT)
    return time.monotonic() - begin


def go_first(yes):
    """Asks for priority over other processes if allowed, because a process that stops others must not be late."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO if yes else os.SCHED_OTHER, os.sched_param(int(yes)))
    except PermissionError:
        pass


def stop_again_and_again(run, rank):
    """Stops the rank in the timed steps. Returns its elapsed time divided by its CPU time."""
    place.wait_for(f"global_step: {WARMUP - 1:2} ", run)
    pid, stopped = rank_in(run, rank), 0.0
    begin, last = processor_seconds(pid), f"global_step: {WARMUP + STEPS - 2:2} "
    go_first(True)
    while last not in place.text("out") and run.poll() is None:
        stopped += stop_once(pid)
    go_first(False)
    return 1 + stopped / (processor_seconds(pid) - begin)


def judged(rank):
    """Returns the rank's excess and error in the record, and all reasons."""
    case = read_record(place.file("gsw.h5")).cases[0]
    return case["ranks/excess"][rank], case["ranks/excess_error"][rank], case["results/invalid_reasons"]


def play(tensor, **more):
    for name in place.names(".h5"):
        os.remove(place.file(name))
    with open(place.file("deck.dat"), "w", encoding="utf-8") as file:
        file.write(DECK % tensor)
    return place.start(2, **more)


def named(rank, factor, name):
    """factor: the expected multiple of the seconds of its own computing. Returns whether the rank is named, NOT VALID
    and with the right excess."""
    excess, error, reasons = judged(rank)
    said = [r for r in reasons if r.startswith("outlier ")]
    tap.say(f"{name}: {100 * excess:.1f} % +- {100 * error:.1f}, {100 * (factor - 1):.1f} % expected")
    return (len(said) == 1 and said[0].startswith(f"outlier rank {rank} on ") and said[0] in place.text("out")
            and factor / CORE < 1 + excess < factor * CORE, place.text("out") + place.text("err"))


def end(run):
    if run.wait() != 0:
        raise Wrong(place.text("err"))


def stopped(rank, tensor=1):
    def attempt():
        run = play(tensor)
        factor = stop_again_and_again(run, rank)
        end(run)
        return named(rank, factor, name)

    name = f"rank {rank}, stopped, tensor {tensor}"
    tap.timed(attempt, f"{name}: the run goes on, and names it with its excess")


def slow(rank, tensor=1):
    def attempt():
        end(play(tensor, shim=(SHIM, ""), MISDEED=f"{rank} start slow"))
        return named(rank, SLOW, name)

    name = f"rank {rank}, slow, tensor {tensor}"
    tap.timed(attempt, f"{name}: the run goes on, and names it with its excess")


def names_nobody(tensor):
    end(play(tensor))
    excess, error, reasons = judged(1)
    tap.say(f"clean run, tensor {tensor}: rank 1 {100 * excess:+.1f} % +- {100 * error:.1f}; {reasons}")
    return not any("outlier" in r for r in reasons) and "no rank is slow" in place.text("out"), place.text("out")


stopped(1)
slow(1)
for i in range(5 if LONG else 2):
    tap.timed(lambda tensor=1 + i % 2: names_nobody(tensor), f"clean run {i}: nobody is named")
if LONG:
    for _ in range(3):
        stopped(0), slow(0), slow(1, tensor=2)
    # A waiting rank uses CPU time, too, and is stopped more often while it waits than while it computes.
    stopped(1, tensor=2)
tap.done()
