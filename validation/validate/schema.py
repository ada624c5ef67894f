"""The content of a record: groups, names, units and types as `xgsw --fields` lists them, and the datasets that may have
NaN."""

import os

import numpy as np

FIELDS_TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference", "fields.txt")
TYPES = {"real": "f8", "integer": "i8", "flag": "b1", "text": "S"}
PLAIN = {"real": float, "integer": int, "flag": bool, "text": str}
# The plot that a viewer draws of a group: signal, axes.
DRAWN = {"steps": ("step_seconds", ["step"]), "ranks": ("rank_seconds", ["step", "rank"]), "spans": ("end", ["begin"]),
         **{group: ("seconds", ["."]) for group in ("phases", "operations")}, "memory": ("bytes", ["."])}
# Datasets in which NaN means that there is no value. In a case that passed, all others hold finite numbers.
MAY_LACK = ("steps/balance_losses", "steps/choices_dropped", "steps/expert_loads_least", "steps/expert_loads_most",
            "steps/expert_loads_variation", "results/recipe_mfu", "results/model_mfu", "results/recipe_ceiling",
            "results/peak_flops", "results/model_ceiling", "results/recipe_reached", "results/model_reached",
            "results/days_per_trillion_tokens", "devices/clock_at_begin", "devices/clock_at_end",
            "devices/power_at_begin", "devices/power_at_end", "results/drift", "results/repeated_median_seconds",
            "results/repeated_minimum_seconds", "results/repeated_maximum_seconds", "results/repeated_spread",
            "results/quota", "results/energy", "results/energy_per_token", "results/others_cores", "ranks/excess",
            "ranks/excess_error", "phases/expected_seconds", "transfers/expected_seconds",
            *(f"samples/{name}" for name in (
                "clock", "clock_least", "clock_most", "temperature", "temperature_most", "power", "power_least",
                "power_most", "device_energy", "core_clock", "load", "busy_seconds", "package_energy", "own_seconds")),
            *(f"checkpoints/{name}" for name in (
                "loaded_bytes", "load_seconds", "bytes", "seconds", "write_seconds", "sync_seconds",
                "rank_bytes_per_second", "node_bytes_per_second", "read_seconds", "free_bytes")))
# Datasets that may go down to -1, which means "none" or, in an excess, less time than the peers.
MINUS_ONE = ("spans/layer", "spans/microbatch", "samples/clock_events", "ranks/excess", "results/fail_ranks",
             "results/invalid_ranks")


def read_fields(path=FIELDS_TABLE):
    """Returns 'group/name' or the name of an attribute -> (units, type)."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split(None, 4) for line in file.read().split("\n\n")[0].split("\n")[1:]]
    return {name if group == "-" else f"{group}/{name}": (units, kind) for group, name, units, kind, *_ in rows}


FIELDS = read_fields()
DATASETS = {path: value for path, value in FIELDS.items() if "/" in path}
GROUPS = {path.split("/")[0] for path in DATASETS}


def kind_of(dtype):
    return dtype.str[1:] if dtype.kind != "S" else "S"


def check_names(case, f):
    """Requires that the datasets of a case are those of the table, with its units and types."""
    f.demand(not set(DATASETS) - set(case.values), "not there: " + " ".join(sorted(set(DATASETS) - set(case.values))))
    unknown = set(case.values) - set(DATASETS)
    f.demand(not unknown, "unknown: " + " ".join(sorted(unknown)))
    for path, dtype in case.types.items():
        units, kind = DATASETS.get(path, ("-", None))
        recorded = case.units.get(path, "-")
        f.demand(kind is None or kind_of(dtype) == TYPES[kind], f"{path} is of type {dtype}, not {kind}")
        f.demand(recorded == units, f"{path} has " + (f"the units {recorded}, not {units}" if path in case.units
                                                       else f"no units: {path}"))


def check_attributes(case, f):
    """Checks the attributes of a case, even of a skipped one."""
    for path, (_, kind) in FIELDS.items():
        if "/" not in path:
            f.demand(type(case.settings.get(path)) is PLAIN[kind], f"{path} is {case.settings.get(path)!r}, no {kind}")


def check_views(case, f):
    """Checks the attributes by which a viewer finds the plots."""
    f.demand(case.settings.get("NX_class") == "NXentry", f"{case.name} is not NXentry")
    f.demand(case.settings.get("default") == "steps", f"{case.name} shows {case.settings.get('default')}, not steps")
    for group in sorted(GROUPS):
        signal, axes = DRAWN.get(group, (None, None))
        expected = {"NX_class": "NXdata", "axes": axes, "signal": signal} if signal else {"NX_class": "NXcollection"}
        shown = dict(sorted(case.views.get(group, {}).items()))
        f.demand(repr(shown) == repr(expected), f"{group} shows {shown}, not {expected}")


def check_numbers(case, f):
    """Requires finite numbers of finished steps, none below the least. A case that did not pass may have NaN."""
    done, total, passed = case["results/completed"], case.total, case.settings["verdict"] == "PASSED"
    for path in DATASETS:
        values, group = np.asarray(case[path]), path.split("/")[0]
        if values.dtype.kind not in "if":
            continue
        known = values[:done] if group in ("steps", "ranks") and len(values) == total else values
        unchecked = group.startswith("check_") and not case.flag(group + "/done")
        lacking = path in MAY_LACK or not passed or unchecked
        f.demand(lacking or np.isfinite(known).all(), f"{path} is not a number")
        least = -np.inf if path == "samples/seconds" else -1 if path in MINUS_ONE else 0    # seconds: see witness.py
        f.demand(not (known < least).any(), f"{path} is below zero")


CHECKS = (check_names, check_views, check_numbers)
