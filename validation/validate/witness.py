"""Checks the samples taken during the steps, by the rules in src/bench/health/ and src/machine/sample/."""

import numpy as np

from validate.findings import ROUNDING

# NVML's bits for throttled clocks, and their words in a record: src/machine/cuda/device/nvml.c. Other reasons for a low
# clock, such as the power limit, are not throttling.
THROTTLES = {0x08: "hardware slowdown", 0x20: "temperature", 0x40: "hardware temperature", 0x80: "power brake"}
# Seconds by which the sampling thread may start after the timed steps, because it may wait for a core.
BEGUN = 1.0
# Rounding of differences of such times.
CLOCK = 1e-6
EXTREMES = (("clock", "least"), ("clock", "most"), ("power", "least"), ("power", "most"), ("temperature", "most"))
COUNTERS = ("device_energy", "package_energy", "own_seconds")


def throttled_samples(case):
    events = case["samples/clock_events"]
    held = (events >= 0) & (events & sum(THROTTLES) != 0)
    return [int(rank) for rank in np.unique(case["samples/rank"][held])]


def check_samples(case, f):
    """Requires samples of a rank in order, counters that never decrease, and sums equal to those of the last sample."""
    ranks, seconds = case["samples/rank"], case["samples/seconds"]
    f.demand((np.diff(ranks) >= 0).all() and (ranks < case.settings["ranks"]).all(), "samples are not rank by rank")
    same = np.diff(ranks) == 0
    f.demand((np.diff(seconds)[same] > 0).all(), "samples of a rank are not in order of time")
    for name in COUNTERS:
        more = np.diff(case[f"samples/{name}"])[same]
        f.demand((more[np.isfinite(more)] >= 0).all(), f"samples/{name} of a rank counts down")
    held = throttled_samples(case)
    if held and not case["results/throttled"]:
        f.add(f"rank {held[0]} was throttled in a sample, and the case was not")
    last = np.append(~same, True) if len(ranks) else np.zeros(0, bool)
    check_sampled(case, last, f)
    check_extremes(case, f)
    check_energy(case, last, f)


def check_sampled(case, last, f):
    """Requires samples if their interval is recorded. If the energy is known, every device has samples, or on hosts
    rank 0. A rank has none if its driver hung. Samples of a device continue until its steps end."""
    ranks, every = case["samples/rank"][last].tolist(), case["results/sample_seconds"]
    f.demand((every > 0) == bool(ranks), f"{len(ranks)} ranks have samples, one every {every:g} s")
    on_cuda = case.settings["backend"] == "cuda"
    told = range(case.settings["ranks"] if on_cuda else 1) if case["results/energy_method"] else ()
    f.demand(set(told) <= set(ranks), "the energy is known, and ranks have no samples")
    spent = np.nansum(case["ranks/rank_seconds"][case.window], axis=0)
    short = [rank for rank, seconds in zip(ranks, case["samples/seconds"][last]) if on_cuda and
             seconds < spent[rank] - BEGUN]
    f.demand(not short, f"the samples of ranks {short} end before their steps")


def check_extremes(case, f):
    """Requires samples between their extremes, and in the timed steps. Ranks other than 0 may deviate in time."""
    for name, word in EXTREMES:
        value = case[f"samples/{name}"]
        beyond = (case[f"samples/{name}_{word}"] - value) * (1 if word == "most" else -1)
        holds = beyond >= 0 if case["results/sample_seconds"] > 1 else beyond == 0      # no sample was dropped
        f.demand((holds | np.isnan(value)).all(), f"samples/{name}_{word} does not fit samples/{name}")
    ranks, seconds = case["samples/rank"], case["samples/seconds"]
    if len(ranks):
        apart = np.where(ranks > 0, BEGUN + np.nanmax(case["ranks/rank_seconds"]), 0)
        left = case["results/total_seconds"] - case["steps/begin_seconds"][case.settings["warmup"]]
        f.demand(((-apart <= seconds) & (seconds <= left + apart)).all(), "samples/seconds are not of the timed steps")


def power_of(case, last):
    """Returns the mean power of a GPU, from the counters and times of each one's last sample; NaN on the host."""
    if case.settings["backend"] == "host" or not case["results/energy_method"]:
        return np.nan
    ranks, seconds = case["samples/rank"], case["samples/seconds"]
    first = np.append(True, np.diff(ranks) != 0)
    return case["samples/device_energy"][last].sum() / (seconds[last] - seconds[first]).sum()


def check_energy(case, last, f):
    energy, method = case["results/energy"], case["results/energy_method"]
    steps, tokens = len(case.measured), case.settings["copies"] * case["results/tokens_per_step"]
    f.demand(bool(method) == bool(np.isfinite(energy)), f"energy {energy} by the method {method!r}")
    f.same("energy_per_step", case["results/energy_per_step"], energy / steps if steps else np.nan, ROUNDING)
    f.same("energy_per_token", case["results/energy_per_token"], energy / steps / tokens if steps else np.nan, ROUNDING)
    f.same("mean_power", case["results/mean_power"], power_of(case, last), CLOCK)
    if method:
        kind = "device_energy" if case.settings["backend"] == "cuda" else "package_energy"
        f.same("energy", energy, np.nansum(case[f"samples/{kind}"][last]), ROUNDING)
    others, cores = case["results/others_cores"], case["results/others_of_cores"]
    f.demand(not others < 0 and not others > cores + 1, f"others used {others} of {cores} cores")
