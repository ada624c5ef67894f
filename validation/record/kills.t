#!/usr/bin/env python3
"""kill -9 at named points and at random times: no printed step is lost, every record can be read, and the earlier
record is complete. 17 kills on 2 ranks; in the long test 1,000 on 2 and 4."""

import contextlib
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from runs import HANGS, LONG, Place, Tap, lost, printed_steps, ranks_of, shim_path

POINTS = ("journal {} before", "journal {} torn", "journal {} after", "print {} before", "print {} after",
          "write 1 torn", "sync 1 before", "keep 1 after", "rename 1 before", "rename 1 after", "folder 1 after",
          "forget 1 before", "forget 1 after")
KILLS = 1000 if LONG else 17


def plan(number, draw):
    """Returns a point and None, or None and a moment in seconds after the first printed line."""
    if number % 4 == 3:
        return None, draw.uniform(0.0, 0.4)
    return POINTS[number * 3 // 4 % len(POINTS)].format(draw.randint(1, 28)), None


def kill(number, shim, old):
    """Returns the place of the kill, the number of printed steps, and what is lost."""
    draw = random.Random(number)
    point, moment = plan(number, draw)
    place = Place()
    with open(place.file("gsw.h5"), "wb") as file:
        file.write(old)
    ranks = 4 if LONG and number % 2 else 2
    run = place.start(ranks, shim=(shim, point) if point else None)
    if moment is not None:
        place.wait_for("xgsw", run)
        time.sleep(moment)
        for process in ranks_of(run)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    status, text = run.wait(timeout=HANGS), place.text("out")
    failures = list(lost(place, text, old))
    if status == 0 and point and not point.startswith(("print", "journal")):
        failures.append("it was not killed")
    if failures:
        failures.append(f"files {place.names('')}, said {place.text('err')[-300:]}")
    place.close()
    return point or f"after {moment:.2f} s", len(printed_steps(text)), failures


def main():
    tap = Tap()
    shim, first = shim_path("record/shim"), Place()
    first.run(2)
    old = first.bytes("gsw.h5")
    first.close()
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda number: kill(number, shim, old), range(KILLS)))
    for point, _, failures in ends:
        for failure in failures[:3]:
            tap.say(f"{point}: {failure}")
    steps = sum(count for _, count, _ in ends)
    bad = sum(bool(failures) for _, _, failures in ends)
    tap.ok(bad == 0 and steps > KILLS, f"{KILLS} kills: of {steps} printed steps none is lost, every file can be read",
           f"{bad} of the kills lost something")
    tap.done()


main()
