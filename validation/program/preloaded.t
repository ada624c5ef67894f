#!/usr/bin/env python3
"""Preloaded libraries: one that replaces functions of clock or MPI makes a result NOT VALID; others are only
named. Also tests the samples of a healthy run, and their cost."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "record")]
from runs import SHAPE, Place, Tap, Wrong, read_record  # noqa: E402

VALIDATE = os.path.join(os.path.dirname(HERE), "validate.py")
DECK = "a test\nof preloading\nrecord = r.h5\n" + SHAPE.format(64) + "[llama3.1-8b]\nsteps = {}\n"
# Preloaded libraries, and the relevant function that each replaces. The second wraps the calls that Darshan wraps. The
# last replaces a library that is loaded later.
SHIMS = (
    ("clock_gettime", "#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n"
     "int clock_gettime(clockid_t c, struct timespec *t) { return (int)syscall(SYS_clock_gettime, c, t); }\n", 0),
    ("", "int PMPI_Finalize(void);\nint MPI_Finalize(void) { return PMPI_Finalize(); }\n"
     "int MPI_File_open(void); int MPI_File_open(void) { return 1; }\n", 2),
    ("MPI_Isend", "int PMPI_Isend(void *, ...);\nint MPI_Isend(void *a, int b, void *c, int d, int e, void *f, void *g)"
     "{ return PMPI_Isend(a, b, c, d, e, f, g); }\n", 2),
    ("ncclGetUniqueId", "int ncclGetUniqueId(void *); int ncclGetUniqueId(void *x) { return x == 0; }\n", 2))


def run(ranks, steps, **more):
    """Returns the recorded case, the report, and validate.py's output for the record."""
    place = Place(DECK.format(steps))
    status, out, error = place.run(ranks, **more)
    said = subprocess.run([VALIDATE, place.file("r.h5")], capture_output=True, text=True, check=False).stdout
    case = read_record(place.file("r.h5")).cases[0] if status == 0 else None
    place.close()
    return case, out + error, said


def reasons(case):
    return [reason for reason in case["results/invalid_reasons"] if reason.startswith("preloaded")] if case else None


def shims(tap):
    place = Place("")
    for call, source, ranks in SHIMS:
        name = place.file("shim.so")
        with open(place.file("shim.c"), "w", encoding="utf-8") as file:
            file.write(source)
        subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-w", "-o", name, file.name, "-ldl"], check=True)
        case, out, said = run(ranks, 10, LD_PRELOAD=name)
        told = [f"preloaded: {name} replaces {call} on rank 0 on {os.uname().nodename}"] if call else []
        tap.ok(reasons(case) == told and f"Preloaded  {name} (" in out and "\nPASSED" in said,
               f"preloaded, it replaces {call or 'nothing that matters'}", f"{reasons(case)}\n{said}\n{out[-2000:]}")
    place.close()


def audited(tap):
    case, out, said = run(2, 10, LD_AUDIT="/nowhere.so")
    tap.ok([reason.split(" may ")[0] for reason in reasons(case)] == ["preloaded: LD_AUDIT=/nowhere.so"],
           "an auditing library is not trusted", f"{reasons(case)}\n{said}\n{out[-2000:]}")


def sampled():
    """Judges cost and times of the samples of a run without preloaded libraries, which must find nothing else."""
    case, out, said = run(2, 500)
    if not case or reasons(case) != [] or "\nPASSED" not in said:
        raise Wrong(out[-2000:] + said)
    seconds, spent = case["samples/seconds"][case["samples/rank"] == 0], case["ranks/rank_seconds"][:, 0].sum()
    cost = case["results/sampling_share"]
    # A sample is late by less than half the interval between samples.
    return (cost < 0.005 and seconds[0] < 0.1 and abs(seconds[-1] - spent) < 0.5,
            f"{cost} of a core, {seconds}\n{out[-2000:]}")


def main():
    tap = Tap()
    audited(tap)
    tap.timed(sampled, "nothing is preloaded: nothing is found; samples reach from the window's begin to its end, and "
              "cost less than 0.5 % of a core")
    shims(tap)
    tap.done()


main()
