"""Finds slow ranks from the recorded seconds of each rank and step, as src/bench/health/outliers.h defines them."""

import re

import numpy as np

from validate import copies
from validate.schema import FIELDS

# Rounding of sums of at most 10^6 doubles in another order: 1e6 x 2^-53.
ROUNDING = 1e-9
BLOCKS, LIMIT, ERRORS, ALIKE, NAMED = 10, 0.1, 3.0, 0.01, 3
# A step is slow above this multiple of the median (src/bench/health/slow_steps.h). The second is how many are named.
SLOW, SLOW_NAMED = 1.5, 8
EXPOSED = tuple(path.removeprefix("ranks/exposed_") for path in FIELDS if path.startswith("ranks/exposed_"))
TABLES = ("computing_seconds", "run_delay_seconds", "late_seconds", *("exposed_" + axis for axis in EXPOSED))


def own_computing(case):
    """Returns seconds [steps, ranks] of each rank's own computing, without the time of other programs on its core."""
    return np.maximum(case["ranks/computing_seconds"] - case["ranks/run_delay_seconds"], 0)


def waits(case):
    """Returns by axis the seconds [steps, ranks] in which only transfers ran."""
    return {axis: case["ranks/exposed_" + axis] for axis in EXPOSED}


def kinds_of_work(flops, bytes_of):
    """Returns lists of ranks with the same work as their first rank. The first is in its list even if NaN."""
    work, left, kinds = np.array([flops, bytes_of], dtype=float), np.arange(len(flops)), []
    while len(left):
        first, others = work[:, left[:1]], work[:, left]
        alike = (abs(first - others) <= ALIKE * np.maximum(first, others)).all(axis=0)
        alike[0] = True
        kinds.append(left[alike].tolist())
        left = left[~alike]
    return kinds


def medians_of_others(table):
    """Returns for each number of a row the median of the other numbers. Sorts each row once."""
    order, last = np.argsort(table, axis=1, kind="stable"), table.shape[1] - 1
    place = np.argsort(order, axis=1)
    ranked = np.take_along_axis(table, order, axis=1)
    low, high = (np.where(place <= i, ranked[:, i + 1, None], ranked[:, i, None]) for i in ((last - 1) // 2, last // 2))
    return (low + high) / 2


def paces(own, kinds):
    """Returns for each rank its number of peers, excess over their median, and standard error by batch means."""
    steps, ranks = own.shape
    peers, excess, error = np.zeros(ranks, int), np.full(ranks, np.nan), np.full(ranks, np.nan)
    block = np.arange(steps) * BLOCKS // max(steps, 1)
    for kind in kinds:
        peers[kind] = len(kind) - 1
        if len(kind) < 2 or steps < BLOCKS:
            continue
        others, apart = medians_of_others(own[:, kind]), np.zeros((BLOCKS, len(kind)))
        np.add.at(apart, block, own[:, kind] - others)
        with np.errstate(all="ignore"):
            excess[kind] = own[:, kind].sum(axis=0) / others.sum(axis=0) - 1
            error[kind] = np.sqrt(BLOCKS) * apart.std(axis=0, ddof=1) / others.sum(axis=0)
    return peers, excess, error


def demand_of(case):
    """Returns the number of threads on a node, of its cores, and of the processors in its quota."""
    ranks, threads, cores, quota = (case["results/" + name]
                                    for name in ("node_ranks", "rank_threads", "node_cores", "quota"))
    return ranks * threads, cores, quota


def is_known(case):
    """Returns whether ranks can be judged: not if their threads share cores, as one run delay a rank is known."""
    wanted, cores, quota = demand_of(case)
    return case.settings["backend"] == "cuda" or case["results/rank_threads"] == 1 or not wanted > min(cores, quota)


def check_ranks(case, f):
    """Requires complete tables, the paces that follow from them, and the names of exactly the slow ranks."""
    s, done = case.settings, slice(0, case["results/completed"])
    for name in TABLES:
        found = case["ranks/" + name]
        if found.shape != (case.total, s["ranks"]):
            f.add(f"{name} is not {case.total} steps x {s['ranks']} ranks")
            return
        f.demand((found[done] >= 0).all(), f"{name} is below 0, or no number")
    own = own_computing(case)[s["warmup"] : done.stop]
    work = case["ranks/computing_flops"], case["ranks/computing_bytes"]
    kinds = kinds_of_work(*work) if done.stop else [[rank] for rank in range(s["ranks"])]  # no work is known: no peers
    peers, excess, error = paces(own if is_known(case) else own[:0], kinds)
    f.same("peers", case["ranks/peers"], peers)
    f.same("excess", 1 + case["ranks/excess"], 1 + excess, ROUNDING)
    f.demand(np.allclose(case["ranks/excess_error"], error, rtol=ROUNDING, atol=ROUNDING, equal_nan=True),
             "excess_error is not what the tables give")
    slow = [r for r in np.argsort(-excess, kind="stable") if excess[r] - ERRORS * error[r] > LIMIT][:NAMED]
    reasons = zip(case["results/invalid_rules"], case["results/invalid_ranks"])
    named = [rank for rule, rank in reasons if rule == "outlier"]
    f.demand(named == slow, f"ranks {slow} are outliers, named are {named}")


def beyond_mean(case):
    """Returns seconds [steps, ranks of the slowest copy + 1] beyond the mean of timed steps: of busy ranks, and last of
    the whole step."""
    first, last, of_copy = case.settings["warmup"], case["results/completed"], copies.ranks_of(case)
    from_rank = copies.slowest_of(case)[0] * of_copy
    busy = (case["ranks/rank_seconds"] - sum(waits(case).values()))[:, from_rank : from_rank + of_copy]
    seconds = np.column_stack((busy, case["steps/step_seconds"]))[:last]
    return seconds - seconds[first:].mean(axis=0)


def slow_rank(longer, step):
    """Returns the rank that was slow in this step or the previous one, or -1."""
    *excess, whole = longer[step] + (np.maximum(longer[step - 1], 0) if step else 0)
    return int(np.argmax(excess)) if max(excess) >= 0.5 * whole else -1


def slow_steps(case):
    """Yields what the record says of each slow step, without hosts."""
    first, seconds, median = case.settings["warmup"], case["steps/step_seconds"], np.median(case.measured)
    longer = beyond_mean(case)
    for step in first + np.flatnonzero(seconds[first : len(longer)] > SLOW * median):
        rank = slow_rank(longer, step)
        rank += copies.slowest_of(case)[0] * copies.ranks_of(case) if rank >= 0 else 0
        yield f"{step} ({seconds[step] / median:.3g} times, {'all ranks waited' if rank < 0 else f'rank {rank}'})"


def check_slow_steps(case, f):
    """Requires the number of slow steps, and the names of the first ones with their ranks."""
    slow, names = list(slow_steps(case)), case["results/slow_step_names"]
    f.same("slow_steps", case["results/slow_steps"], len(slow))
    named = re.sub(r"( times, rank \d+) on .*?\)(?=, \d+ \(|$)", r"\1)", names)
    first = slow[:SLOW_NAMED]
    f.demand(named == ", ".join(first), f"the first slow steps are {first}, named are {names!r}")
