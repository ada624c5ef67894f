"""Recomputes which copy of a case is the slowest, and whether the copies agree (src/bench/facts/copies.h)."""

import numpy as np

from validate.findings import ROUNDING

# Largest relative differences of losses if bits may differ: first step, later steps (src/bench/check/check_limits.c).
LOSSES = {"fp32": (1e-6, 2e-5), "bf16": (1e-3, 2e-3), "fp8": (4e-3, 1e-2)}


def ranks_of(case):
    """Returns the number of ranks of a copy."""
    return case.settings["ranks"] // case.settings["copies"]


def seconds_of(case):
    """Returns the step times [steps, copies] of the slowest rank of each copy."""
    table = case["ranks/rank_seconds"]
    return table.reshape(len(table), -1, ranks_of(case)).max(axis=2)


def means_of(case):
    """Returns the mean of the steps that count for each copy; NaN if no step counts."""
    counted = seconds_of(case)[case.window][~(case["steps/pause_seconds"][case.window] > 0)]
    return counted.mean(axis=0) if len(counted) else np.full(case.settings["copies"], np.nan)


def slowest_of(case):
    means = means_of(case)
    return int(np.argmax(means)) if np.isfinite(means).all() else 0


def differing(case):
    """Returns the copies that differ from copy 0."""
    s, done = case.settings, slice(0, case["results/completed"])
    losses, norms = case["copies/losses"][done], case["copies/gradient_norms"][done]
    if s["backend"] == "host" or s["deterministic"] == "yes":
        apart = ((losses != losses[:, :1]) & ~np.isnan(losses)) | ((norms != norms[:, :1]) & ~np.isnan(norms))
        weights = np.array(case["copies/weights_digest"])
        unequal = apart.any(axis=0) | (weights != weights[0]) & (not case.interrupted)
        return np.flatnonzero(unequal | (np.isnan(losses) != np.isnan(losses[:, :1])).any(axis=0))
    deep = np.sqrt(max(1, s["layers"] / 7)) if s["precision"] != "fp32" else 1
    limits = deep * np.where(np.arange(len(losses)) > 0, *reversed(LOSSES[s["precision"]]))
    return np.flatnonzero((~(abs(losses / losses[:, :1] - 1) <= limits[:, None])).any(axis=0))


def check(case, f):
    """Requires the slowest copy's step times as those of the case, and FAILED if copies differ."""
    copies, done, means = case.settings["copies"], slice(0, case["results/completed"]), means_of(case)
    f.same("slowest_copy", case["results/slowest_copy"], slowest_of(case))
    f.same("step_seconds", case["steps/step_seconds"][done], seconds_of(case)[done, slowest_of(case)], 0.0)
    rows = copies if copies > 1 else 0
    for name, shape in (("losses", (case.total, rows)), ("gradient_norms", (case.total, rows)),
                        ("mean_seconds", (rows,)), ("copy", (rows,))):
        f.demand(case["copies/" + name].shape == shape, f"copies/{name} is not a table of {shape}")
    if copies == 1:
        return
    f.same("mean_seconds of copies", case["copies/mean_seconds"], means, ROUNDING)
    for name in ("losses", "gradient_norms"):
        f.same(f"{name} of copy 0", case["copies/" + name][done, 0], case["steps/" + name][done], 0.0)
    f.demand(case["copies/weights_digest"][0] == case["results/weights_digest"], "copy 0 has two digests of weights")
    told, found = "copies" in case["results/fail_rules"], differing(case).tolist()
    f.demand(told == bool(found), f"copies {found} differ from copy 0; FAILED says so: {told}")
