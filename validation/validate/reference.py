"""The published cells, and whether a case can be held against one."""

import csv

KEYS = (
    "workload",
    "precision",
    "ranks",
    "sequence",
    "layers",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "data",
    "shard",
    "chunks_per_stage",
    "micro_batch",
    "global_batch",
)
COLUMN = {"ranks": "gpus"}
TEXTS = ("workload", "precision")


def read_cells(path):
    """Rows of the table, with numbers where a case has numbers."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        for key in KEYS:
            column = COLUMN.get(key, key)
            row[key] = row[column] if key in TEXTS else int(row[column])
        row["step_seconds"] = float(row["step_seconds"])
    return rows


def differences(case, row):
    return [key for key in KEYS if case.settings[key] != row[key]]


def why_not(case):
    """Why a case is not comparable, or nothing."""
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


def find_rows(case, rows):
    """The rows that match, those of the case's device if there are such, and why there are none."""
    s = case.settings
    alike = [row for row in rows if all(row[key] == s[key] for key in ("workload", "precision", "ranks"))]
    if not alike:
        return [], f"no row for {s['workload']} {s['precision']} on {s['ranks']} GPUs"
    nearest = min(alike, key=lambda row: len(differences(case, row)))
    apart = differences(case, nearest)
    matching = [row for row in alike if not differences(case, row)]
    matching = [row for row in matching if row["gpu"] in case["results/device"].split()] or matching
    return matching, "no row matches: " + ", ".join(f"{key} {s[key]} (reference {nearest[key]})" for key in apart)


def row_of(case, rows):
    """The row that a case is held against, or nothing."""
    matching = [] if why_not(case) else find_rows(case, rows)[0]
    return matching[0] if len(matching) == 1 else None


def compare(case, rows, tolerance, f):
    """One phrase for the case's line; a finding if it is slower than its row by more than the tolerance."""
    obstacle = why_not(case)
    if obstacle:
        return f"not comparable: {obstacle}"
    matching, missing = find_rows(case, rows)
    if not matching:
        return missing
    if len(matching) > 1:
        return "not comparable: rows for " + " and ".join(row["gpu"] for row in matching) + " match"
    expected = matching[0]["step_seconds"]
    change = case["results/median_seconds"] / expected - 1
    word = "slower" if change > 0 else "faster"
    phrase = f"{abs(change):.1%} {word} than the reference's {expected:g} s on {matching[0]['gpu']}"
    f.demand(change <= tolerance, f"{phrase}, {tolerance:.1%} allowed")
    return phrase
