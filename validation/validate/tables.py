"""Writes tables of a record as CSV for a spreadsheet: its cases, their steps, their ranks."""

import csv

import numpy as np

from validate import views


def lists_of(case, group, shape):
    """Returns name -> column for the columns of a group that have this shape."""
    return {path.split("/")[1]: value for path, value in case.values.items()
            if path.startswith(group + "/") and np.shape(value) == shape}


def cases(record):
    """Yields the attributes and single results of each case."""
    for case in record.cases:
        yield {**dict.fromkeys(("case", "workload", "precision")), **case.settings, **lists_of(case, "results", ())}


def steps(record):
    for case in filter(lambda case: case.ran, record.cases):
        lists = {"step": case["steps/step"], **lists_of(case, "steps", (len(case["steps/step"]),))}
        yield from ({"case": case.settings["case"], **dict(zip(lists, row))} for row in zip(*lists.values()))


def sums_of(case):
    """Returns the tables [ranks, names] of rank_sums, one column per phase or axis, such as phase_forward_seconds."""
    names = {"phase": case.values.get("phases/name"), "transfer": case.values.get("rank_sums/axis")}
    return {f"{kind}_{name}_{unit}": column for path, table in case.values.items()
            if path.startswith("rank_sums/") and np.ndim(table) == 2
            for kind, unit in [path.split("/")[1].split("_")] for name, column in zip(names[kind], table.T)}


def ranks(record):
    """Yields for each rank its place, its sums over the timed steps, and facts about it and its device."""
    for case in filter(lambda case: case.ran, record.cases):
        count, p = case.settings["ranks"], record.provenance
        named = ("name", "identity", "bus", "serial") if case.settings["backend"] == "cuda" else ()
        lists = {"node": p["nodes"], "switch": p["switches"], **{"device_" + x: p["device_" + x] for x in named},
                 **lists_of(case, "ranks", (count,)), **lists_of(case, "rank_sums", (count,)), **sums_of(case),
                 **{path.split("/")[1]: value[case.window].sum(axis=0) for path, value in case.values.items()
                    if path.startswith("ranks/") and np.ndim(value) == 2}, **lists_of(case, "devices", (count,))}
        for rank, (host, gpu) in enumerate(views.places(record)[:count]):
            yield {"case": case.settings["case"], "rank": rank, "host": host, "gpu": gpu,
                   **{name: values[rank] for name, values in lists.items() if name not in ("rank", "step", "axis")}}


TABLES = {table.__name__: table for table in (cases, steps, ranks)}


def write(record, name, file):
    """Writes the table of that name. Leaves missing values and NaN empty. Returns 0, the exit status."""
    rows = list(TABLES[name](record))
    table = csv.DictWriter(file, list(dict.fromkeys(column for row in rows for column in row)), lineterminator="\n")
    table.writeheader()
    table.writerows({column: "" if value != value else value for column, value in row.items()} for row in rows)
    return 0
