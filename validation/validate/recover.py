"""Makes a record from the journal of a run that ended before its record was complete. src/bench/record/journal.h
describes the layout of a journal."""

import fcntl
import hashlib
import io
import os
import struct
import time

import h5py
import numpy as np

from validate.record import Unreadable, read_beginning
from validate.schema import FIELDS

BEGIN = b"xgsw journal 3\n"
ENTRY = struct.Struct("<II16s")
CHECKED = struct.Struct("<II")
PIECE, STEP = 1, 2
STEP_ENTRY = struct.Struct("<qq9d")
NUMBERS = ("step_seconds", "losses", "gradient_norms", "learning_rates", "balance_losses", "choices_dropped",
           "expert_loads_least", "expert_loads_most", "expert_loads_variation")
VERDICTS = ("PASSED", "FAILED", "SKIPPED", "INTERRUPTED")
WHY = "the run ended before this case did: these are its steps that the journal has, by the clock of rank 0"


class Taken(Exception):
    """The record of a journal exists already and is not replaced."""


def entries(data):
    """Yields (kind, bytes) of all entries before the first incomplete one."""
    at = len(BEGIN)
    while at + ENTRY.size <= len(data):
        kind, size, check = ENTRY.unpack_from(data, at)
        payload = data[at + ENTRY.size : at + ENTRY.size + size]
        digest = hashlib.sha256(CHECKED.pack(kind, size) + payload).hexdigest()
        if len(payload) < size or digest[:16].encode() != check:
            return
        yield kind, payload
        at += ENTRY.size + size


def refuse_living(file):
    """Refuses a journal that its living run has locked. Cannot detect one on file systems without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Unreadable("its run still writes it: recover it when that has ended") from None
    except OSError:
        pass


def read_journal(path):
    """Returns the pieces of the record in order, and the steps of each case number."""
    read_beginning(path)    # raises Unreadable if it cannot
    with open(path, "rb") as file:
        refuse_living(file)
        data = file.read()
    if not data.startswith(BEGIN):
        raise Unreadable("not a journal of xgsw; validate a record without --recover")
    pieces, steps = [], {}
    for kind, payload in entries(data):
        if kind == PIECE:
            pieces.append(payload)
        elif kind == STEP:
            number, _, *values = STEP_ENTRY.unpack(payload)
            steps.setdefault(number, []).append(values)
    if not pieces:
        raise Unreadable("its run ended before it had written where it comes from: no step was printed")
    return pieces, steps


def copy_piece(piece, into):
    """Copies groups and root attributes. A later group of a case replaces the earlier one."""
    with h5py.File(io.BytesIO(piece), "r") as source:
        for name in source.attrs:
            into.attrs[name] = source.attrs[name]
        for name in source:
            if name in into:
                del into[name]
            source.copy(name, into)


def put(group, name, value):
    units, _ = FIELDS[f"{os.path.basename(group.name)}/{name}"]
    dataset = group.create_dataset(name, data=value)
    if units != "-":
        dataset.attrs["units"] = np.bytes_(units)


def add_steps(case, rows):
    """Adds the steps to a case that had not finished."""
    columns = np.array(rows, dtype=float).reshape(len(rows), len(NUMBERS)).T
    steps = case.create_group("steps")
    steps.attrs["NX_class"], steps.attrs["signal"] = np.bytes_("NXdata"), np.bytes_("step_seconds")
    steps.attrs["axes"] = np.array([b"step"])
    for name, column in zip(("step", *NUMBERS), (np.arange(len(rows)), *columns)):
        put(steps, name, column)
    results = case.create_group("results")
    results.attrs["NX_class"] = np.bytes_("NXcollection")
    put(results, "completed", len(rows))
    put(results, "invalid_reasons", np.array([WHY.encode()]))
    case.attrs["default"] = np.bytes_("steps")


def date(file, path):
    """Dates the record by the journal, which the run wrote until it ended. The pieces have the date of its start."""
    last = time.gmtime(os.path.getmtime(path))
    file["provenance/written"][()] = np.bytes_(time.strftime("%Y-%m-%dT%H:%M:%SZ", last))


def fill(file, path, pieces, steps):
    for piece in pieces:
        copy_piece(piece, file)
    date(file, path)
    cases = [file[name] for name in file if name.startswith("case_")]
    for case in cases:
        if case.attrs["verdict"] == b"INTERRUPTED" and "steps" not in case:
            add_steps(case, steps.get(int(case.attrs["case"]), []))
    for word in VERDICTS:
        file.attrs[word.lower()] = sum(case.attrs["verdict"] == word.encode() for case in cases)
    file.attrs["recovered"] = np.bytes_(f"of {os.path.basename(path)}")


def record_name(path):
    """Returns the name of the record: gsw.h5.journal-1 -> gsw.h5.recovered-1.h5"""
    stem, _, number = path.rpartition(".journal")
    return f"{stem or path}.recovered{number}.h5"


def recover(path):
    """Makes the record and returns its name. Does not replace an existing file."""
    pieces, steps = read_journal(path)
    name = record_name(path)
    try:
        with h5py.File(name + ".tmp", "w", libver=("v110", "v110")) as file:
            fill(file, path, pieces, steps)
        os.link(name + ".tmp", name)
    except FileExistsError:
        raise Taken(f"{path} was recovered before, or {name} is another's: it is not replaced; remove or rename it, or "
                    f"validate it: validate.py {name}") from None
    finally:
        if os.path.exists(name + ".tmp"):
            os.remove(name + ".tmp")
    return name
