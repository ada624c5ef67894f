#!/usr/bin/env python3
"""--schedule: the lists and the picture of every stage. (units/plan/schedule.c tests the lists of each schedule.)"""
import re

from program import Tap, alone, deck_file

WIDEST = 100


def shown(deck, count):
    return alone("--dry-run", "--schedule", deck_file(deck), "--ranks", str(count))


def stages(text):
    """Returns the text after the name of each stage: first the lists, then the rows of the picture."""
    rows = re.findall(r"^  stage (\d+) +(.*)$", text, re.M)
    return [row for _, row in rows[: len(rows) // 2]], [row for _, row in rows[len(rows) // 2 :]]


tap = Tap()
run = shown("backend = host\n[llama3.1-8b]\nsize = check\npipeline = 2\nchunks_per_stage = 2\nglobal_batch = 4\n", 2)
lists, picture = stages(run.stdout)
tap.ok(run.returncode == 0 and len(lists) == len(picture) == 2, "a list and a row of the picture for every stage",
       run.stdout)
tap.ok(lists[:1] == ["F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3"],
       "the list is the schedule's", run.stdout)
# Interleaved, 2 stages, 2 chunks, 4 microbatches: (4 x 2 + 1) x 3 chunk forwards, of which 3 wait.
tap.ok("13.5 forwards of a stage, 1.5 of them (11.1 %) a bubble" in run.stdout,
       "makespan and bubble are the textbook's", run.stdout)
tap.ok([row.split()[-3:] for row in picture] == [["11.1", "%", "5"], ["11.1", "%", "3"]],
       "bubble and live microbatches of each stage", run.stdout)
tap.ok(picture[0].startswith("a0a1b0b1a2. B0--a3"), "the picture names chunk and microbatch where they fit", run.stdout)

run = shown("[llama3.1-405b]\nsize = full\nprecision = bf16\n", 512)
lists, picture = stages(run.stdout)
tap.ok(run.returncode == 0 and len(picture) == 8 and "(1.3 %)" in run.stdout,
       "405b on 512 ranks: 8 stages, bubble 7 / (64 x 8 + 7)", run.stdout)
drawn = run.stdout[run.stdout.index("  picture"):run.stdout.index("\ntime ")]
tap.ok(all(len(line) <= WIDEST for line in drawn.splitlines())
       and "are left out" in run.stdout,
       f"a long picture is cut to {WIDEST} columns and says so", run.stdout)
drained = re.findall(r"W7\.(\d+)", lists[7])
tap.ok(drained == [str(m) for m in range(14, 64)] and "W" not in "".join(lists[:7]),
       "405b drains the head's weight gradients of its last 50 microbatches, on the last stage", lists[7][-400:])
run = alone("--schedule", "gsw.dat")
tap.ok(run.returncode == 2 and "--schedule goes with --dry-run" in run.stderr and run.stdout == "",
       "refused: --schedule of a run", run.stdout + run.stderr)
tap.done()
