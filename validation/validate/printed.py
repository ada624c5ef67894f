"""The XGSW_RESULT lines of a run's output, held against its record."""

import json
import math

PREFIX = "XGSW_RESULT "
# Numbers are printed with nine significant digits or more.
DIGITS = 1e-8

# Groups of the record whose fields the line has side by side.
FLAT = ("results", "steps")
# A line without these is none.
NEEDED = ("workload", "median_seconds", "tokens_per_second", "losses", "gradient_norms", "passed", "valid")


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


def recorded(case):
    """name -> value of all that the line and the record both have: settings, and the fields of the flat groups."""
    fields = {path.split("/")[1]: value for path, value in case.values.items() if path.split("/")[0] in FLAT}
    return {**fields, **case.settings}


def check_printed(case, results, f):
    """Everything printed for this case that the record holds too."""
    item = results.get(case.settings["case"])
    if item is None:
        f.add("the output has no XGSW_RESULT line for this case")
        return
    known = recorded(case)
    absent = [name for name in NEEDED if name not in item]
    f.demand(not absent, "the XGSW_RESULT line is incomplete: no " + ", ".join(absent))
    for name in item.keys() & known.keys():
        printed = numbers(item[name])
        if printed is None or isinstance(known[name], (str, list)):
            f.demand(item[name] == known[name], f"printed {name} {item[name]}, recorded {known[name]}")
        else:
            f.same("printed " + name, printed, known[name], DIGITS)
