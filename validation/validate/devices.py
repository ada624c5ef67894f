"""The table of devices. It needs no packages, because the peer reads it, too."""

import csv
import functools
import math
import os

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference", "devices.csv")


@functools.cache
def read():
    with open(TABLE, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row_of(name):
    """Returns the first row that the device's name begins with, as a whole word after NVIDIA, where a blank equals a
    hyphen. Empty if unknown, and of a part of a GPU."""
    words = name.removeprefix("NVIDIA ").replace(" ", "-").lower() + "-"
    return {} if " MIG " in name else next((row for row in read() if words.startswith(row["device"].lower() + "-")), {})


def peaks(name):
    """Returns the dense peaks of BF16 and FP8 in flop/s; NaN if unknown."""
    return [float(row_of(name).get(key) or math.nan) * 1e12 for key in ("bf16_tflops", "fp8_tflops")]


def memory(name, bytes_):
    """Returns what a run takes for the memory of its devices: the least of their bytes, and at most the row's."""
    return min(*map(float, bytes_), float(row_of(name).get("memory_gib", math.inf)) * (1 << 30))
