"""Who is slow, from the recorded seconds of each rank and step: as src/bench/health/outliers.h defines it."""

import re

import numpy as np

# Sums of at most 10^6 doubles, in another order: 1e6 x 2^-53.
ROUNDING = 1e-9
BLOCKS, LIMIT, ERRORS, ALIKE, NAMED = 10, 0.1, 3.0, 0.01, 3
# A step so many times the median is slow (src/bench/health/slow_steps.h); so many are named.
SLOW, SLOW_NAMED = 1.5, 8
EXPOSED = ("tensor", "context", "expert", "shard", "pipeline", "gradient", "all")
TABLES = ("computing_seconds", "run_delay_seconds", "late_seconds", *("exposed_" + axis for axis in EXPOSED))


def kinds_of_work(flops, bytes_of):
    """Ranks of the same work: lists, each led by its first, be its numbers what they may."""
    work, left, kinds = np.array([flops, bytes_of], dtype=float), np.arange(len(flops)), []
    while len(left):
        first, others = work[:, left[:1]], work[:, left]
        alike = (abs(first - others) <= ALIKE * np.maximum(first, others)).all(axis=0)
        alike[0] = True
        kinds.append(left[alike].tolist())
        left = left[~alike]
    return kinds


def medians_of_others(table):
    """Of each number of a row the median of the row's others, from one sort of the row."""
    order, last = np.argsort(table, axis=1, kind="stable"), table.shape[1] - 1
    place = np.argsort(order, axis=1)
    ranked = np.take_along_axis(table, order, axis=1)
    low, high = (np.where(place <= i, ranked[:, i + 1, None], ranked[:, i, None]) for i in ((last - 1) // 2, last // 2))
    return (low + high) / 2


def paces(own, kinds):
    """Of each rank: number of peers, excess over their median, its standard error by batch means."""
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


def is_known(case):
    """Of a host's rank with several threads the run delay of one is known: where they share cores nobody is judged."""
    r = {name: case["results/" + name] for name in ("node_ranks", "rank_threads", "node_cores", "quota")}
    crowded = r["node_ranks"] * r["rank_threads"] > min(r["node_cores"], r["quota"])
    return case.settings["backend"] == "cuda" or r["rank_threads"] == 1 or not crowded


def check_ranks(case, f):
    """Tables are whole, paces follow from them, and those who are slow, no others, are named."""
    s, done = case.settings, slice(0, case["results/completed"])
    for name in TABLES:
        found = case["ranks/" + name]
        if found.shape != (case.total, s["ranks"]):
            f.add(f"{name} is not {case.total} steps x {s['ranks']} ranks")
            return
        f.demand((found[done] >= 0).all(), f"{name} is below 0, or no number")
    own = np.maximum(case["ranks/computing_seconds"] - case["ranks/run_delay_seconds"], 0)[s["warmup"] : done.stop]
    work = case["ranks/computing_flops"], case["ranks/computing_bytes"]
    kinds = kinds_of_work(*work) if done.stop else [[rank] for rank in range(s["ranks"])]  # given nothing: no peers
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
    """Seconds [steps, ranks + 1] beyond the mean of the timed steps: of each busy rank, and last of the whole step."""
    first, last = case.settings["warmup"], case["results/completed"]
    busy = case["ranks/rank_seconds"] - sum(case["ranks/exposed_" + axis] for axis in EXPOSED)
    seconds = np.column_stack((busy, case["steps/step_seconds"]))[:last]
    return seconds - seconds[first:].mean(axis=0)


def slow_rank(longer, step):
    """The rank that was slow in a step or the one before it; -1: none."""
    *excess, whole = longer[max(step - 1, 0) : step + 1].sum(axis=0)
    return int(np.argmax(excess)) if max(excess) >= 0.5 * whole else -1


def slow_steps(case):
    """What the record says of each slow step, but for the hosts."""
    first, seconds, median = case.settings["warmup"], case["steps/step_seconds"], np.median(case.measured)
    longer = beyond_mean(case)
    for step in first + np.flatnonzero(seconds[first : len(longer)] > SLOW * median):
        rank = slow_rank(longer, step)
        yield f"{step} ({seconds[step] / median:.3g} times, {'all ranks waited' if rank < 0 else f'rank {rank}'})"


def check_slow_steps(case, f):
    """They are counted, and the first are named with their ranks."""
    slow, names = list(slow_steps(case)), case["results/slow_step_names"]
    f.same("slow_steps", case["results/slow_steps"], len(slow))
    named = re.sub(r"( times, rank \d+) on .*?\)(?=, \d+ \(|$)", r"\1)", names)
    first = slow[:SLOW_NAMED]
    f.demand(named == ", ".join(first), f"the first slow steps are {first}, named are {names!r}")
