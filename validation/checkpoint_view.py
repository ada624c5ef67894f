#!/usr/bin/env python3
"""checkpoint_view.py FOLDER/step-00000050 [-o view.h5]: writes a file that shows each whole parameter of a checkpoint,
such as /weight/layers.3.gate, without copying it. BF16 values appear as 16-bit integers. Fails if a file is missing."""
import argparse
import os
import sys

from validate import libraries

libraries.need()

import h5py  # noqa: E402
import numpy as np  # noqa: E402


def rectangles(first, count, columns):
    """Yields (first element, rows, row, column, width) of the end of a row, whole rows, and the start of a row."""
    end, at = first + count, first
    while at < end:
        row, column = divmod(at, columns)
        whole = column == 0 and end - at >= columns
        rows, width = ((end - at) // columns, columns) if whole else (1, min(columns - column, end - at))
        yield at - first, rows, row, column, width
        at += rows * width


def datasets(path):
    """Returns first byte -> (name, elements) of each dataset in the file of a rank."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, d: found.update({d.id.get_offset(): (name, d.size)})
                        if isinstance(d, h5py.Dataset) else None)
    return found


def view(folder, output):
    index = h5py.File(os.path.join(folder, "index.h5"))
    names, *shape = (index["parameters/" + name][()] for name in ("name", "rows", "columns"))
    f = dict(zip(index["fragments"].attrs["columns"].astype(str), index["fragments"][()].T))
    files = {rank: os.path.abspath(os.path.join(folder, f"rank-{rank:05d}.h5")) for rank in set(f["rank"])}
    contents = {rank: datasets(path) for rank, path in files.items()}    # a missing file is an error here
    with h5py.File(output, "w", libver="latest") as out:
        for parameter in sorted(set(f["parameter"])):
            parts = np.flatnonzero(f["parameter"] == parameter)
            for state in ("weight", "first_moment", "second_moment"):
                kind = {2: np.uint16, 4: np.float32}[int(f[state + "_bytes"][parts[0]])]
                whole = h5py.VirtualLayout((int(shape[0][parameter]), int(shape[1][parameter])), kind)
                for i in parts:
                    rank, byte = f["rank"][i], f[state + "_at"][i]
                    begin = max(at for at in contents[rank] if at <= byte)
                    name, elements = contents[rank][begin]
                    source = h5py.VirtualSource(files[rank], name, (elements,), kind)
                    at = (byte - begin) // np.dtype(kind).itemsize
                    for skip, rows, row, column, width in rectangles(f["first"][i], f["count"][i], f["columns"][i]):
                        row, column = row + f["first_row"][i], column + f["first_column"][i]
                        whole[row:row + rows, column:column + width] = source[at + skip:at + skip + rows * width]
                out.create_virtual_dataset(f"{state}/{names[parameter].decode()}", whole)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder")
parser.add_argument("-o", default="view.h5", metavar="FILE")
arguments = parser.parse_args()
try:
    view(arguments.folder, arguments.o)
except (OSError, KeyError) as wrong:
    sys.exit(f"checkpoint_view.py: {arguments.folder} is not a complete checkpoint of xgsw: {wrong}")
