#!/usr/bin/env python3
"""The dry run: every cell of the reference, bytes per parameter of the recipe's anchor, bytes equal to what a run lays out."""
import csv
import re
import resource

from program import Tap, alone, deck_file, ranks, results

CELLS = "validation/reference/cells.csv"
PARAMETERS = {"llama2-70b": 68.977e9, "llama3.1-8b": 8.030e9, "llama3.1-70b": 70.554e9, "llama3.1-405b": 405.853e9,
              "nemotron4-340b": 341.03e9, "grok1-314b": 316.45e9, "gpt3-175b": 174.78e9}
PROXIES = {("llama3.1-405b", 8): 29.704e9, ("llama3.1-405b", 30): 99.834e9, ("llama3.1-405b", 62): 201.840e9}
LAYOUT = (("tensor", "tensor"), ("pipeline", "pipeline"), ("context", "context"), ("expert", "expert"), ("data", "data"),
          ("shard", "shard"), ("chunks_per_stage", "chunks_per_stage"), ("layers", "layers"), ("sequence", "sequence"), ("global", "global_batch"))


def figure(name, text):
    return float(re.search(rf"{name} +([0-9.e+]+)", text).group(1))


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cells():
    with open(CELLS, encoding="utf-8") as f:
        return list(csv.DictReader(f))


def cases(text):
    return text.split("\ncase ")


def wrong_layout(text, row):
    """What a case prints otherwise than the row says."""
    wrong = [f"{name} is not {row[key]}" for name, key in LAYOUT if not re.search(rf"\b{name} +{row[key]}\b", text)]
    if f"microbatches of {row['micro_batch']} on" not in text:
        wrong.append(f"micro batch is not {row['micro_batch']}")
    return wrong + [f"no {words}" for words in ("the recipe's\n", ", exactly the model's;", "  schedule ") if words not in text]


def check_row(row, text):
    """Layout, parameters, sums and what is or is not known of one cell."""
    wrong = wrong_layout(text, row)
    parameters = PROXIES.get((row["workload"], int(row["layers"])), PARAMETERS[row["workload"]])
    whole = row["workload"] != "grok1-314b" or row["layers"] == "64"        # its proxies' counts are not published
    digits = 0.5 * 10.0 ** (6 if parameters > 1e11 and parameters % 1e7 else 7)     # of the published figure
    if whole and abs(figure("parameters", text) - parameters) > max(digits, 5e5):
        wrong.append(f"parameters {figure('parameters', text)}")
    if "SKIPPED" in text or ("hazards     none" in text) == ("messages    n/a" in text):
        wrong.append("SKIPPED, hazards, or messages known and unknown")
    return wrong


def check_cells(tap):
    """All rows of the reference, family by family, and what all of them take."""
    rows, began, count = cells(), processor_seconds(), 0
    for deck in sorted({f"{row['workload']}-{row['precision']}" for row in rows}):
        mine = [row for row in rows if f"{row['workload']}-{row['precision']}" == deck]
        counts = sorted({int(row["gpus"]) for row in mine})
        run = alone("--dry-run", f"reference/{deck}.dat", "--ranks", ",".join(map(str, counts)))
        told = dict(zip(counts, cases(run.stdout)))
        wrong = [f"{row['gpus']} GPUs: {w}" for row in mine for w in check_row(row, told.get(int(row["gpus"]), ""))]
        tap.ok(run.returncode == 0 and len(told) == len(counts) and not wrong, f"{deck}: the cells of {', '.join(map(str, counts))} GPUs", "\n".join(wrong) + run.stderr)
        count += len(mine)
    tap.ok(count == 77, "77 cells", count)
    tap.say(f"{count} cells in {processor_seconds() - began:.1f} s of one core")


tap = Tap()
check_cells(tap)
run = alone("--dry-run", deck_file("[llama3.1-405b]\nsize = full\nprecision = bf16\n"), "--ranks", "16384")
tap.ok(run.returncode == 0 and "data 128 " in run.stdout and "16384 of 16384 ranks" in run.stdout and ", exactly the model's;" in run.stdout
       and "hazards     none" in run.stdout, "llama3.1-405b on 16384 ranks: data is the rest", run.stdout)

run = alone("--dry-run", deck_file("[llama3.1-8b]\nsize = full\nprecision = bf16\ndata = 8\n"), "--ranks", "8")
per_parameter = figure("optimizer", run.stdout)
total = per_parameter * figure("parameters", run.stdout)
tap.say(f"8b on 8 data ranks: {per_parameter} bytes a parameter, {total / 1e9:.3f} GB; the recipe's 44.272 GB is {44.271689728e9 / total - 1:.2%} above")
tap.ok(abs(per_parameter - 5.5) < 1e-3 and "global 128" in run.stdout, "llama3.1-8b, 8 data ranks, BF16: 5.5 bytes a parameter", run.stdout)
run = alone("--dry-run", "reference/llama3.1-8b-bf16.dat", "--ranks", "8")
tap.ok(abs(figure("optimizer", run.stdout) - 5.5) < 1e-3, "so does the recipe's own layout", run.stdout)
run = alone("--dry-run", "reference/grok1-314b-fp8.dat", "--ranks", "8")
tap.ok(run.returncode == 0 and "not built: " in run.stdout and "submitted n/a" in run.stdout, "what is not built is described all the same", run.stdout)

run = alone("--dry-run", deck_file("[llama3.1-8b]\nsize = small\n[grok1-314b]\nsize = full\n"), "--ranks", "96,128")
tap.ok(run.returncode == 0 and run.stdout.count("SKIPPED") == 1 and "; give data or global_batch\n" in run.stdout,
       "a rank count that does not divide the recipe's batch skips its case alone", run.stdout + run.stderr)
run = alone("--dry-run", deck_file("[llama3.1-8b]\nsize = small\nglobal_batch = 128\n"), "--ranks", "96,128")
tap.ok(run.returncode == 2 and "128 of 128 ranks" in run.stdout and "; give data or another global_batch\n" in run.stderr,
       "a rank count that is refused does not hide the next one; the worst status is returned", run.stdout + run.stderr)
run = alone("--dry-run", "reference/grok1-314b-bf16.dat", "--ranks", "128")
tap.ok("GEGLU, 8 experts, 2 active" in run.stdout and "overlap on" in run.stdout, "the model's kind is told, and the overlap", run.stdout)

for layout in ("tensor = 2\ndata = 2", "data = 4\nsharding = none", "tensor = 4\nrecompute = layer", "data = 2\ntensor = 2\nrecompute = mlp\nmicro_batch = 2",
               "tensor = 2\npipeline = 2\nchunks_per_stage = 2", "context = 2\npipeline = 2\ntensor = 1", "tensor = 2\ncontext = 2\noverlap = on"):
    deck = deck_file(f"backend = host\nprecision = fp32 bf16\nsteps = 1\ncheck = off\nrecord = none\n[llama3.1-8b]\nsize = small\nlayers = 4\n{layout}\n")
    told = [int(n) for n in re.findall(r"^ +0 +0 .* (\d+)$", alone("--dry-run", deck, "--ranks", "4").stdout, re.M)]
    laid = [r["arena_bytes"] for r in results(ranks(4, deck))]
    tap.ok(len(laid) == 2 and told == laid, f"bytes told are bytes laid out: {layout!r}", f"{told} {laid}")
tap.done()
