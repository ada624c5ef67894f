"""The published cells, and the rules for comparing a case with one."""

import csv
import functools
import os
import re

from validate import copies

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference")
CELLS, NEWER = os.path.join(FOLDER, "cells.csv"), os.path.join(FOLDER, "cells-newer.csv")

KEYS = ("workload", "precision", "ranks", "sequence", "layers", "tensor", "pipeline", "context", "expert", "data",
        "shard", "chunks_per_stage", "microbatch", "global_batch")
COLUMN = {"ranks": "gpus"}
TEXTS = ("workload", "precision")


@functools.cache
def read_cells(path):
    """Returns the rows of the table. Converts columns that are numbers in a case."""
    rows = []
    for table in (path, NEWER) if path == CELLS else (path,):
        with open(table, newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    for row in rows:
        for key in KEYS:
            column = COLUMN.get(key, key)
            row[key] = row[column] if key in TEXTS else int(row[column])
        row["step_seconds"] = float(row["step_seconds"])
    return rows


def is_scaled(case):
    """Returns whether the case scales the layout of a cell to another number of GPUs by data parallelism."""
    return case.settings["recipe_gpus"] not in (0, copies.ranks_of(case))


def as_in_cell(case):
    """Returns the settings of a copy to look up. For a scaled case, reduces ranks, data, batch to those of the cell."""
    s = {**{key: case.settings[key] for key in KEYS}, "ranks": copies.ranks_of(case)}
    for key in ("ranks", "data", "global_batch") if is_scaled(case) else ():
        s[key] = s[key] * case.settings["recipe_gpus"] // copies.ranks_of(case)
    return s


def differences(case, row):
    settings = as_in_cell(case)
    return [key for key in KEYS if settings[key] != row[key]]


def obstacle(case):
    """Returns the fact that forbids a comparison, or an empty string."""
    s = case.settings
    if s["verdict"] != "PASSED":
        return s["verdict"]
    if s["validity"] != "VALID":
        return "NOT VALID: " + ("; ".join(case["results/invalid_reasons"]) or "no reason recorded")
    if s["backend"] != "cuda":
        return f"backend {s['backend']}: its ranks are processes, not GPUs"
    if s["size"] != "full":
        return f"size {s['size']}: a proxy of {s['workload']}"
    return ""


def why_not(case):
    """Returns why a case is not comparable, or an empty string. The record gives reasons of layout and computation."""
    return obstacle(case) or ("" if case.flag("results/comparable") else case["results/comparison"])


def check_comparable(case, f):
    if case.flag("results/comparable"):
        f.demand(not obstacle(case), f"recorded comparable, but {obstacle(case)}")
        f.demand(case.settings["recipe_gpus"], "recorded comparable, but its layout is not a cell's")


def is_named(device, gpu):
    """Returns whether the device is the GPU of a cell. Compares whole words: an "NVIDIA GH200 480GB" is no H200.
    Excludes cards with another connector and parts of a GPU, which are slower (src/plan/catalogue/recipes.c)."""
    words = re.findall("[A-Za-z0-9]+", device)
    return gpu in words and not {"PCIe", "PCIE", "NVL", "MIG"}.intersection(words)


def find_rows(case, rows):
    """Returns the rows that match the case and its device, and the reason to print if there are none."""
    s = as_in_cell(case)
    alike = [row for row in rows if all(row[key] == s[key] for key in ("workload", "precision", "ranks"))]
    if not alike:
        return [], f"no row for {s['workload']} {s['precision']} on {s['ranks']} GPUs"
    nearest = min(alike, key=lambda row: len(differences(case, row)))
    apart = differences(case, nearest)
    matching = [row for row in alike if not differences(case, row)]
    if matching:
        device = case["results/device"]
        return [row for row in matching if is_named(device, row["gpu"])], f"nothing is published for {device}"
    return [], "no row matches: " + ", ".join(f"{key} {s[key]} (reference {nearest[key]})" for key in apart)


def compare(case, rows, tolerance, f):
    """Returns the row that the case is compared with, or None, and a phrase for the line of the case. Adds a finding if
    the case is slower than the row by more than the tolerance, unless that is None."""
    if why_not(case):
        return None, f"not comparable: {why_not(case)}"
    matching, missing = find_rows(case, rows)
    if not matching:
        return None, missing
    if len(matching) > 1:
        return None, "not comparable: rows for " + " and ".join(row["gpu"] for row in matching) + " match"
    expected = matching[0]["step_seconds"]
    change = case["results/mean_seconds"] / expected - 1
    word = "slower" if change > 0 else "faster"
    scaled = f", scaled from {matching[0]['ranks']} GPUs" if is_scaled(case) else ""
    phrase = f"{abs(change):.1%} {word} than the reference's {expected:g} s on {matching[0]['gpu']}{scaled}"
    if tolerance is not None:
        f.demand(change <= tolerance, f"{phrase}, {tolerance:.1%} allowed")
    return matching[0], phrase
