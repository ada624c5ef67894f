"""Reads a record into plain values. Knows names and units, but judges nothing."""

from dataclasses import dataclass, field

import h5py
import numpy as np

from validate.findings import count
from validate.schema import RULES_VERSION

RECORD_VERSION = 6


class Unreadable(Exception):
    """The file is no record, or a damaged one."""


def plain(value):
    """Converts bytes to text, lists of bytes to lists of text, and numpy scalars to Python's types. Keeps arrays."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()] if value.dtype.kind in "SO" else value
    return value.item() if isinstance(value, np.generic) else value


@dataclass
class Tree:
    """The content of a group: value, type and units of each dataset by path, and the attributes of each group."""

    values: dict = field(default_factory=dict)
    types: dict = field(default_factory=dict)
    units: dict = field(default_factory=dict)
    views: dict = field(default_factory=dict)


def read_tree(group):
    tree = Tree()

    def visit(path, item):
        if not isinstance(item, h5py.Dataset):
            tree.views[path] = attributes(item)
            return
        tree.values[path], tree.types[path] = plain(item[()]), item.dtype
        if "units" in item.attrs:
            tree.units[path] = plain(item.attrs["units"])

    group.visititems(visit)
    return tree


@dataclass
class Case(Tree):
    """One case. Its settings are the attributes of its group."""

    name: str = ""
    settings: dict = field(default_factory=dict)

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
        """Whether the case was made from the steps in a journal, which has no results."""
        return self.interrupted and "results/total_seconds" not in self.values

    @property
    def planned(self):
        return self.settings["warmup"] + self.settings["steps"]

    @property
    def total(self):
        """Number of steps in the lists of the case. A soak has as many as it had time for."""
        return len(self["steps/step"]) if self.settings["minutes"] != "none" else self.planned

    @property
    def timed(self):
        """Number of steps in the measured window. Counts and seconds of operations and transfers cover these steps."""
        return self.total - self.settings["warmup"]

    @property
    def progress(self):
        """How many steps the case finished: "18 of 50 steps and 2 of 2 of warm-up"."""
        s, completed = self.settings, self["results/completed"]
        timed = max(0, completed - s["warmup"])
        least = "at least " * (s["minutes"] != "none")
        warmup = f" and {completed - timed} of {s['warmup']} of warm-up" if s["warmup"] else ""
        return f"{timed} of {least}{count(s['steps'], 'step')}{warmup}"

    @property
    def window(self):
        """The slice of the steps that were timed and finished."""
        return slice(self.settings["warmup"], self["results/completed"])

    @property
    def measured(self):
        """Times of the steps that count: the finished ones after the warm-up, except those that follow a checkpoint."""
        return self["steps/step_seconds"][self.window][~(self["steps/pause_seconds"][self.window] > 0)]


@dataclass
class Record:
    root: dict
    provenance: dict
    deck: bytes
    cases: list


def attributes(item):
    return {name: plain(value) for name, value in item.attrs.items()}


def read_case(name, group):
    return Case(**vars(read_tree(group)), name=name, settings=attributes(group))


def read_file(file):
    root = attributes(file)
    if root.get("creator") != "xgsw":
        raise Unreadable("not a record of xgsw")
    provenance = read_tree(file["provenance"]).values
    if root.get("record_version") != RECORD_VERSION:
        raise Unreadable(f"version {root.get('record_version')} of the record, this program reads version "
                         f"{RECORD_VERSION}: use the one of commit {provenance.get('git_commit')}")
    deck = np.asarray(file["provenance/deck"][()]).ravel()[0]
    cases = [read_case(name, file[name]) for name in file if name.startswith("case_")]
    versions = (case.settings.get("rules", "without a version") for case in cases)
    for version in (version for version in versions if version != RULES_VERSION):
        raise Unreadable(f"it was judged by the run rules {version}, this program knows {RULES_VERSION}: validate it "
                         "with the validate.py of the xgsw that wrote it")
    return Record(root, provenance, bytes(deck), sorted(cases, key=lambda c: c.settings["case"]))


def read_beginning(path):
    """Returns the first bytes of the file. Raises Unreadable with the reason if the system cannot read it."""
    try:
        with open(path, "rb") as file:
            return file.read(16)
    except FileNotFoundError:
        raise Unreadable("there is no such file; the line Record of a run's output names its record") from None
    except OSError as error:
        raise Unreadable(f"the system says: {error.strerror}") from None


def read_record(path):
    begins = read_beginning(path)
    if begins.startswith(b"xgsw journal"):
        raise Unreadable("it is the journal of a run that was killed or still runs; "
                         "validate.py --recover makes a record of it")
    if not begins.startswith(b"\x89HDF"):
        raise Unreadable("it is not an HDF5 file, as records of xgsw are; "
                         "the line Record of a run's output names its record")
    try:
        with h5py.File(path, "r") as file:
            return read_file(file)
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        why = str(error).strip("'\"")
        raise Unreadable(f"it is not a complete record: take another copy, or run the deck again (HDF5: {why})"
                         ) from None


def read_links(path):
    """Returns what --calibrate measured: hosts of ranks, pairs of ranks [pairs, 2], seconds [pairs, blocks]."""
    try:
        with h5py.File(path, "r") as file:
            return plain(file["ranks/host"][()]), file["links/ranks"][()], file["links/seconds"][()]
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise Unreadable(f"it is not a calibration: {error}") from None
