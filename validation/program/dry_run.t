#!/usr/bin/env python3
"""The dry run: every cell of the reference, bytes per parameter of the recipe's example, and the output for a deck.
(That bytes, flops and operations are those of a run: units/bench/dry_run.c.)"""
import csv
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from program import FULL, LONG, Tap, alone, deck_file, results

CELLS = "validation/reference/cells.csv"
ROWS = "validation/measured/dry-run-rows.txt"   # `validation/program/dry_run.t rows` prints its lines
EVERY = LONG or "rows" in sys.argv
# hidden, ffn, head dim, heads, key-value heads, vocabulary; matrices of an MLP, MLPs of a layer, vectors of a norm,
# whether linear layers have biases; tables of the vocabulary, learned positions
SHAPES = {
    "llama2-70b": ((8192, 28672, 128, 64, 8, 32000), (3, 1, 1, False), (2, 0)),
    "llama3.1-8b": ((4096, 14336, 128, 32, 8, 128256), (3, 1, 1, False), (2, 0)),
    "llama3.1-70b": ((8192, 28672, 128, 64, 8, 128256), (3, 1, 1, False), (2, 0)),
    "llama3.1-405b": ((16384, 53248, 128, 128, 8, 128256), (3, 1, 1, False), (2, 0)),
    "nemotron4-340b": ((18432, 73728, 192, 96, 8, 256000), (2, 1, 2, False), (2, 0)),
    "grok1-314b": ((6144, 32768, 128, 48, 8, 128256), (3, 8, 1, False), (2, 0)),
    "gpt3-175b": ((12288, 49152, 128, 96, 96, 50304), (2, 1, 2, True), (1, 16384)),
}
# Published number of parameters in billions, by workload and number of layers.
PUBLISHED = {("llama2-70b", 80): "68.977", ("llama3.1-8b", 32): "8.030", ("llama3.1-70b", 80): "70.554",
             ("llama3.1-405b", 126): "405.853",
             ("llama3.1-405b", 8): "29.704", ("llama3.1-405b", 30): "99.834", ("llama3.1-405b", 62): "201.840",
             ("nemotron4-340b", 96): "341.03", ("grok1-314b", 64): "316.45", ("gpt3-175b", 96): "174.78"}
# Decks of inputs/, and the ranks for which they are written.
DECKS = (("gsw", 4), ("bench", 1), ("ramp", 1), ("gsw", 1), ("gsw", 8), ("gsw", 64), ("gsw", 128),
         ("gsw", 500), ("check-512", 512))          # the first three in the short test
LAYOUT = (("tensor", "tensor"), ("pipeline", "pipeline"), ("context", "context"), ("expert", "expert"),
          ("data", "data"),
          ("shard", "shard"), ("chunks_per_stage", "chunks_per_stage"), ("layers", "layers"), ("sequence", "sequence"),
          ("global", "global_batch"))


def figure(name, text):
    return float(re.search(rf"{name} +([0-9.e+]+)", text).group(1))


def cells():
    """Returns rows of the reference: all (long test), those with the fewest GPUs of each deck (full test), or of these
    one or two of each family, with the one that needs most memory."""
    with open(CELLS, encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    least = {}
    for row in rows:
        least.setdefault((row["workload"], row["precision"]), row["gpus"])
    brief = ("llama3.1-8b", "fp8"), ("llama3.1-70b", "fp8"), *((name, "bf16") for name in SHAPES
                                                               if not name.endswith("-70b"))
    return [row for row in rows if EVERY or row["gpus"] == least[row["workload"], row["precision"]]
            and (FULL or (row["workload"], row["precision"]) in brief)]


def cases(text):
    return text.split("\ncase ")


def wrong_layout(text, row):
    """Returns what a case prints differently from the row."""
    wrong = [f"{name} is not {row[key]}" for name, key in LAYOUT if not re.search(rf"\b{name} +{row[key]}\b", text)]
    if not re.search(rf"microbatch(es)? of {row['microbatch']} on", text):
        wrong.append(f"micro batch is not {row['microbatch']}")
    return wrong + [f"no {words}" for words in ("the recipe's\n", ", exactly the model's;", "  schedule ")
                    if words not in text]


def parameters(workload, layers):
    """Counts matrices, norms, biases and router of the layers; tables, positions and the last norm; no padding."""
    widths, (matrices, mlps, vectors, biases), (tables, positions) = SHAPES[workload]
    hidden, ffn, dim, heads, kv_heads, vocabulary = widths
    queries, key_values = heads * dim, kv_heads * dim
    layer = 2 * hidden * (queries + key_values) + mlps * matrices * hidden * ffn + 2 * vectors * hidden
    layer += mlps * hidden if mlps > 1 else 0
    layer += queries + 2 * key_values + hidden + ffn + hidden if biases else 0
    return layers * layer + (tables * vocabulary + positions + vectors) * hidden


def check_row(row, text):
    """Checks the layout, parameters, sums, missing numbers and memory of one cell."""
    wrong = wrong_layout(text, row)
    counted = parameters(row["workload"], int(row["layers"]))
    if f"  parameters  {counted};" not in text:
        wrong.append(f"parameters are not {counted}")
    if "SKIPPED" in text or "hazards     none" not in text:
        wrong.append("SKIPPED, or hazards")
    if "  fits        yes, " not in text:
        wrong.append("does not fit its GPU")
    return wrong


def memory_line(row, text):
    """Returns a line: GB on a rank of the largest stage, GB sent in a step, free SMs and why."""
    told = [list(map(int, line.split())) for line in re.findall(r"^(?: +\d+){12}$", text, re.M)]
    stage = max(told, key=lambda figures: figures[-1])
    sent = sum(float(b) for b in re.findall(r"^  [a-z]+ +\d+ +\d+ +(\d+) +\d+ +[0-9.e+]+$", text, re.M))
    figures = " ".join(f"{figure / 1e9:11.3f}" for figure in (*stage[5:], sent))
    left = ", ".join(re.findall(r"^  transfers   (.*)$", text, re.M))
    return f"{row['workload']:15} {row['precision']} {row['gpu']} {row['gpus']:>5} {stage[0]:5d} {figures}  | {left}"


def row_lines(rows, told):
    """Returns the lines of the file."""
    return [memory_line(row, told[row["workload"], row["precision"], int(row["gpus"])]) for row in rows]


def compared(line):
    """Removes the numbers that depend on whether CUDA's libraries are present to report their scratch."""
    figures, left = line.split(" | ")
    words = figures.split()
    return words[:-3] + words[-1:], left


def check_rows(tap, rows, told):
    with open(ROWS, encoding="utf-8") as f:
        kept = [line.rstrip("\n") for line in f if not line.startswith("#")]
    lines = row_lines(rows, told)
    kept = [line for line in kept if LONG or line.split()[:4] in [own.split()[:4] for own in lines]]
    tap.ok([compared(line) for line in kept] == [compared(line) for line in lines],
           f"bytes of {len(lines)} cells are those of {ROWS}", "\n".join(lines))


def dry_runs(rows):
    """Returns for each deck its rows, the numbers of ranks, the run, and the output for each number."""
    decks = {}
    for row in rows:
        decks.setdefault(f"{row['workload']}-{row['precision']}", []).append(row)
    ranks_of = {deck: sorted({int(row["gpus"]) for row in mine}) for deck, mine in decks.items()}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = dict(zip(decks, pool.map(lambda deck: alone("--dry-run", f"reference/{deck}.dat", "--ranks",
                                                           ",".join(map(str, ranks_of[deck]))), decks)))
    return {deck: (mine, ranks_of[deck], runs[deck], dict(zip(ranks_of[deck], cases(runs[deck].stdout))))
            for deck, mine in decks.items()}


def texts(runs):
    return {(mine[0]["workload"], mine[0]["precision"], count): text
            for mine, _, _, told in runs.values() for count, text in told.items()}


def check_cells(tap):
    """Compares all rows of the reference, family by family."""
    rows, count = cells(), 0
    runs = dry_runs(rows)
    for deck, (mine, counts, run, told) in sorted(runs.items()):
        wrong = [f"{row['gpus']} GPUs: {w}" for row in mine for w in check_row(row, told.get(int(row["gpus"]), ""))]
        tap.ok(run.returncode == 0 and len(told) == len(counts) and not wrong,
               f"{deck}: the cells of {', '.join(map(str, counts))} GPUs", "\n".join(wrong) + run.stderr)
        count += len(mine)
    check_rows(tap, rows, texts(runs))
    tap.ok(count == len(rows) >= (77 if LONG else 13 if FULL else 7), f"{count} cells", count)


def check_published(tap):
    rounded = {key: f"{parameters(*key) / 1e9:.{len(text.split('.')[1])}f}" for key, text in PUBLISHED.items()}
    tap.ok(rounded == PUBLISHED, "parameters round to what is published", rounded)


if "rows" in sys.argv:
    print("\n".join(row_lines(cells(), texts(dry_runs(cells())))))
    sys.exit()
tap = Tap()
check_published(tap)
check_cells(tap)
if FULL:
    run = alone("--dry-run", deck_file("[llama3.1-405b]\nsize = full\nprecision = bf16\n"), "--ranks", "16384")
    tap.ok(run.returncode == 0 and "data 128 " in run.stdout and "16384 of 16384 ranks" in run.stdout
           and ", exactly the model's;" in run.stdout
           and "hazards     none" in run.stdout, "llama3.1-405b on 16384 ranks: data is the rest", run.stdout)

run = alone("--dry-run", deck_file("[llama3.1-8b]\nsize = full\nprecision = bf16\ndata = 8\n"), "--ranks", "8")
per_parameter = figure("optimizer", run.stdout)
total = per_parameter * figure("parameters", run.stdout)
tap.say(f"8b on 8 data ranks: {per_parameter} bytes a parameter, {total / 1e9:.3f} GB; the recipe's 44.272 GB is "
        f"{44.271689728e9 / total - 1:.2%} above")
tap.ok(abs(per_parameter - 5.5) < 1e-3 and "global 128" in run.stdout,
       "llama3.1-8b, 8 data ranks, BF16: 5.5 bytes a parameter", run.stdout)
run = alone("--dry-run", "reference/llama3.1-8b-bf16.dat", "--ranks", "8", "--step-seconds", "20")
tap.ok(abs(figure("optimizer", run.stdout) - 5.5) < 1e-3, "so does the recipe's own layout", run.stdout)
told = re.findall(r"^  (fits        yes, a device of 84.9 GB: .* libraries and communicators"
                  r"|published   12.270 s a step on 8 H100: \d+ tokens/s, recipe MFU 62.6 %; 50 steps take .*)$",
                  run.stdout, re.M)
tap.ok(run.returncode == 0 and len(told) == 2, "whether a case fits a device, and what the recipe's cell took", told)
tap.ok(re.search(r"^time +about [0-9.]+ min for the 50 steps .*:\n +at 20 s a step of case 1$", run.stdout, re.M),
       "the time of the deck, from a measured step", run.stdout[-400:])
run = alone("--dry-run", deck_file("[llama3.1-8b]\nprecision = fp8\nfp8_scaling = current\nsize = small\n"), "--ranks",
            "8")
tap.ok(run.returncode == 0 and "hazards     none" in run.stdout,
       "current scaling is measured", run.stdout)

two = "size = small\n[llama3.1-8b]\n[llama2-70b]\nglobal_batch = 128\n"
run = alone("--dry-run", deck_file(two), "--ranks", "96,128")
tap.ok(run.returncode == 0 and run.stdout.count("SKIPPED: line 6: global_batch 128 is not a multiple of data 48 ") == 1,
       "a given batch that a rank count does not divide skips its case alone", run.stdout + run.stderr)
run = alone("--dry-run", deck_file("[llama3.1-8b]\nsize = small\nglobal_batch = 128\n"), "--ranks", "96,128")
tap.ok(run.returncode == 2 and "128 of 128 ranks" in run.stdout
       and "; give data or another global_batch\n" in run.stderr,
       "a rank count that is refused does not hide the next one; the worst status is returned", run.stdout + run.stderr)
run = alone("--dry-run", "reference/llama3.1-70b-bf16.dat", "--ranks", "72")
tap.ok(": 64 of 72 ranks, the recipe's\n" in run.stdout and "NOT VALID" not in run.stdout,
       "ranks that no further data rank could use are told, and are no mistake", run.stdout)
with open("inputs/gsw.dat", encoding="utf-8") as f:
    minutes = re.findall(r"(\d+) on 8 H100", f.read())
run = alone("--dry-run", "--ranks", "8")
told = re.findall(r"^time +about ([0-9.]+) min for the 168 steps of 14 cases", run.stdout, re.M)
tap.ok(len(minutes) == len(told) == 1 and round(float(told[0])) == int(minutes[0]),
       "the default deck's title has the minutes of the dry run", [minutes, told])
run = alone("--dry-run", "none.dat")
tap.ok(run.returncode == 2 and f", nor inputs/none.dat, nor {os.getcwd()}/inputs/none.dat\n" in run.stderr,
       "a deck that is not there: where it was looked for", run.stderr)
run = alone("--dry-run", "reference/grok1-314b-bf16.dat", "--ranks", "128")
tap.ok("GEGLU, 8 experts, 2 active" in run.stdout and "overlap on" in run.stdout,
       "the model's kind is told, and the overlap", run.stdout)

twice = "repeats = 2\nwarmup = 2\n[llama3.1-8b]\n[llama3.1-8b]\nsize = check\nminutes = 30\n"
run = alone("--dry-run", deck_file(twice), "--ranks", "8")
tap.ok("\ntime        at least 81.3 min for the 208 steps or more of 4 cases, without start and checks:\n"
       "            2 at published step times, 2 unknown (only soaks count)\n" in run.stdout,
       "the time of the deck, from published steps, with repeats and soaks", run.stdout[-400:])
run = alone("--dry-run", deck_file("steps = 20\n[llama3.1-8b]\nsize = full\nlayers = 4\n"), "--ranks", "8")
flops = float(re.search(r"per sequence; (\S+) recipe", run.stdout)[1])
tap.ok(re.search(rf"^time        about {20 * flops / 8 / 989e12 / 0.4:.0f} s for .*\n +1 at an assumed MFU of 40 %$",
                 run.stdout, re.M), "where nothing is published, an assumed MFU gives the time", run.stdout[-400:])
if FULL:
    wanted = "size = full\nexpect = reference\nsteps = 9\ncheck = off\n[llama3.1-70b]\n[gpt3-175b]\n"
    run = alone("--dry-run", deck_file(wanted), "--ranks", "192")
    told = re.findall("^  (?:NOT VALID|scaled|expected) .*", run.stdout, re.M)
    of_cells = [f"  scaled      {seconds} s a step on 192 {gpu}, as published for {gpus}: "
                f"{tokens / float(seconds):.0f} tokens/s" for seconds, gpu, gpus, tokens in (
                    ("14.670", "H100", 128, 256 * 8192 * 192 / 128), ("26.140", "A100", 64, 128 * 2048 * 192 / 64),
                    ("10.980", "H100", 64, 128 * 2048 * 192 / 64))]
    known = ["  NOT VALID   check off", "  NOT VALID   too few steps: 9 timed, 10 are needed",
             "  expected    a published cell, but none is of this case on this device: NOT ACCEPTED (NOT VALID)"]
    tap.ok([line.split(", recipe MFU")[0] for line in told] == of_cells[:1] + known + of_cells[1:] + known,
           "cases scaled from a cell, and what is known of verdicts before they run", "\n".join(told))
run = alone("--dry-run", deck_file("expect = 1\n[llama3.1-70b]\nsize = full\n"), "--ranks", "8")
tap.ok("  expected    1.0 tokens/s less 5 %: NOT ACCEPTED (SKIPPED)\n" in run.stdout, "a case that is skipped",
       run.stdout)
run = alone("--dry-run", deck_file("[llama3.1-405b]\nsize = full\ntensor = 8\n"), "--ranks", "8")
tap.ok(run.returncode == 0 and "  fits        NO, a device of 84.9 GB: " in run.stdout
       and "published" not in run.stdout,
       "a case that does not fit, and is no cell", run.stdout)
run = alone("--dry-run", deck_file("[llama3.1-8b]\nsize = full\ntensor = 8\nprecision = fp8\n"), "--ranks", "8",
            "--device-memory", "1")
tap.ok(run.returncode == 0 and "  fits        NO, a device of 1.0 GB: " in run.stdout
       and "  scales      power_of_two, delayed\n" in run.stdout, "another device, and how FP8 is scaled", run.stdout)
run = alone("--dry-run", deck_file("expect = reference\nprecision = fp8\n[llama3.1-70b]\nsize = full\n"), "--ranks",
            "128", "--device", "B200")
tap.ok("pipeline 4  context 1" in run.stdout and "  published   in MXFP8 on B200: not the same work\n" in run.stdout
       and "published in MXFP8: not the same work: NOT ACCEPTED (no published cell)\n" in run.stdout,
       "a GPU's own layout, published in a format that xgsw lacks: no reference", run.stdout)
swept = "[llama3.1-8b]\nsize = check\nprecision = fp32 fp32 bf16 fp8\nfp8_scale = power_of_two exact\n"
run = alone("--dry-run", deck_file(swept), "--ranks", "1")
tap.ok(run.stdout.count("\ncase ") + 1 == 4 and "(stands for 4 " in run.stdout and "(stands for 2 " in run.stdout,
       "combinations of a sweep that do the same run are one case", run.stdout)
absurd = "[llama3.1-8b]\nsize = check\nlayers = 4\nglobal_batch = 65536\nprecision = fp32 bf16 fp8\nseed = 1 2\n"
run = alone("--dry-run", deck_file(absurd), "--ranks", "1")
tap.ok(run.returncode == 2 and run.stdout == "" and "submit 1572864 passes" in run.stderr
       and "at most 1048576" in run.stderr, "a deck that takes minutes on paper is refused with the figure", run.stderr)

for name, count in DECKS if FULL else DECKS[:3]:
    with open(f"inputs/{name}.dat", encoding="utf-8") as f:
        body = "".join(line for line in f.readlines()[2:] if not line.startswith("backend"))
    run = alone("--dry-run", deck_file("backend = cuda\n" + body), "--ranks", str(count))
    told = run.stdout.count(", backend cuda, ")
    scratch = re.findall(r"scratch of the CUDA libraries (?:included|n/a)\n", run.stdout)
    tap.ok(run.returncode == 0 and told == len(scratch) == run.stdout.count("\n  layout ") > 0
           and run.stdout.count("case ") == told,
           f"{name}.dat dry-runs for GPUs, with or without one", run.stdout[-2000:] + run.stderr)

written = deck_file("")
some = deck_file("size = small\n[llama2-70b]\n[llama3.1-8b]\ntensor = 4\n")
run = alone("--dry-run", some, "--ranks", "1,4", "--json", written)
with open(written, encoding="utf-8") as f:
    lines = f.read()
only = alone("--dry-run", some, "--ranks", "1,4", "--json", "-")
told, bytes_of = results(only), re.findall(r"^  most .*, (\d+) bytes", run.stdout, re.M)
described = re.findall("^case ", run.stdout, re.M)
tap.ok(run.returncode == only.returncode == 0 and only.stdout == lines and len(told) == len(described),
       "--json FILE writes what --json - prints alone, an object a case", only.stdout[-500:])
laid_out = [case for case in told if not case["skipped"]]
tap.ok(len(laid_out) < len(told) and len(bytes_of) == len(laid_out)
       and all(case["memory_bytes"] > int(most) for case, most in zip(laid_out, bytes_of)),
       "with the memory of the report, and of what libraries take", bytes_of)
run = alone("--dry-run", deck_file(absurd), "--ranks", "1", "--json", "-")
tap.ok(run.returncode == 0 and [case["memory_bytes"] for case in results(run)] == 6 * [None],
       "a deck that is too long to be measured is resolved", run.stdout + run.stderr)
tap.done()
