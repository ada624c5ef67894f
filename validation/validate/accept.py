"""What the deck expects of a case, its repeats and its minutes, recomputed."""

import math

import numpy as np

from validate import reference

# Largest over smallest median of a case's repeats, less 1.
REPEATS_LIMIT = 0.05
ROUNDING = 1e-12


def expected(case, rows):
    """Tokens/s that the deck expects; not a number: none, or those of a cell that nobody has published."""
    s = case.settings
    if s["expect"] not in ("none", "reference"):
        return float(s["expect"])
    cells = [row for row in rows if not reference.differences(case, row)] if s["recipe_layout"] else []
    if s["expect"] == "none" or not cells:
        return math.nan
    device = case.values.get("results/device", "")
    cell = next((row for row in cells if reference.is_named(device, row["gpu"])), None)
    cell = cell or next(row for row in cells if row["gpu"] == "H100")
    return cell["sequence"] * cell["global_batch"] / cell["step_seconds"]


def check_acceptance(case, rows, f):
    """rows: the program's own table of published cells."""
    s, speed = case.settings, case.values.get("results/tokens_per_second", math.nan)
    want = expected(case, rows)
    f.same("expected_tokens_per_second", s["expected_tokens_per_second"], want, ROUNDING)
    enough = speed >= (1 - s["tolerance"]) * want
    accepted = s["verdict"] == "PASSED" and s["validity"] == "VALID" and enough
    word = "" if s["expect"] == "none" else "ACCEPTED" if accepted else "NOT ACCEPTED"
    f.demand(s["acceptance"] == word, f"acceptance is {s['acceptance']!r}, recomputed {word!r}")
    f.demand(bool(s["not_accepted"]) == (word == "NOT ACCEPTED"), f"{word} with the reason {s['not_accepted']!r}")


def repeats_before(case, record):
    """Medians of the case's repeats up to it."""
    s = case.settings
    first = s["case"] - s["repeat"] + 1
    medians = [other["results/median_seconds"] for other in record.cases
               if first <= other.settings["case"] <= s["case"] and "results/median_seconds" in other.values]
    return np.array([seconds for seconds in medians if np.isfinite(seconds)])


def check_repeats(case, record, f):
    medians = repeats_before(case, record) if case.settings["repeats"] > 1 else np.array([])
    if medians.size and not np.isfinite(case["results/median_seconds"]):
        medians = np.array([])
    found = [case["results/repeated"]]
    found += [case[f"results/repeated_{name}"] for name in ("median_seconds", "minimum_seconds", "maximum_seconds")]
    least, most = (medians.min(), medians.max()) if medians.size else (math.nan, math.nan)
    want = [medians.size, np.median(medians) if medians.size else math.nan, least, most]
    f.same("repeated", found, want, ROUNDING)
    spread = most / least - 1
    f.demand(np.array_equal([case["results/repeated_spread"]], [spread], equal_nan=True)
             or abs(case["results/repeated_spread"] - spread) <= ROUNDING, "repeated_spread is not that of the repeats")


def against_soak(case):
    """What a VALID soak cannot have."""
    if case.settings["minutes"] == "none":
        return
    minutes = float(np.sum(case.measured)) / 60
    if minutes < float(case.settings["minutes"]) * (1 - ROUNDING):
        yield f"its soak took {minutes:.4g} minutes, not {case.settings['minutes']}"
