#!/usr/bin/env python3
"""What the check of products (src/machine/prove/shadow.h) costs at the recipes' shapes, and what it finds, on paper.

    validation/budget/replay.py          # from the repository's root; needs numpy; a minute

A row for each workload and format, of its published cell with the largest share. share: the replayed steps and the
checks of products, by 8 threads a rank, of the case's time. Then the probability that a wrong product is found, for the
longest sum: one element doubled; a tile of 16 x 16, or of 128 x 256, zeroed; 32 terms left out of all sums. Elements of
C are taken as normal."""
import csv
import math

import numpy as np

CELLS = "validation/reference/cells.csv"
# hidden, ffn, factors of the first matrix of the MLP, heads, KV heads, head dim, vocabulary (workloads.md, part 1)
SHAPES = {"llama2-70b": (8192, 28672, 2, 64, 8, 128, 32000), "llama3.1-8b": (4096, 14336, 2, 32, 8, 128, 128256),
          "llama3.1-70b": (8192, 28672, 2, 64, 8, 128, 128256), "llama3.1-405b": (16384, 53248, 2, 128, 8, 128, 128256),
          "nemotron4-340b": (18432, 73728, 1, 96, 8, 192, 256000), "grok1-314b": (6144, 32768, 2, 48, 8, 128, 128256),
          "gpt3-175b": (12288, 49152, 1, 96, 96, 128, 50304)}
# Measured with one thread of an EPYC (AVX2), 4096 x 16384 x 4096 and others in BF16: 2.5 ns an element read and turned
# into doubles, 4.3e9 multiplications and additions a second. Copies from a GPU are assumed at 8 GB/s.
THREADS, ELEMENT, RATE, COPY, BLOCK = 8, 2.5e-9, 4e9, 8e9, 256
EXPERTS, CAPACITY = 8, 256  # rows of a rank's tokens for an expert


def products(cell):
    """(groups, m, n, k) of every form in a step of the rank that has the most: a layer's and the head's."""
    h, f, gates, heads, kv, d, v = SHAPES[cell["workload"]]
    t, c, e = (int(cell[axis]) for axis in ("tensor", "context", "expert"))
    rows = int(cell["sequence"]) // c * int(cell["microbatch"])
    strips = max(k for k in (1, 2, 4) if k == 1 or t > 1 and rows // k >= 1024)
    mixed = cell["workload"].startswith("grok")
    mlp = (EXPERTS // e, CAPACITY * e * t, 1) if mixed else (1, rows, strips)
    for (groups, m, pieces), outputs, inputs in (((1, rows, strips), (heads + 2 * kv) * d // t, h),
                                                 ((1, rows, strips), h, heads * d // t),
                                                 (mlp, gates * f // t, h), (mlp, h, f // t),
                                                 ((1, rows, strips), v // t, h)):
        yield groups, m // pieces, outputs, inputs
        yield groups, m // pieces, inputs, outputs
        yield from [(groups, outputs, inputs, m)] * 2      # written first, then added to, with C from before


def cost(cell):
    """Comparisons of all ranks, and seconds of the checks."""
    comparisons = seconds = 0.0
    for groups, m, n, k in products(cell):
        blocks = -(-n // BLOCK)
        elements = groups * (m * k + k * n + 2 * m * n)
        comparisons += groups * m * blocks
        seconds += elements * (ELEMENT / THREADS + 2 / COPY) + groups * m * k * blocks / RATE / THREADS
    return comparisons * int(cell["gpus"]), seconds


def longest(cell):
    """Sums of all products; of those that are FP8 where the case is, all but the head's; of these in forward, which
    alone are fast."""
    k = [p[3] for p in products(cell)]
    return max(k), max(k[:-4]), max(k[:-4:4])


def absolute(k, form):
    """limit_of_product's, of C's largest value (limits.c): BF16; FP8 with sums of 128 promoted; FP8 fast."""
    share = (2 * math.sqrt(k) + 16) * 2**-24
    kept = k if form == "fast" else min(k, 128)
    return share + (k / 16 * 2**-24 if form == "bf16" else (kept / 32 + 2 * math.sqrt(kept)) * 2**-14)


def power(k, form, comparisons, rng):
    """Of an element, both tiles, and 32 terms; the last in 4,096 rows, though a matrix has more. C has deviation 1."""
    rows = 4096
    c = rng.normal(size=(rows, BLOCK))
    half = 2.0**(np.floor(np.log2(np.abs(c))) - 8)
    largest = math.sqrt(2 * math.log(2 * rows * 4096))
    root = np.sqrt(((half + absolute(k, form) * largest)**2).sum(axis=1))
    limit = math.sqrt(2 * math.log(2e6 * comparisons)) * root
    noise = (half * rng.uniform(-1, 1, c.shape)).sum(axis=1)
    chance = [(np.abs(noise + wrong) > limit).mean()
              for wrong in (c[:, 0], c[:, :16].sum(axis=1), c.sum(axis=1),
                            rng.normal(size=(rows, BLOCK)).sum(axis=1) * (32 / k)**0.5)]
    return [1 - (1 - one)**many for one, many in zip(chance, (1, 16, 128, rows))]


def main():
    rng = np.random.default_rng(1)
    worst = {}
    with open(CELLS, encoding="utf-8") as rows:
        for cell in csv.DictReader(rows):
            steps = 20 if cell["workload"].startswith("gpt3") else 50
            if cell["workload"] not in SHAPES or not cell["step_seconds"]:
                continue
            again = 1 if steps < 40 else 2
            comparisons, seconds = cost(cell)
            case = steps * float(cell["step_seconds"])
            replay = again * float(cell["step_seconds"]) + seconds
            key = cell["workload"], cell["precision"]
            worst[key] = max(worst.get(key, ()), (replay / (case + replay), seconds, comparisons,
                                                  int(cell["gpus"]), case, *longest(cell)))
    print("workload        format gpus  case s checks s share % comparisons    longest sum, found: element tile large "
          "terms")
    for (workload, precision), (share, seconds, comparisons, gpus, case, *k) in sorted(worst.items()):
        line = f"{workload:15} {precision:5} {gpus:5} {case:7.0f} {seconds:8.1f} {100 * share:7.1f} {comparisons:11.1e}"
        forms = ("bf16", "promoted", "fast") if precision == "fp8" else ("bf16",)
        for form, terms in zip(forms, k):
            found = power(terms, form, comparisons, rng)
            line += f"  {form} {terms}: " + " ".join(f"{x:.3f}" for x in found)
        print(line)


main()
