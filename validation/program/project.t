#!/usr/bin/env python3
"""--project: the published cells on H100s, compared with the page measured/projection.txt (four recipes; full: the
smallest cell of each; long: all, and 16,384 GPUs), mistakes in a sheet, and the timeline of a run.

    validation/program/project.t page > validation/measured/projection.txt"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from program import FULL, LONG, PROGRAM, Tap, alone, deck_file, ranks

PAGE, SHEET = "validation/measured/projection.txt", "dgx-h100"
EVERY = LONG or "page" in sys.argv
BRIEF = "llama3.1-8b", "llama2-70b", "grok1-314b", "nemotron4-340b"     # those that take least
ALLOCATED, PEAK = 44271689728, 70833405952  # bytes: memory_allocated and peak_memory_usage of that log's iteration 49
MISTAKES = """device H101
memory TB/s 2848 2350 3050 assumed copy
nvlink GB/s 370 -300 380 published somebody
netwrk GB/s 46 25 48 published somebody
gap us 3 2 6 guessed
"""
SAID = ("1: device H101 is not in ./xgsw --list", "2: TB/s: the unit is GB/s", "3: -300: give a number above 0",
        "4: netwrk is not a term of a sheet; the nearest is network", "5: guessed: give the origin",
        "thread_block is missing, in GB/s")


def decks():
    """Returns {deck: {number of GPUs: flops of a GPU in a step, in some unit}} of the published cells on H100s."""
    found = {}
    with open("validation/reference/cells.csv", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["gpu"] == "H100":
                work = float(row["recipe_mfu_percent"] or 1) * float(row["step_seconds"])
                found.setdefault(f"{row['workload']}-{row['precision']}", {})[int(row["gpus"])] = work
    return dict(sorted(found.items()))


def project(deck, gpus):
    return alone("--project", f"reference/{deck}.dat", "--ranks", ",".join(map(str, gpus)), "--sheet", SHEET)


def without_memory(text):
    """Removes memory from the page: a build without CUDA does not know the scratch of its libraries."""
    return re.sub(r"^  memory .*\n", "", text, flags=re.M)


def projected():
    """Returns {deck: its cases as text}; unless the test is long only for the smallest number of GPUs."""
    counts = {deck: sorted(cells) if EVERY else [min(cells)] for deck, cells in decks().items()
              if EVERY or FULL or deck.startswith(BRIEF)}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = dict(zip(counts, pool.map(lambda deck: project(deck, counts[deck]), counts)))
    return {deck: without_memory(run.stdout) + (run.stderr if run.returncode else "") for deck, run in runs.items()}


def seconds(text):
    return float(re.search(r"step +(\d+\.\d+) s", text)[1])


class Cell:
    """A case as the program prints it, with its published cell."""

    def __init__(self, text, work):
        found = re.search(r"case 1: .*?(?:, (\d+-layer) proxy)?, \w+, (\d+) ranks?", text)
        self.gpus = f"{found[2]} ({found[1]})" if found[1] else found[2]
        self.seconds, self.published = seconds(text), float(re.search(r"published +([\d.]+) s", text)[1])
        self.work = work[int(found[2])]
        changes = re.findall(r"(\w+) [\d.]+ % \(([-+][\d.]+) ([-+][\d.]+)\)", text)
        self.changes = {term: [1 + float(percent) / 100 for percent in ends] for term, *ends in changes}

    def slower(self, than, member):
        """Returns the growth from another cell to this one at equal flops of a GPU."""
        return getattr(self, member) / getattr(than, member) / (self.work / than.work)


def carriers(percent, first, last):
    """Names the two terms that move the step of `last` (or its growth from `first`) most in the direction of `percent`,
    each with the percent that its least or its most adds; and the sum of all such terms."""
    growth, moved = last.slower(first, "seconds") if first else 1.0, {}
    for term, ends in last.changes.items():
        of_first = first.changes.get(term, (1, 1)) if first else (1, 1)
        moves = [(end / base - 1) * growth * 100 for end, base in zip(ends, of_first)]
        moved[term] = max(moves) if percent > 0 else min(moves)
    able = sorted((term for term in moved if moved[term] * percent > 0), key=lambda term: -abs(moved[term]))
    named = ", ".join(f"{term} {moved[term]:+.1f}" for term in able[:2])
    return f"{named}, all {len(able)} {sum(map(moved.get, able)):+.1f}"


def row(deck, text):
    """Returns one line of the table: the smallest and the largest number of GPUs of a deck."""
    cells = [Cell(case, decks()[deck]) for case in text.strip().split("\n\n")]
    first, last = cells[0], cells[-1]
    line = f"{deck:18}" + "".join(f"{c.gpus:>13} {c.seconds:6.3f}/{c.published:6.3f} {c.seconds / c.published:5.3f}"
                                  for c in dict.fromkeys((first, last))).ljust(67)
    missing = (last.published / last.seconds - 1) * 100
    paper, published = ((last.slower(first, of) - 1) * 100 for of in ("seconds", "published"))
    line += f"{paper:+6.1f}{published:+7.1f}" if last is not first else " " * 13
    line += f"  step {missing:+.1f}: {carriers(missing, None, last)}"
    apart = published - paper
    return line + (f"; growth {apart:+.1f}: {carriers(apart, first, last)}" if abs(apart) > 3 else "")


def memory():
    """Returns our memory next to that of the recipe's log."""
    text = alone("--dry-run", "reference/llama3.1-8b-bf16.dat", "--ranks", "8").stdout
    names, first = re.search(r"\n  (stage +rank .*)\n(.*)\n", text).groups()
    of = {name: int(number) for name, number in zip(re.split(r" {2,}", names), first.split())}
    kept = of["weights"] + of["gradients"] + of["optimizer"]
    gb = {name: f"{number / 1e9:.3f} GB" for name, number in {**of, "kept": kept, "allocated": ALLOCATED, "peak": PEAK,
                                                              "more": ALLOCATED - kept}.items()}
    return f"""Memory of llama3.1-8b-bf16 on 8 GPUs. The recipe's log has {gb['allocated']} allocated after a step.
Our arena keeps {gb['kept']} from step to step:
weights {gb['weights']}, gradients {gb['gradients']}, optimizer {gb['optimizer']}.
These are {kept / of['parameters']:.4f} bytes a parameter: 2, 2, and 12 of masters and moments on 8 ranks. The log has
{gb['more']} more, {ALLOCATED / kept - 1:.2%}; we cannot derive that rest. Our activations, {gb['activations']}, are
taken and left within a step: they belong to the log's peak of {gb['peak']}.
"""


def head(texts):
    """Returns the part of the page before the cases."""
    return f"""Steps of the published cells on H100s, on paper: ./xgsw --project DECK --ranks N --sheet {SHEET}.
Operations of seven cells were measured on one H100 (gpu-h100.txt); other shapes take the rate of the nearest. Transfers
were not measured. Nothing is fitted to what is published.

The smallest and the largest number of GPUs of each deck: seconds of a step on paper / published, and their ratio.
Growth of the step from the smallest to the largest, at equal flops of a GPU (proxies have fewer layers), in percent.
Then by how many percent the published step of the largest is longer than ours, and the two terms of the sheet that
could carry most of that: what each adds to the step at its least or its most, to first order; then all terms that
could, together. Where the growth differs by more than 3 points, the same for the growth.

{'deck':18}{'GPUs':>13} {'paper/published':19}{'GPUs':>14} {'paper/published':20}growth published  published - paper, %
{chr(10).join(row(deck, text) for deck, text in texts.items())}

{memory()}
"""


if "page" in sys.argv:
    found = projected()
    print(head(found) + "".join(found.values()), end="")
    sys.exit()
tap = Tap()
with open(PAGE, encoding="utf-8") as f:
    page = f.read()
found = projected()
if LONG:
    tap.ok(head(found) in page, f"the table and the memory are as on {PAGE}", head(found))
for name, text in found.items():
    cases = text.strip().split("\n\n")
    tap.ok("step " in text and all(case in page for case in cases), f"{name} is as on {PAGE}", text)
text = "precision = bf16\nsize = full\n{}[llama3.1-70b]\n"
left, none = (alone("--project", deck_file(text.format(key)), "--ranks", "64", "--sheet", SHEET).stdout
              for key in ("global_batch = 32\n", "global_batch = 32\ntransfer_sms = 0\n"))
tap.ok(seconds(none) > 1.5 * seconds(left), "without SMs left to transfers, products next to them take two waves",
       left + none)
run = alone("--project", "reference/llama2-70b-fp8.dat", "--ranks", "64", "--sheet", SHEET, "--vary", "network")
varied = re.search(r"vary +network in GB/s: 25 gives ([\d.]+) s.*; 48 gives ([\d.]+) s", run.stdout)
slow, fast = map(float, varied.groups()) if varied else (0.0, 0.0)
tap.ok(fast < seconds(run.stdout) < slow, "a slower network makes the step longer, a faster one shorter",
       run.stdout + run.stderr)
if LONG:
    run = alone("--project", deck_file(text.format("").replace("70b", "405b")), "--ranks", "16384", "--sheet", SHEET)
    tap.ok(run.returncode == 0 and "16384 ranks of dgx-h100" in run.stdout, "16,384 GPUs", run.stdout + run.stderr)
text = "backend = host\nsize = check\nprecision = fp32\nsteps = 2\nrecord = none\n[llama3.1-8b]\ntensor = 2\n"
with tempfile.NamedTemporaryFile(suffix=".json") as trace:
    run = ranks(2, deck_file(text), "--timeline", trace.name)
    events = [e for e in json.load(trace)["traceEvents"] if e.get("ph") == "X"]
computing = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if not e["args"]["axis"])
tap.ok({"forward", "backward"} <= {e["args"]["phase"] for e in events} and len(computing) < len(events)
       and all(end < begin + 0.01 for (_, end), (begin, _) in zip(computing, computing[1:])),
       "a run's --timeline has forward, backward and transfers, and computes one operation at a time", run.stderr)
with tempfile.TemporaryDirectory() as folder:
    os.makedirs(f"{folder}/inputs/machines")
    with open(f"{folder}/inputs/machines/wrong.sheet", "w", encoding="utf-8") as f:
        f.write(MISTAKES)
    run = subprocess.run([os.path.abspath(PROGRAM), "--project", "gsw.dat", "--sheet", "wrong"], cwd=folder,
                         capture_output=True, text=True, check=False)
tap.ok(run.returncode == 2 and run.stdout == "" and all(words in run.stderr for words in SAID),
       "all mistakes of a sheet are named, each with its line", run.stderr)
tap.done()
