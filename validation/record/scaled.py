#!/usr/bin/env python3
"""Writes a copy of a record in which everything takes FACTOR times as long, for tests of comparisons:

    validation/record/scaled.py OLD.h5 NEW.h5 FACTOR [CASE...]

The copy is sound if the old record is sound and its cases expect no speed. Case numbers select the cases of the copy.
"""

import os
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from validate import libraries  # noqa: E402

libraries.need()

import h5py  # noqa: E402
from validate import formulas  # noqa: E402
from validate.record import read_case  # noqa: E402


def scale_case(group, factor):
    """Scales times by their units. Recomputes the numbers that follow from a peak, and the numbers of days."""
    def visit(_, item):
        units = item.attrs.get("units", b"-") if isinstance(item, h5py.Dataset) else b"-"
        power = {b"s": 1, b"d": 1}.get(units.encode() if isinstance(units, str) else units, 0)
        power = power or -str(units).rstrip("'").endswith("/s")
        if power:
            item[...] = item[...] * factor**power

    group.visititems(visit)
    case = read_case(group.name[1:], group)
    if case.ran and len(case.measured):
        for name, value in vars(formulas.speed(case.settings, case["results/device"], case.measured)).items():
            group["results/" + name][...] = value


def keep(file, numbers):
    """Removes all other cases; the rest are numbered from 1."""
    for name in [name for name in file if name.startswith("case_") and int(name[5:]) not in numbers]:
        del file[name]
    kept = [name for name in file if name.startswith("case_")]
    for number, name in enumerate(kept, 1):
        file.move(name, f"case_{number:04d}")
        file[f"case_{number:04d}"].attrs["case"] = number
    verdicts = [file[name].attrs["verdict"] for name in file if name.startswith("case_")]
    for word in ("passed", "failed", "skipped", "interrupted"):
        count = sum(str(verdict).strip("b'").lower() == word for verdict in verdicts)
        if word in file.attrs:
            file.attrs[word] = count
    file.attrs["cases_planned"] = len(kept)


def scaled(old, new, factor, numbers=()):
    shutil.copy(old, new)
    with h5py.File(new, "r+") as file:
        if numbers:
            keep(file, numbers)
        for name in [name for name in file if name.startswith("case_")]:
            scale_case(file[name], factor)
    return new


if __name__ == "__main__":
    scaled(sys.argv[1], sys.argv[2], float(sys.argv[3]), [int(word) for word in sys.argv[4:]])
