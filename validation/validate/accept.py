"""Recomputes the expected speed, the acceptance, the repeats and the minutes of a case."""

import math

import numpy as np

from validate import reference
from validate.findings import ROUNDING

# Allowed spread: the largest mean of a case's repeats over the smallest, less 1.
REPEATS_LIMIT = 0.05


def expected(case, rows):
    """Returns the tokens/s that the deck expects. Returns NaN if it expects nothing, or a published speed that does not
    exist for this layout and device."""
    s = case.settings
    if s["expect"] not in ("none", "reference"):
        return float(s["expect"])
    device = case.values.get("results/device", "")
    cells = [row for row in rows if not reference.differences(case, row) and reference.is_named(device, row["gpu"])]
    if s["expect"] == "none" or not s["recipe_layout"] or not cells:
        return math.nan
    cell = cells[0]
    return s["copies"] * cell["sequence"] * cell["global_batch"] / cell["step_seconds"]


def check_acceptance(case, rows, f):
    """rows: the program's own table of published cells."""
    s, speed = case.settings, case.values.get("results/tokens_per_second", math.nan)
    want = expected(case, rows)
    f.same("expected_tokens_per_second", s["expected_tokens_per_second"], want, ROUNDING)
    enough = s["expect"] == "none" or speed >= (1 - s["tolerance"]) * want
    watts = case.values.get("results/mean_power", math.nan)
    enough = enough and (s["power_limit"] == "none" or watts <= float(s["power_limit"]))
    accepted = s["verdict"] == "PASSED" and s["validity"] == "VALID" and enough
    yes = "ACCEPTED" if s["repeat"] == s["repeats"] else "judged with the last repeat"
    word = "" if s["expect"] == s["power_limit"] == "none" else yes if accepted else "NOT ACCEPTED"
    f.demand(s["acceptance"] == word, f"acceptance is {s['acceptance']!r}, recomputed {word!r}")
    f.demand(bool(s["not_accepted"]) == (word == "NOT ACCEPTED"), f"{word} with the reason {s['not_accepted']!r}")


def repeats_before(case, record):
    """Returns the finite means of the case's repeats, up to and including this one."""
    s = case.settings
    first = s["case"] - s["repeat"] + 1
    means = [other["results/mean_seconds"] for other in record.cases
             if first <= other.settings["case"] <= s["case"] and "results/mean_seconds" in other.values]
    return np.array([seconds for seconds in means if np.isfinite(seconds)])


def check_repeats(case, record, f):
    """Recomputes the spread of repeats. Only the last repeat records it."""
    last = 1 < case.settings["repeats"] == case.settings["repeat"] and np.isfinite(case["results/mean_seconds"])
    means = repeats_before(case, record) if last else np.array([])
    found = [case["results/repeated" + end] for end in ("", "_median_seconds", "_minimum_seconds", "_maximum_seconds")]
    least, most = (means.min(), means.max()) if means.size else (math.nan, math.nan)
    want = [means.size, np.median(means) if means.size else math.nan, least, most]
    f.same("repeated", found, want, ROUNDING)
    spread = most / least - 1
    f.demand(np.array_equal([case["results/repeated_spread"]], [spread], equal_nan=True)
             or abs(case["results/repeated_spread"] - spread) <= ROUNDING, "repeated_spread is not that of the repeats")


def against_soak(case):
    """Returns a reason if a soak was too short to be VALID."""
    if case.settings["minutes"] == "none":
        return None
    minutes = float(sum(np.sum(case["steps/" + name][case.window]) for name in ("step_seconds", "pause_seconds"))) / 60
    short = minutes < float(case.settings["minutes"]) * (1 - ROUNDING)
    return f"its soak took {minutes:.4g} minutes, not {case.settings['minutes']}" if short else None
