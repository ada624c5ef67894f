"""The XGSW_RESULT lines of a run's output, held against its record."""

import json
import math

PREFIX = "XGSW_RESULT "
# Numbers are printed with nine significant digits or more.
DIGITS = 1e-8

SPEED = {
    ("step_seconds", "median"): "median_seconds",
    ("step_seconds", "min"): "minimum_seconds",
    ("step_seconds", "max"): "maximum_seconds",
    ("tokens_per_second",): "tokens_per_second",
    ("tokens_per_second_per_gpu",): "tokens_per_second_per_gpu",
    ("tflops_per_gpu",): "tflops_per_gpu",
    ("recipe_mfu",): "recipe_mfu",
    ("model_mfu",): "model_mfu",
}
SETTINGS = ("workload", "size", "precision", "backend", "ranks", "warmup", "steps")


def read_results(path):
    """Case number -> the object that was printed for it."""
    with open(path, encoding="utf-8", errors="replace") as file:
        objects = [json.loads(line[len(PREFIX) :]) for line in file if line.startswith(PREFIX)]
    return {item["case"]: item for item in objects}


def number(value):
    return math.nan if value is None else value


def dig(item, keys):
    for key in keys:
        item = item[key]
    return number(item)


def check_printed(case, results, f):
    """Everything printed for this case that the record holds too."""
    item = results.get(case.settings["number"])
    if item is None:
        f.add("the output has no XGSW_RESULT line for this case")
        return
    try:
        for key in SETTINGS:
            f.demand(item[key] == case.settings[key], f"printed {key} {item[key]}, recorded {case.settings[key]}")
        for keys, name in SPEED.items():
            f.same("printed " + name, dig(item, keys), case["results/" + name], DIGITS)
        for key, name in (("losses", "loss"), ("gradient_norms", "gradient_norm")):
            f.same("printed " + key, [number(v) for v in item[key]], case["steps/" + name], DIGITS)
        f.demand(item["passed"] == case.flag("results/passed"), "printed and recorded verdict differ")
        f.demand(item["valid"] == case.flag("results/valid"), "printed and recorded validity differ")
    except (KeyError, TypeError) as error:
        f.add(f"the XGSW_RESULT line is incomplete: {type(error).__name__} {error}")
