"""Recomputes which copy of a case is the slowest, and whether all copies agree (src/bench/facts/judge.c)."""

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


def slowest_of(case):
    """Returns the copy with the largest mean of the steps that count, and the means of all copies."""
    counted = seconds_of(case)[case.window][~(case["steps/pause_seconds"][case.window] > 0)]
    means = counted.mean(axis=0) if len(counted) else np.full(case.settings["copies"], np.nan)
    return int(np.argmax(np.nan_to_num(means))), means


def equal_to_first(table):
    return (table == table[:, :1]) | np.isnan(table) & np.isnan(table[:, :1])


def differing(case):
    """Returns the copies that differ from copy 0."""
    s, done = case.settings, slice(0, case["results/completed"])
    losses, weights = case["copies/losses"][done], np.array(case["copies/weights_digest"])
    if s["backend"] == "host" or s["deterministic"] == "yes":
        same = (equal_to_first(losses) & equal_to_first(case["copies/gradient_norms"][done])).all(axis=0)
        return np.flatnonzero(~same | (weights != weights[0]) & (not case.interrupted)).tolist()
    first, later = np.array(LOSSES[s["precision"]]) * (s["precision"] == "fp32" or max(1, s["layers"] / 7) ** 0.5)
    limits = np.where(np.arange(len(losses)) > 0, later, first)
    return np.flatnonzero(~(abs(losses / losses[:, :1] - 1) <= limits[:, None]).all(axis=0)).tolist()


def check(case, f):
    """Requires that the step times are the slowest copy's, and that the case FAILED if copies differ."""
    done, (slowest, means), several = slice(0, case["results/completed"]), slowest_of(case), case.settings["copies"] > 1
    f.same("slowest_copy", case["results/slowest_copy"], slowest)
    f.same("step_seconds", case["steps/step_seconds"][done], seconds_of(case)[done, slowest])
    f.same("mean_seconds of copies", case["copies/mean_seconds"], means if several else [], ROUNDING)
    for name in ("losses", "gradient_norms"):
        table = case["copies/" + name]
        f.demand(table.shape == (case.total, several * case.settings["copies"]), f"copies/{name} has another shape")
        f.same(f"{name} of copy 0", table[done, :1], case["steps/" + name][done, None] if several else table[done, :0])
    found, told = differing(case) if several else [], "copies" in case["results/fail_rules"]
    f.demand(told == bool(found), f"copies {found} differ from copy 0; FAILED says so: {told}")
