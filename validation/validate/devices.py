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


def peaks(name):
    """Returns the dense peaks of BF16 and FP8 in flop/s of the first row that the device's name begins with, as a whole
    word after NVIDIA, where a blank equals a hyphen. NaN if unknown, and of a part of a GPU."""
    words = name.removeprefix("NVIDIA ").replace(" ", "-").lower() + "-"
    row = {} if " MIG " in name else next((row for row in read() if words.startswith(row["device"].lower() + "-")), {})
    return [float(row.get(key) or math.nan) * 1e12 for key in ("bf16_tflops", "fp8_tflops")]
