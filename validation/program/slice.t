#!/usr/bin/env python3
"""--slice: the operations of one rank, each alone. All operations of a step are present: on the host, on the emulator,
and for real cells on the emulator without computing."""
import json
import math

from program import LONG, Tap, alone, deck_file

EMULATOR = "build/emulator/xgsw-emulator"
CELLS = (("llama3.1-8b", "bf16", 8), ("llama3.1-70b", "bf16", 64), ("llama3.1-405b", "fp8", 512),
         ("nemotron4-340b", "fp8", 128), ("grok1-314b", "fp8", 512))
tap = Tap()


def sliced(run):
    """Returns [(the rank's object, its operations)]."""
    ranks = []
    for line in run.stdout.splitlines():
        found = json.loads(line)
        if "deck" in found:
            ranks.append((found, []))
        else:
            ranks[-1][1].append(found)
    return ranks


def times(operation):
    return sum(number for name, number in operation.items() if name.endswith("_times"))


def is_whole(rank, operations, columns):
    """Returns whether the operations make up the step: its flops, and in each column its seconds."""
    flops = sum(times(o) * o["flops"] for o in operations)
    return (operations and math.isclose(flops, rank["step_flops"], rel_tol=1e-12)
            and all(0.0 < o[f"{column}_p10"] <= o[f"{column}_median"] <= o[f"{column}_p90"]
                    for o in operations for column in columns)
            and all(math.isclose(rank[f"{column}_step_seconds"], rel_tol=1e-9,
                                 b=sum(times(o) * o[f"{column}_median"] for o in operations)) for column in columns))


def slice_of(text, ranks, *arguments, program=None, variables=()):
    given = ("--slice", deck_file(text), "--ranks", str(ranks), "--seconds", "0.001", "--json", "-", *arguments)
    return alone(*given, **({"program": program} if program else {}), variables=variables)


SMALL = """size = check
[grok1-314b]
expert = 2
tensor = 2
precision = fp8
[nemotron4-340b]
tensor = 2
pipeline = 2
precision = bf16
"""
run = slice_of(f"backend = host\n{SMALL}", 4, "--stages")
found = sliced(run) if run.returncode == 0 else []
tap.ok([rank["rank"] for rank, _ in found] == [0, 0, 2] and all(is_whole(*one, ["all"]) for one in found)
       and all(rank["resident_step_seconds"] is None for rank, _ in found),
       "on the host the operations of a rank of each stage sum to the flops and seconds of its step",
       run.stdout[-2000:] + run.stderr)
for arguments, words in (((3,), "case 1 is skipped: "), ((4, "--rank", "4"), "case 1 has ranks 0 to 3")):
    run = slice_of(f"backend = host\n{SMALL}", *arguments)
    tap.ok(run.returncode == 2 and words in run.stderr and run.stdout == "", f"refused: {words}", run.stderr)
run = slice_of(SMALL, 4)
tap.ok(run.returncode == 2 and run.stdout == "" and "cuda cannot run here: " in run.stderr
       and "--on-host uses the host" in run.stderr,
       "refused: where there is no GPU, a slice says how to take the host", run.stderr)
run = slice_of(f"backend = cuda\n{SMALL}", 4, program=EMULATOR)
found = sliced(run) if run.returncode == 0 else []
tap.ok(len(found) == 2 and all(is_whole(*one, ["all", "resident"]) for one in found),
       "on an emulated GPU, whose memory is checked, every operation runs on what it is given",
       run.stdout[-2000:] + run.stderr)
for workload, precision, ranks in CELLS if LONG else CELLS[:1]:
    run = slice_of(f"backend = cuda\nsize = full\n[{workload}]\nprecision = {precision}\n", ranks, program=EMULATOR,
                   variables={"EMULATOR_IDLE": "1"})
    rank, operations = (sliced(run) or [({}, [])])[0] if run.returncode == 0 else ({}, [])
    columns = ["all", "resident"] + ["left"] * (rank.get("left_multiprocessors", 0) > 0)
    tap.ok(rank.get("published_seconds") and is_whole(rank, operations, columns),
           f"{workload} {precision} at {ranks}: the idle emulator takes all {len(operations)} operations",
           run.stdout[-2000:] + run.stderr)
tap.done()
