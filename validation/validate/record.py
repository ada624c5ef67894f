"""Reads a record into plain values. Knows names and units, judges nothing."""

from dataclasses import dataclass, field

import h5py
import numpy as np


class Unreadable(Exception):
    """Not a record, or a damaged one."""


def plain(value):
    """Bytes become text, lists of bytes lists of text, numpy scalars python's own; arrays stay."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()] if value.dtype.kind in "SO" else value
    return value.item() if isinstance(value, np.generic) else value


def read_tree(group):
    """path -> value of every dataset below a group, and the numeric ones that have no units."""
    values, unitless = {}, []

    def visit(path, item):
        if not isinstance(item, h5py.Dataset):
            return
        values[path] = plain(item[()])
        if item.dtype.kind in "iuf" and "units" not in item.attrs:
            unitless.append(path)

    group.visititems(visit)
    return values, unitless


@dataclass
class Case:
    """One case: settings are the attributes of its group, values its datasets by path."""

    name: str
    settings: dict
    values: dict
    unitless: list = field(default_factory=list)

    def __getitem__(self, path):
        return self.values[path]

    def flag(self, path):
        return bool(self.values[path])

    @property
    def ran(self):
        return "steps/step_seconds" in self.values

    @property
    def interrupted(self):
        return self.settings["verdict"] == "INTERRUPTED"

    @property
    def recovered(self):
        """Made of the steps in a journal, which has no results."""
        return self.interrupted and "results/total_seconds" not in self.values

    @property
    def total(self):
        return self.settings["warmup"] + self.settings["steps"]

    @property
    def measured(self):
        """Times of the steps that count: after the warm-up, up to the last that finished."""
        return self["steps/step_seconds"][self.settings["warmup"] : self["results/completed"]]


@dataclass
class Record:
    root: dict
    provenance: dict
    deck: bytes
    cases: list


def attributes(item):
    return {name: plain(value) for name, value in item.attrs.items()}


def read_case(name, group):
    values, unitless = read_tree(group)
    return Case(name, attributes(group), values, unitless)


def read_file(file):
    root = attributes(file)
    if root.get("creator") != "xgsw":
        raise Unreadable("no record of xgsw")
    if root.get("record_version") != 2:
        raise Unreadable(f"version {root.get('record_version')} of the record, this program reads version 2")
    provenance, _ = read_tree(file["provenance"])
    deck = np.asarray(file["provenance/deck"][()]).ravel()[0]
    cases = [read_case(name, file[name]) for name in file if name.startswith("case_")]
    return Record(root, provenance, bytes(deck), sorted(cases, key=lambda c: c.settings["case"]))


def read_record(path):
    try:
        with h5py.File(path, "r") as file:
            return read_file(file)
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise Unreadable(str(error).strip("'\"")) from None
