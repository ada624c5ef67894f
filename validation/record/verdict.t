#!/usr/bin/env python3
"""What connects a record with its run: the SHA-256 in the last lines and in gsw.verdict, which sha256sum reads; the
output of the run, even of a killed one; and a word of the site as seed. TAP."""

import os
import re
import subprocess

from runs import NUMBER, STEP, WORD, Tap, call, read_record, recover, script, shared

VALIDATE = script("validate")
WRITTEN = 2000000000  # seconds since 1970: the last write to a journal


def seeds(tap, place):
    """Case 3 has the word, case 4 its number and case 6 another word."""
    word, number, other = (list(read_record(place.file("gsw.h5")).cases[n]["steps/losses"][:12]) for n in (2, 3, 5))
    tap.ok(word == number, f"seed = {NUMBER}: losses as of {WORD}", number)
    tap.ok(other[0] != word[0], "seed = tender-8: other losses", other)


def digests(tap, place):
    said = place.text("out")
    for name in "out", "gsw.verdict":
        done = subprocess.run(["sha256sum", "-c", name], cwd=place.path, capture_output=True, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C"})
        tap.ok(done.returncode == 0 and done.stdout == "gsw.h5: OK\n", f"sha256sum -c {name}", done.stdout)
    tap.ok(place.text("gsw.verdict").endswith(f"\n{said.splitlines()[-1]}\n"),
           "gsw.verdict has the run's last line", place.text("gsw.verdict"))
    place.write("other", re.sub(r"^[0-9a-f]{64}(?=  gsw)", 64 * "0", said, flags=re.MULTILINE))
    status, text = call(VALIDATE, place.file("gsw.h5"), "--log", place.file("other"))
    tap.ok(status == 1 and "FAILED: 1 finding" in text and "is another record, or was changed since" in text,
           "a record of another SHA-256 fails", text)
    place.write("other", re.sub(r"(step_timing in s: )[\d.]+", r"\g<1>99.0000", said))
    status, text = call(VALIDATE, place.file("gsw.h5"), "--log", place.file("other"))
    tap.ok(status == 1 and "is the output of another run" in text, "another run's output is called that", text)


def recovered(tap, place):
    """The second case has no XGSW_RESULT line; its step lines are compared."""
    said = place.text("out")
    printed = [line for line in said.splitlines() if STEP.search(line)]
    last, count = printed[-1], len(printed)
    os.utime(place.file("gsw.h5.journal"), (WRITTEN, WRITTEN))
    name = recover.recover(place.file("gsw.h5.journal"))
    tap.ok(read_record(name).provenance["written"] == "2033-05-18T03:33:20Z",
           "a recovered record is dated as its journal's last writing")
    status, text = call(VALIDATE, name, "--log", place.file("out"))
    words = f"the output ends before its XGSW_RESULT line: {count - 12} step line"
    tap.ok(12 < count < 24 and status == 75 and words in text, "and its step lines are compared", text)
    for what, other, wrong in (
            ("loss", re.sub(r"(reduced_train_loss: )[\d.]+", r"\g<1>1.0", last), "printed losses 1.0 of step"),
            ("step", re.sub(r"(global_step: +)\d+", r"\g<1>99", last), "step 99 is printed, and the record has")):
        place.write("other", said.replace(last, other))
        status, text = call(VALIDATE, name, "--log", place.file("other"))
        tap.ok(status == 1 and wrong in text, f"an output with another {what} fails", text)


def main():
    tap = Tap()
    for name, parts in (("host", (digests, seeds)), ("killed", (recovered,))):
        place = shared(name)
        for part in parts:
            part(tap, place)
        place.close()
    tap.done()


main()
