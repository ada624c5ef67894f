"""The chain of a record, recomputed from what it holds. validation/RECORD.md says what each hash is of.

    check(file, findings)    what does not fit: a step's link, a case's head, the root; from its manifest, where known
    root(file)               the root of what the file holds now, 64 hex digits
    seal(file)               writes links, heads and root anew, as whoever holds a record can: what is then found wrong,
                             the chain did not find; links=False keeps those of the steps

`file` is an open h5py.File; it is read, but by seal.
"""

import hashlib
import re
import struct

import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5s

LINK = 64
STEP = struct.Struct("<qq9d")
COLUMNS = ("losses", "gradient_norms", "learning_rates", "balance_losses", "choices_dropped", "expert_loads_least",
           "expert_loads_most", "expert_loads_variation")
# Of the provenance, what differs from one writing of the record to the next: no part of the first link.
MOMENT = ("written", "processors", "libraries", "preloaded", "environment")
BREAKS_NAMED = 3
OURS = re.compile(r"[A-Za-z0-9_]+")
NOTHING = hashlib.sha256(b"").hexdigest()
STRANGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OSError, RuntimeError, struct.error)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# --- The manifest --------------------------------------------------------------------------------------------------


def name_type(dtype):
    if dtype.kind == "S":
        return f"text{dtype.itemsize}"
    return {"<f8": "float64", "<i8": "int64", "|b1": "flag"}.get(dtype.str, f"other:{dtype.str}")


def word(name):
    """As it is, or in quotes where the program would not have chosen it: so no name can read as several lines."""
    return name if OURS.fullmatch(name) else ascii(name)


def line(path, item, read):
    """PATH TYPE SHAPE SHA-256 of a dataset or an attribute; `read` fills an array with its value."""
    value = np.zeros(item.shape, dtype=item.dtype)
    if value.size:
        read(value)
    extent = "x".join(map(str, item.shape)) if item.shape else "-"
    return f"{path} {name_type(value.dtype)} {extent} {sha256(value.tobytes())}"


def attribute_lines(path, item):
    for i in range(h5a.get_num_attrs(item)):
        found = h5a.open(item, index=i)
        yield line(f"{path}@{word(found.name.decode())}", found, found.read)


def object_lines(path, item, above=()):
    """Of a group or a dataset, of its attributes, and of all that lies in it; `above`: addresses of groups."""
    if isinstance(item, h5d.DatasetID):
        yield line(path, item, lambda value: item.read(h5s.ALL, h5s.ALL, value))
    else:
        yield f"{path} {'group' if isinstance(item, h5g.GroupID) else 'other'} - {NOTHING}"
    yield from attribute_lines(path, item)
    if isinstance(item, h5g.GroupID):
        yield from tree_lines(path, item, (*above, h5o.get_info(item).addr))


def tree_lines(path, group, above):
    """Of what lies in a group. A link to elsewhere, or to a group above, is a line of its own."""
    for name in group:
        here, hard = f"{path}/{word(name.decode())}", group.links.get_info(name).type == h5l.TYPE_HARD
        item = h5o.open(group, name) if hard else None
        if hard and h5o.get_info(item).addr not in above:
            yield from object_lines(here, item, above)
        else:
            yield f"{here} link - {NOTHING}"


def root_lines(file):
    """Of the attributes of the record's root, but of that which holds the hash of all."""
    return [text for text in attribute_lines("/", h5g.open(file.id, b"/")) if not text.startswith("/@root ")]


def manifest(file):
    """All lines of a record but its root's own."""
    root = h5g.open(file.id, b"/")
    return root_lines(file) + list(tree_lines("", root, (h5o.get_info(root).addr,)))


def manifest_of(file, name):
    """The lines of a group of the root."""
    return list(object_lines(f"/{name}", file[name].id, (h5o.get_info(file.id).addr,)))


def digest(lines):
    return sha256(b"".join(sorted(text.encode() + b"\n" for text in lines)))


def below(lines, path):
    """The lines of an object and of what lies in it."""
    return [text for text in lines if text.startswith((path + "/", path + "@", path + " "))]


# --- The chain -----------------------------------------------------------------------------------------------------


def first_link(lines):
    moment = tuple(f"/provenance/{name}{end}" for name in MOMENT for end in "@ ")
    return digest(text for text in below(lines, "/provenance") if not text.startswith(moment))


def extend(link, data):
    return sha256(link.encode() + data)


def cases_of(file):
    return sorted((name for name in file if name.startswith("case_")), key=lambda name: int(file[name].attrs["case"]))


def step_bytes(case):
    """The numbers of each step; seconds are those of rank 0, which a case from a journal has alone."""
    steps, number = case["steps"], int(case.attrs["case"])
    completed = int(case["results/completed"][()])
    seconds = case["ranks/rank_seconds"][:, 0] if "ranks" in case else steps["step_seconds"][()]
    rows = np.column_stack([seconds, *(steps[name][()] for name in COLUMNS)])[:completed]
    return [STEP.pack(number, i, *row) for i, row in enumerate(rows)]


def stored_links(case):
    return [text.decode("ascii", "replace") for text in case["chain/links"][()]]


def head(lines, name, link):
    """Behind a case, `link` being that of its last step."""
    own = [text for text in below(lines, f"/{name}") if not text.startswith(f"/{name}@chain_head ")]
    return extend(link, digest(own).encode())


def check_links(name, case, link, f):
    """The last link as stored, which those behind it go on from; where one does not fit, its step is named."""
    steps, links = step_bytes(case), stored_links(case)
    f.demand(len(steps) == len(links), f"{name} has {len(steps)} steps and {len(links)} links of the chain")
    broken = []
    for i, (data, stored) in enumerate(zip(steps, links)):
        if extend(link, data) != stored:
            broken.append(i)
        link = stored
    for i in broken[:BREAKS_NAMED]:
        f.add(f"{name}: the chain breaks at step {i}: its numbers, or the steps before it, are not those of its link")
    f.demand(len(broken) <= BREAKS_NAMED, f"{name}: the chain breaks at {len(broken) - BREAKS_NAMED} more steps")
    return link


def check_case(file, name, lines, link, f):
    case = file[name]
    if "steps" in case:
        link = check_links(name, case, link, f)
    stored = case.attrs["chain_head"].decode("ascii", "replace")
    f.demand(stored == head(lines, name, link), f"{name}: its chain_head is not of what the case holds")
    return stored


def check(file, f, lines=None):
    if "root" not in file.attrs:
        f.add("it has no root: it was made before records had a chain, or the root was taken away")
        return
    try:
        lines = lines or manifest(file)
        link = first_link(lines)
        for name in cases_of(file):
            link = check_case(file, name, lines, link, f)
        f.demand(recorded_root(file) == digest(lines),
                 f"the root is {recorded_root(file)}, recomputed {digest(lines)}: the record was changed")
    except STRANGE as error:
        f.add(f"the chain cannot be followed: {type(error).__name__} {error}")


def root(file):
    return digest(manifest(file))


def recorded_root(file):
    """Nothing of a record that has none."""
    value = file.attrs.get("root")
    if value is None:
        return None
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


# --- Making one ----------------------------------------------------------------------------------------------------


def put_links(case, link):
    """New links in place of the old; the last."""
    links = []
    for data in step_bytes(case):
        link = extend(link, data)
        links.append(link.encode())
    if "chain/links" in case:
        del case["chain/links"]
    case["chain/links"] = np.array(links, dtype=f"S{LINK}" if links else "S1")
    return link


def last_link(case, before):
    """As stored; that before the case where none is."""
    return (stored_links(case) or [before])[-1] if "chain/links" in case else before


def seal_case(file, name, link, links):
    case = file[name]
    try:
        link = put_links(case, link) if links and "steps" in case else last_link(case, link)
    except STRANGE:     # spoilt: what is there stays
        link = last_link(case, link)
    link = head(manifest_of(file, name), name, link)
    case.attrs["chain_head"] = np.bytes_(link)
    return link


def seal(file, links=True):
    link = first_link(manifest_of(file, "provenance"))
    for name in cases_of(file):
        link = seal_case(file, name, link, links)
    file.attrs["root"] = np.bytes_(root(file))
