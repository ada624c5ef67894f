#!/usr/bin/env python3
"""Copies of a case: each equals the case alone bit by bit; a slow one and a faulty one are named."""

import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "record"))
from runs import Place, Tap, call, ranks_of, read_record, script  # noqa: E402
from validate import copies  # noqa: E402
from validate.findings import Findings  # noqa: E402
from program import alone, deck_file  # noqa: E402

STEPS, STOP = 150, 3                # STOP: seconds for which a rank of copy 1 is stopped
DECK = "copies\nof a case\nprecision = fp32\nsize = check\nwarmup = 0\nsteps = {}\n{}[llama3.1-8b]\ntensor = 2\n"
tap = Tap()


def is_rank(pid, rank):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return re.search(rb"(OMPI_COMM_WORLD|PMI)_RANK=%d\0" % rank, file.read())


def run(place, ranks, stopped=None):
    """Returns the cases of the record and the output. Stops a rank for a while after some steps."""
    running = place.start(ranks)
    if stopped:
        place.wait_for("global_step:  9 ", running)
        pid = next(pid for pid in ranks_of(running) if is_rank(pid, stopped))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOP)
        os.kill(pid, signal.SIGCONT)
    running.wait()
    return read_record(place.file("gsw.h5")).cases, place.text("out") + place.text("err")


def same(case, single):
    lists = all((case["copies/" + name] == single["steps/" + name][:, None]).all()
                for name in ("losses", "gradient_norms"))
    return lists and {*case["copies/weights_digest"]} == {single["results/weights_digest"]} and all(
        case["check_model/" + name] == single["check_model/" + name] for name in ("residual", "digest"))


with (Place(DECK.format(STEPS, "copies = all\nrepeats = 2\n")) as two, Place(DECK.format(STEPS, "")) as one,
      Place(DECK.format(4, "copies = 2\nfault = scale all_gather 1 3\n")) as third):
    (case, last), said = run(two, 5, stopped=3)
    (single,), said_alone = run(one, 2)
    tap.ok(same(case, single), "each of two copies equals the case on 2 ranks bit by bit", said + said_alone)
    apart = case["results/mean_seconds"] - case["copies/mean_seconds"][0]
    tap.ok("Slowest    copy 1 (ranks 2 to 3, on " in said and apart > 0.5 * STOP / STEPS,
           "the copy with a stopped rank is named, and its mean is the case's", said)
    status, found = call(script("validate"), two.file("gsw.h5"))
    merit = 2 * last["results/tokens_per_step"] / last["results/repeated_median_seconds"]
    tap.ok(f"\nFOM llama3.1-8b check fp32 4 ranks in 2 copies: {merit:.1f} tokens/s, median of 2 repeats" in said,
           "FOM is the speed of both copies, by the median of the repeats", said)
    tap.ok(status == 0 and "ranks from 4 on stay idle" in said, "the validator agrees, and one rank is idle", found)
    case.values["copies/gradient_norms"][9, 1] *= 2
    findings = Findings()
    copies.check(case, findings)
    tap.ok("copies [1] differ" in " ".join(findings.sentences), "the validator finds a copy that differs", said)
    (faulty,), said = run(third, 4)
    tap.ok("FAILED     copy 1: check: residual" in said and "FAILED     copy 1: replay: all_gather" in said
           and "copy 0:" not in said and "copies" in faulty["results/fail_rules"],
           "a fault on a rank of a copy: it FAILED, and is named", said)
paper = alone("--dry-run", deck_file("copies = all\n[llama3.1-8b]\n"), "--ranks", "8,24", "--json", "-").stdout
one, three = (json.loads(line) for line in paper.splitlines())
tap.ok(three["copies"] == 3 and three["published_tokens_per_second"] == 3 * one["published_tokens_per_second"],
       "on paper the published speed is that of all copies", paper)
tap.done()
