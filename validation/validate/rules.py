"""Derives the run rules (validation/RULES.md) again from the record, and compares them with its VALID."""

import numpy as np

from validate import accept, slow
from validate.findings import ROUNDING, count

STEPS, SPREAD, DRIFT = 10, 1.2, 1.1
# Training diverged if a loss exceeds this many times the larger of the first loss and that of a uniform guess.
DIVERGED = 2.0
# Keys for tests of the program, with their defaults. Other values are NOT VALID.
DEVELOPER_KEYS = {"weight_gradient_queue": "on", "order": "submitted", "order_seed": 1, "share_devices": "no",
                  "attention": "auto", "fault": "none"}
# Largest number of reasons that a record keeps for a case.
REASONS = 8


def finished(case, name):
    return case["steps/" + name][: case["results/completed"]]


def not_finite(case):
    return [name for name in ("losses", "gradient_norms") if not np.isfinite(finished(case, name)).all()]


def spread_of(seconds):
    return np.percentile(seconds, 90) / np.percentile(seconds, 10) if len(seconds) else np.nan


def drift_of(seconds):
    """Returns the median of the last half of the steps over that of the first, without the middle of an odd number."""
    half = len(seconds) // 2
    return np.median(seconds[-half:]) / np.median(seconds[:half]) if half else np.nan


def is_timed(case):
    return len(case.measured) >= STEPS


def oversubscribed(case, _):
    wanted, cores, quota = slow.demand_of(case)
    if case.settings["backend"] == "host" and wanted > min(cores, quota):
        return f"{wanted} threads of a node had {cores} cores and a quota of {quota:g}"


def too_few(case, _):
    """Counts the measured steps of a soak, otherwise the planned ones; never those that follow a checkpoint."""
    s, steps = case.settings, len(case.measured)
    if s["minutes"] == "none":
        timed = range(s["warmup"], s["warmup"] + s["steps"])
        steps = sum(not (step and s["checkpoint_every"] and step % s["checkpoint_every"] == 0) for step in timed)
    return steps < STEPS and f"it timed {steps} steps, {STEPS} are needed"


def diverged(case, _):
    losses = finished(case, "losses")
    limit = DIVERGED * max(np.log(case.settings["vocabulary"]), losses[0]) if len(losses) else np.inf
    return (losses > limit).any() and f"its loss rose to {np.nanmax(losses):.4g}: training diverged"


def has(path, sentence):
    """Returns a rule that is broken if a result is not empty. The result names the cause."""
    return lambda case, _: case[path] and f"{sentence}: {case[path]}"


def is_set(name, value, sentence):
    return lambda case, _: case.settings[name] == value and sentence


def changed(key, default):
    return lambda case, _: case.settings[key] != default and f"{key} is {case.settings[key]}"


# Start of "rule: reason" in a record -> function that describes how the case breaks the rule, if it does.
RULES = {
    "check off": is_set("check", "off", "its check is off"),
    "learning rate": is_set("learning_rate", 0, "its learning rate is 0"),
    "tokens": is_set("tokens", "zeros", "its tokens are zeros"),
    **{f"developer key: {key} =": changed(key, default) for key, default in DEVELOPER_KEYS.items()},
    "oversubscribed": oversubscribed,
    "throttled": has("results/throttled", "a device was throttled"),
    "clocks": lambda case, _: case.settings["backend"] == "cuda" and case["results/clocks_unknown"]
        and f"whether its devices were throttled is not known: {case['results/clocks_unknown']}",
    "placement": lambda case, _: case.settings["recipe_gpus"] and case.flag("results/tensor_across_domains")
        and f"a tensor group spans NVLink domains: {case['results/placement']}",
    "preloaded": has("results/preloaded", "a preloaded library replaces functions of the program"),
    "profiled": lambda case, _: case["results/profiled"] or case.settings["profile"] != "none"
        and f"its steps {case.settings['profile']} were profiled",
    "libraries": has("results/libraries_differ", "its ranks' libraries differ"),
    "debug build": lambda _, provenance: provenance["debug"] and "it ran in a debug build",
    "steps": too_few,
    "spread": lambda case, _: is_timed(case) and spread_of(case.measured) > SPREAD
        and f"its step times' spread is {spread_of(case.measured):.4g}, above {SPREAD}",
    "drift": lambda case, _: is_timed(case) and not 1 / DRIFT <= drift_of(case.measured) <= DRIFT
        and f"its step times' drift is {drift_of(case.measured):.4g}, beyond {DRIFT}",
    "repeats": lambda case, _: case["results/repeated_spread"] > accept.REPEATS_LIMIT
        and f"the means of its repeats spread by {case['results/repeated_spread']:.1%}",
    "soak": lambda case, _: accept.against_soak(case),
    "numbers": lambda case, _: not_finite(case) and f"its {' and '.join(not_finite(case))} are not finite",
    "collapse": lambda case, _: (finished(case, "gradient_norms") == 0).any()
        and "a gradient is zero: training collapsed",
    "divergence": diverged,
    "failed": is_set("verdict", "FAILED", "it FAILED"),
    "interrupted": is_set("verdict", "INTERRUPTED", "it was interrupted"),
}


def check_reasons(case, provenance, f):
    """Requires a reason for every broken rule, and a broken rule for every reason."""
    reasons = [": ".join(x) for x in zip(case["results/invalid_rules"], case["results/invalid_reasons"])]
    for begins, rule in RULES.items():
        broken = rule(case, provenance)
        told = [reason for reason in reasons if reason.startswith(begins)]
        if broken and case.settings["validity"] == "VALID":
            f.add(f"recorded VALID, but {broken}")
        elif broken and not told and len(reasons) < REASONS:
            f.add(f"no reason says that {broken}")
        elif told and not broken:
            f.add(f"recorded NOT VALID: {told[0]!r}, which nothing else in the record confirms")


def check_rules(case, provenance, f):
    f.same("spread", case["results/spread"], spread_of(case.measured), ROUNDING)
    f.same("drift", case["results/drift"], drift_of(case.measured), ROUNDING)
    check_reasons(case, provenance, f)
    if case.settings["validity"] == "VALID":
        for reason in case["results/invalid_reasons"]:
            f.add(f"recorded VALID, but it has the reason {reason!r}")
    elif not case["results/invalid_reasons"]:
        f.add("recorded NOT VALID without a reason")
