"""The XGSW_RESULT lines of a run's output, held against its record."""

import json
import math

import numpy as np

PREFIX = "XGSW_RESULT "
# Numbers are printed with nine significant digits or more.
DIGITS = 1e-8

# Groups of the record whose fields the line has side by side, and those that it has as objects.
FLAT = ("results", "steps")
OBJECTS = ("check_before", "check_after")
# What a viewer of the record needs and the line does not have.
RECORD_ONLY = {"NX_class", "default", "step"}


def read_results(path):
    """Case number -> the object that was printed for it."""
    with open(path, encoding="utf-8", errors="replace") as file:
        objects = [json.loads(line[len(PREFIX) :]) for line in file if line.startswith(PREFIX)]
    return {item["case"]: item for item in objects}


def numbers(value):
    """A number or a list of numbers as floats, null as not a number; nothing for anything else."""
    values = value if isinstance(value, list) else [value]
    if not all(v is None or isinstance(v, (int, float)) for v in values):
        return None
    floats = [math.nan if v is None else float(v) for v in values]
    return floats if isinstance(value, list) else floats[0]


def group(case, names):
    return {path.split("/")[1]: value for path, value in case.values.items() if path.split("/")[0] in names}


def recorded(case):
    """name -> value of all that the line and the record both have side by side: settings, fields of the flat groups."""
    fields = {**group(case, FLAT), **case.settings}
    return {name: value for name, value in fields.items() if name not in RECORD_ONLY}


def compare(item, known, f):
    """What is printed, against what is recorded under the same names."""
    absent = sorted(known.keys() - item.keys())
    f.demand(not absent, "the XGSW_RESULT line is incomplete: no " + ", ".join(absent))
    for name in item.keys() & known.keys():
        printed = numbers(item[name])
        if printed is None or isinstance(known[name], (str, list)):
            f.demand(item[name] == known[name], f"printed {name} {item[name]}, recorded {known[name]}")
        else:
            found = np.asarray(known[name], dtype=float)        # infinity is printed as null, too
            f.same("printed " + name, printed, np.where(np.isfinite(found), found, np.nan), DIGITS)


def check_printed(case, results, f):
    """Everything printed for this case that the record holds too."""
    item = results.get(case.settings["case"])
    if item is None:
        f.add("the output has no XGSW_RESULT line for this case")
        return
    compare(item, recorded(case), f)
    for name in OBJECTS:
        compare(item.get(name, {}), group(case, (name,)), f)
