"""The content of a record: groups, names, units and types as `xgsw --fields` lists them, and the datasets that may have
NaN."""

import json
import os

import numpy as np

# What `xgsw --fields --rules --json -` writes: a line for each field and each rule.
WORDS_TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference", "words.jsonl")
TYPES = {"real": ("f8", float), "integer": ("i8", int), "flag": ("b1", bool), "text": ("S", str)}
# The plot that a viewer draws of a group: signal, axes.
DRAWN = {"steps": ("step_seconds", ["step"]), "ranks": ("rank_seconds", ["step", "rank"]), "spans": ("end", ["begin"]),
         **{group: ("seconds", ["."]) for group in ("phases", "operations")}, "memory": ("bytes", ["."])}


def paths(**groups):
    """Returns the paths of datasets from the names in each group."""
    return {f"{group}/{name}" for group, names in groups.items() for name in names.split()}


# Datasets in which NaN means that there is no value. In a case that passed, all others hold finite numbers.
MAY_LACK = paths(
    steps="balance_losses choices_dropped expert_loads_least expert_loads_most expert_loads_variation",
    results="""recipe_mfu model_mfu recipe_ceiling peak_flops model_ceiling recipe_reached model_reached drift quota
        days_per_trillion_tokens repeated_median_seconds repeated_minimum_seconds repeated_maximum_seconds
        repeated_spread energy energy_per_step energy_per_token mean_power others_cores""",
    copies="mean_seconds",
    devices="clock_at_begin clock_at_end power_at_begin power_at_end", ranks="excess excess_error",
    phases="expected_seconds", transfers="expected_seconds",
    samples="""clock clock_least clock_most temperature temperature_most power power_least power_most device_energy
        core_clock load busy_seconds package_energy own_seconds""",
    checkpoints="""loaded_bytes load_seconds bytes seconds write_seconds sync_seconds rank_bytes_per_second
        node_bytes_per_second read_seconds free_bytes""")
# Datasets that may go down to -1, which means "none" or, in an excess, less time than the peers.
MINUS_ONE = paths(spans="layer microbatch", samples="clock_events", ranks="excess", results="fail_ranks invalid_ranks")

with open(WORDS_TABLE, encoding="utf-8") as table:
    WORDS = [json.loads(line) for line in table]
# 'group/name' of a dataset, or the name of an attribute -> (units, type)
FIELDS = {row["field"] if row["group"] == "-" else f"{row['group']}/{row['field']}": (row["units"], row["type"])
          for row in WORDS if "field" in row}
DATASETS = {path: value for path, value in FIELDS.items() if "/" in path}
GROUPS = {path.split("/")[0] for path in DATASETS}
# Version of the run rules (validation/RULES.md).
RULES_VERSION = next(row["rules"] for row in WORDS if "rules" in row)


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
        f.demand(kind is None or kind_of(dtype) == TYPES[kind][0], f"{path} is of type {dtype}, not {kind}")
        f.demand(recorded == units, f"{path} has " + (f"the units {recorded}, not {units}" if path in case.units
                                                       else f"no units: {path}"))


def check_attributes(case, f):
    """Checks the attributes of a case, even of a skipped one."""
    for path, (_, kind) in FIELDS.items():
        if "/" not in path:
            value = case.settings.get(path)
            f.demand(type(value) is TYPES[kind][1], f"{path} is {value!r}, no {kind}")


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
