#!/usr/bin/env python3
"""--project: the published cells on H100s, against the page measured/projection.txt (`long`: all of them, and 16,384
GPUs), and mistakes in a sheet.

    validation/program/project.t page > validation/measured/projection.txt"""
import csv
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from program import PROGRAM, Tap, alone, deck_file

PAGE, SHEET = "validation/measured/projection.txt", "dgx-h100"
LONG = "XGSW_TEST_LONG" in os.environ or "page" in sys.argv
MISTAKES = """device H101
memory TB/s 2848 2350 3050 assumed copy
nvlink GB/s 370 -300 380 published somebody
netwrk GB/s 46 25 48 published somebody
gap us 3 2 6 guessed
"""
SAID = ("1: device H101 is none of those", "2: TB/s: the unit is GB/s", "3: -300: give a number above 0",
        "4: netwrk is no term of a sheet; the nearest is network", "5: guessed: give the origin",
        "thread_block is missing, in GB/s")


def decks():
    """{deck: numbers of GPUs} of the published cells on H100s; without `long` the smallest of each."""
    found = {}
    with open("validation/reference/cells.csv", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["gpu"] == "H100":
                found.setdefault(f"{row['workload']}-{row['precision']}", []).append(int(row["gpus"]))
    return {deck: sorted(gpus) if LONG else [min(gpus)] for deck, gpus in sorted(found.items())}


def project(deck, gpus):
    return alone("--project", f"reference/{deck}.dat", "--ranks", ",".join(map(str, gpus)), "--sheet", SHEET)


def without_memory(text):
    """The page has no memory: a build without CUDA does not know the scratch of its libraries."""
    return re.sub(r"^  memory .*\n", "", text, flags=re.M)


def projected():
    """{deck: its cases as text}"""
    counts = decks()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = dict(zip(counts, pool.map(lambda deck: project(deck, counts[deck]), counts)))
    return {deck: without_memory(run.stdout) + (run.stderr if run.returncode else "") for deck, run in runs.items()}


def seconds(text):
    return float(re.search(r"step +(\d+\.\d+) s", text)[1])


if "page" in sys.argv:
    print(f"Steps of the published cells on H100s, on paper: ./xgsw --project DECK --ranks N --sheet {SHEET}.\n"
          "Nothing here was measured on a GPU by xgsw. Nothing is fitted to what is published.\n")
    print("".join(projected().values()), end="")
    sys.exit()
tap = Tap()
with open(PAGE, encoding="utf-8") as f:
    page = f.read()
for name, text in projected().items():
    cases = text.strip().split("\n\n")
    tap.ok("step " in text and all(case in page for case in cases), f"{name} is as on {PAGE}", text)
text = "precision = bf16\nsize = full\n{}[llama3.1-70b]\n"
left, none = (alone("--project", deck_file(text.format(key)), "--ranks", "64", "--sheet", SHEET).stdout
              for key in ("", "transfer_sms = 0\n"))
tap.ok(seconds(none) > 1.5 * seconds(left), "without SMs left to transfers, products next to them take two waves",
       left + none)
run = alone("--project", "reference/llama2-70b-fp8.dat", "--ranks", "64", "--sheet", SHEET, "--vary", "network")
found = re.search(r"vary +network in GB/s: 25 gives ([\d.]+) s.*; 48 gives ([\d.]+) s", run.stdout)
slow, fast = map(float, found.groups()) if found else (0.0, 0.0)
tap.ok(fast < seconds(run.stdout) < slow, "a slower network makes the step longer, a faster one shorter",
       run.stdout + run.stderr)
if LONG:
    run = alone("--project", deck_file(text.format("").replace("70b", "405b")), "--ranks", "16384", "--sheet", SHEET)
    tap.ok(run.returncode == 0 and "16384 ranks of dgx-h100" in run.stdout, "16,384 GPUs", run.stdout + run.stderr)
with tempfile.TemporaryDirectory() as folder:
    os.makedirs(f"{folder}/inputs/machines")
    with open(f"{folder}/inputs/machines/wrong.sheet", "w", encoding="utf-8") as f:
        f.write(MISTAKES)
    run = subprocess.run([os.path.abspath(PROGRAM), "--project", "gsw.dat", "--sheet", "wrong"], cwd=folder,
                         capture_output=True, text=True, check=False)
tap.ok(run.returncode == 2 and run.stdout == "" and all(words in run.stderr for words in SAID),
       "all mistakes of a sheet are named, each with its line", run.stderr)
tap.done()
