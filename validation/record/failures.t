#!/usr/bin/env python3
"""A run on a full disk, or a run whose k-th writing call fails: it must not crash or claim success. One line says what
failed, and the earlier record is unchanged. The long test tries every k and 50 sizes of the disk."""

import errno
import os
import subprocess

from runs import LONG, SHAPE, XGSW, Place, Tap, Unreadable, lost, on_disk, read_record, shim_path

DECK = "a test\nof failures\n" + SHAPE.format(32) + "[llama3.1-8b]\nsteps = 3\n[llama3.1-70b]\nsteps = 3\n"
CALLS = ("journal", "create", "write", "sync", "rename", "folder", "keep", "hdf5")
NO_SPACE = "No space left on device"


def judge(place, status, text, error, old):
    """Yields sentences that say what is wrong."""
    if status not in (0, 2, 87):
        yield f"status {status}"
    said = [line for line in error.splitlines() if "cannot" in line or "HDF5 failed" in line or "could not" in line]
    if status != 0 and len(said) != 1:
        yield f"it said {error}"
    if status == 0:
        try:
            whole = len(read_record(place.file("gsw.h5")).cases) == 2 and place.bytes("gsw.h5") != old
        except Unreadable:
            whole = False
        if not whole:
            yield "it ended with 0, and its record is not whole"
    yield from lost(place, text, old)


def fail_call(call, k, shim, old):
    """Returns the status, and what is wrong."""
    with Place(DECK) as place:
        with open(place.file("gsw.h5"), "wb") as file:
            file.write(old)
        status, text, error = place.run(0, shim=(shim, f"{call} {k} {errno.ENOSPC if k % 2 else errno.EIO}"))
        return status, [f"{call} {k}: {sentence}" for sentence in judge(place, status, text, error, old)]


def fail_calls(tap, shim, old):
    """Tries each k until a run succeeds. HDF5 makes hundreds of calls, so it tries only some of them."""
    wrong, failed = [], 0
    for call in CALLS:
        k, status = 1, 87
        most = 100000 if LONG else 1
        while status != 0 and k <= most:
            status, found = fail_call(call, k, shim, old)
            wrong, failed = wrong + found, failed + (status != 0)
            k += (17 if call == "hdf5" else 1) if LONG else 1
    tap.ok(not wrong and failed >= len(CALLS), f"{failed} failing calls of {', '.join(CALLS)}: none is a success",
           "\n".join(wrong))


def fill_disks(tap):
    """Writes records to disks of these numbers of pages."""
    wrong, failed, sizes = [], 0, range(4, 404, 8) if LONG else (4, 60, 400)
    for size in sizes:
        with Place(DECK.replace("check = off", "check = off\nrecord = disk/gsw.h5")) as place:
            status = on_disk(place, 4 * size, "disk")
            if status is None:
                return tap.ok(True, "full disks # SKIP this user cannot mount disks")
            for name in os.listdir(place.file("kept")):
                os.rename(os.path.join(place.file("kept"), name), place.file(name))
            error = place.text("err")
            wrong += [f"{4 * size} KiB: {s}" for s in judge(place, status, place.text("out"), error, None)]
            wrong += [f"{4 * size} KiB: {error}"] * (status != 0 and NO_SPACE not in error)
            failed += status != 0
    return tap.ok(not wrong and 0 < failed < len(sizes), f"{len(sizes)} disks, {failed} of them too small",
                  "\n".join(wrong))


def full_output(tap):
    """A report that cannot be written is no success, but the record must exist."""
    with Place(DECK) as place, open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([XGSW, "deck.dat"], cwd=place.path, stdout=full, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)
        tap.ok(done.returncode == 87 and NO_SPACE in done.stderr and len(read_record(place.file("gsw.h5")).cases) == 2,
               "a report that cannot be written is no success", done.stderr)
    with Place(DECK.replace("check = off", "check = off\noutput = /dev/full")) as place:
        status, text, error = place.run(0)
        tap.ok(status == 87 and "the file of output could not be written: " + NO_SPACE in error
               and "\nPASSED, but " in text and len(read_record(place.file("gsw.h5")).cases) == 2,
               "nor is a copy that cannot be written, and only the copy is lost", error)


def main():
    tap = Tap()
    with Place(DECK) as first:
        first.run(0)
        old = first.bytes("gsw.h5")
    fail_calls(tap, shim_path("record/shim"), old)
    fill_disks(tap)
    full_output(tap)
    tap.done()


main()
