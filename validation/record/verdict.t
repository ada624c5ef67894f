#!/usr/bin/env python3
"""What connects a record with its run: the SHA-256 in the last lines and in gsw.verdict, which sha256sum reads; the
output of the run, even of a killed one; and a word of the site as seed. TAP."""

import os
import re
import subprocess

from runs import SMALL, STEP, Place, Tap, read_record, recover, shim_path

VALIDATE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "validate.py")
WORD, NUMBER = "tender-7", 0xA10A1B90     # printf tender-7 | sha256sum
DECK = SMALL.replace("check = off\n", f"check = off\nseed = {WORD}\n")
WRITTEN = 2000000000  # seconds since 1970: the last write to a journal


def validate(place, *arguments):
    done = subprocess.run([VALIDATE, *arguments], cwd=place.path, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def write(place, name, text):
    with open(place.file(name), "w", encoding="utf-8") as file:
        file.write(text)


def losses(place):
    return [list(case["steps/losses"]) for case in read_record(place.file("gsw.h5")).cases]


def seeds(tap, place):
    """A word gives the losses of its number. Another word gives other losses."""
    own = losses(place)
    for seed, same in ((NUMBER, True), ("tender-8", False)):
        other = Place(DECK.replace(WORD, str(seed)))
        other.run(2)
        tap.ok((losses(other) == own) == same, f"seed = {seed}: losses as of {WORD}: {same}", losses(other))
        other.close()


def digests(tap, place, status, said):
    for name in "out", "gsw.verdict":
        done = subprocess.run(["sha256sum", "-c", name], cwd=place.path, capture_output=True, text=True, check=False)
        tap.ok(status == 0 == done.returncode and done.stdout == "gsw.h5: OK\n", f"sha256sum -c {name}", done.stdout)
    tap.ok(place.text("gsw.verdict").endswith(f"\n{said.splitlines()[-1]}\n"),
           "gsw.verdict has the run's last line", place.text("gsw.verdict"))
    status, text = validate(place, "gsw.h5", "--log", "out")
    tap.ok(status == 0 and text.endswith("; SHA-256 as printed\n"), "validate.py --log compares the SHA-256", text)
    write(place, "other", re.sub(r"^[0-9a-f]{64}(?=  gsw)", 64 * "0", said, flags=re.MULTILINE))
    status, text = validate(place, "gsw.h5", "--log", "other")
    tap.ok(status == 1 and "FAILED: 1 finding" in text and "is another record, or was changed since" in text,
           "a record of another SHA-256 fails", text)
    write(place, "other", re.sub(r"(step_timing in s: )[\d.]+", r"\g<1>99.0000", said))
    status, text = validate(place, "gsw.h5", "--log", "other")
    tap.ok(status == 1 and "is the output of another run" in text, "another run's output is called that", text)


def recovered(tap, place, said):
    """The second case has no XGSW_RESULT line; its step lines are compared."""
    printed = [line for line in said.splitlines() if STEP.search(line)]
    last, count = printed[-1], len(printed)
    os.utime(place.file("gsw.h5.journal"), (WRITTEN, WRITTEN))
    name = recover.recover(place.file("gsw.h5.journal"))
    tap.ok(read_record(name).provenance["written"] == "2033-05-18T03:33:20Z",
           "a recovered record is dated as its journal's last writing")
    status, text = validate(place, name, "--log", "out")
    words = f"the output ends before its XGSW_RESULT line: {count - 12} step line"
    tap.ok(12 < count < 24 and status == 75 and words in text, "and its step lines are compared", text)
    for what, other, wrong in (
            ("loss", re.sub(r"(reduced_train_loss: )[\d.]+", r"\g<1>1.0", last), "printed losses 1.0 of step"),
            ("step", re.sub(r"(global_step: +)\d+", r"\g<1>99", last), "step 99 is printed, and the record has")):
        write(place, "other", said.replace(last, other))
        status, text = validate(place, name, "--log", "other")
        tap.ok(status == 1 and wrong in text, f"an output with another {what} fails", text)


def main():
    tap, place = Tap(), Place(DECK)
    status, said, errors = place.run(2)
    tap.say(errors)
    digests(tap, place, status, said)
    seeds(tap, place)
    place.close()
    place = Place(DECK)
    place.start(0, shim=(shim_path("record/shim"), "print 40 after")).wait(timeout=120)
    recovered(tap, place, place.text("out"))
    place.close()
    tap.done()


main()
