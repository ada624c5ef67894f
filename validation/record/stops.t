#!/usr/bin/env python3
"""A run that is asked to stop finishes between two steps, with a record of its steps and status 75, however it is
asked. The long test tries each way 100 times."""

import os
import re
import signal
import time

from runs import HANGS, LONG, SHAPE, Place, Tap, call, lost, printed_steps, ranks_of, recorded_steps, script

DECK = "a test\nof stops\n" + SHAPE.format(128) + "[llama3.1-8b]\nsteps = 5000\n[llama3.1-70b]\nsteps = 10\n"
VALIDATE = script("validate")
INTERRUPTED = re.compile(r"^INTERRUPTED after (\d+) of 5000 steps: (\w+)$", re.MULTILINE)


def to_ranks(which):
    def ask(run, number):
        for process in ranks_of(run)[which]:
            os.kill(process, number)
    return ask


def to_launcher(run, number):
    os.kill(run.pid, number)


def to_group(run, number):
    os.killpg(run.pid, number)


# Description, ranks, recipient, signal, and whether mpirun lets the ranks finish. After SIGTERM or SIGINT, mpirun kills
# the ranks a second later and returns its own status.
WAYS = (("SIGTERM to the last rank", 2, to_ranks(slice(1, 2)), signal.SIGTERM, True),
        ("SIGUSR1 to mpirun", 2, to_launcher, signal.SIGUSR1, True),
        ("SIGTERM to mpirun", 2, to_launcher, signal.SIGTERM, False),
        ("SIGINT to mpirun's process group", 2, to_group, signal.SIGINT, False),
        ("SIGINT to a program alone", 0, to_launcher, signal.SIGINT, True))


def alive(processes):
    return [process for process in processes if os.path.exists(f"/proc/{process}/exe")]


def left(processes):
    """Waits for processes to end, because mpirun may end before them. Returns those that do not."""
    end = time.monotonic() + 60
    while alive(processes) and time.monotonic() < end:
        time.sleep(0.01)
    return alive(processes)


def validate(place):
    """Compares the record with an output that ends where a kill between record and result line would cut it."""
    status, text = call(VALIDATE, place.file("gsw.h5"), "--log", place.write(
        "cut", place.text("out").split("XGSW_RESULT")[0]))
    return status, text.strip().splitlines()[-1]


def stop(way):
    """Returns sentences that say what is wrong."""
    _, ranks, ask, number, gracefully = way
    place = Place(DECK)
    run = place.start(ranks)
    place.wait_for(" global_step: 20 ", run)
    processes = ranks_of(run) if ranks else []
    ask(run, number)
    status, text = run.wait(timeout=HANGS), place.text("out")
    wrong = [f"rank {process} is left" for process in left(processes)] + list(lost(place, text))
    said = INTERRUPTED.search(text)
    if gracefully:
        steps = len([step for step in recorded_steps(place.file("gsw.h5")) if step[0] == 1]) if said else 0
        wrong += [f"status {status}"] * (status != 75)
        wrong += [f"said {said and said[0]}, printed {len(printed_steps(text))}, recorded {steps}"] * (
            not said or not int(said[1]) == steps == len(printed_steps(text)) or steps < 20)
        ends = text.strip().splitlines()[-1]
        wrong += [f"it ends with {ends}"] * (not ends.startswith("INTERRUPTED: case 1: "))
        code, words = validate(place)
        wrong += [f"validate.py: {code} {words}"] * (code != 75 or "INCOMPLETE: case 1 was interrupted" not in words)
        wrong += ["a journal is left"] * (place.names(".journal") != [])
    else:
        wrong += [f"status {status}"] * (status == 0)
    wrong += [place.text("err")[-600:]] * bool(wrong)
    place.close()
    return wrong


def limits(tap):
    """Tests the launcher's limit, some seconds away, and one that passed before the first case. The shared run stopped
    has a time_limit."""
    for seconds in (3, 15, 75):    # the later ones for a busy machine
        with Place(DECK) as place:
            status, text, _ = place.run(0, SLURM_JOB_END_TIME=str(int(time.time()) + seconds))
            if "INTERRUPTED after" in text:
                break
    tap.ok(status == 75 and re.search("^INTERRUPTED after .*: the end of the job$", text, re.MULTILINE),
           "a run stops at the end of the job", text[-600:])
    with Place(DECK) as place:
        status, text, _ = place.run(0, SLURM_JOB_END_TIME="1000")
        tap.ok(status == 75 and "SKIPPED: the run stopped before it: the end of the job" in text
               and not place.names(".h5"), "after the end of the job no case begins", text[-600:])


# Description, ranks, keys of the deck, and the output at which to stop. Before the first timed step there are no times,
# paces or energy. The operations of a first check were compared in any case.
EARLY = (("in the check before the steps", 2, {"check": "model", "steps": "5000"}, "Case 1 "),
         ("in the warm-up", 2, {"check": "off", "warmup": "5000", "steps": "10"}, " global_step: 20 "),
         ("in the timed steps of check = full", 0, {"check": "full", "steps": "5000"}, " global_step: 20 "))


def stop_early(ranks, keys, words):
    """Returns the status, validate.py's status and output, and the output of the run."""
    body = "".join(f"{key} = {value}\n" for key, value in keys.items())
    shape = SHAPE.format(64).replace("check = off\n", "")
    with Place(f"a test\nof stops\n{shape}{body}[llama3.1-8b]\n") as place:
        run = place.start(ranks)
        place.wait_for(words, run)
        to_ranks(slice(0, 1))(run, signal.SIGTERM) if ranks else to_launcher(run, signal.SIGTERM)
        status = run.wait(timeout=HANGS)
        return status, *call(VALIDATE, place.file("gsw.h5")), place.text("out")[-600:] + place.text("err")[-600:]


def early(tap):
    for name, ranks, keys, words in EARLY:
        timed = "0 of" if keys["check"] != "full" else ""
        for _ in range(10):    # on a busy machine the signal may come after the check
            status, code, said, text = stop_early(ranks, keys, words)
            if f" after {timed}" in said:
                break
        tap.ok(status == code == 75 and f"\nINCOMPLETE: case 1 was interrupted after {timed}" in said,
               f"SIGTERM {name}: validate.py finds nothing", f"status {status}, {code}\n{said}{text}")


def main():
    tap = Tap()
    for way in WAYS:
        wrong = [sentence for _ in range(100 if LONG else 1) for sentence in stop(way)]
        tap.ok(not wrong, way[0] + (", 100 times" if LONG else ""), "\n".join(wrong))
    early(tap)
    limits(tap)
    tap.done()


main()
