"""Single changes of a record, one after another by chance: a number's last bit, a hundredth, its sign, not a number; a
letter, a flag; another type or units; something dropped, added twice, exchanged with its neighbour or given another
name. And forgeries, all of whose numbers fit together."""

import h5py
import numpy as np


def targets(file):
    """(object, attribute or None) of all that a record says, its groups and cases included; the chain's own not."""
    found = [("/", name) for name in file.attrs if name != "root"]

    def visit(path, item):
        if "chain" not in path.split("/"):
            found.append((path, None))
            found.extend((path, name) for name in item.attrs)

    file.visititems(visit)
    return found


def change_number(value, how, rng):
    at = rng.choice(np.arange(value.size)) if value.size else None
    flat = value.astype(float).ravel()
    old = flat[at]
    flat[at] = {"last bit": np.nextafter(old, np.inf), "hundredth": old * 1.01, "sign": -old, "not a number": np.nan,
                "one more": old + 1}[how]
    return flat.reshape(value.shape)


def change_text(value, rng):
    flat = np.array(value, ndmin=1)
    at = rng.integers(flat.size)
    text = bytearray(flat.flat[at] or b"x")
    where = rng.integers(len(text))
    text[where] = (text[where] ^ 1) or 65
    out = flat.astype(f"S{max(flat.dtype.itemsize, len(text))}")
    out.flat[at] = bytes(text)
    return out.reshape(np.shape(value))


def ways(value):
    """What can be done to a value."""
    value = np.asarray(value)
    kinds = {"f": ["last bit", "hundredth", "sign", "not a number", "type"], "i": ["one more", "sign", "type"],
             "b": ["flag", "type"], "S": ["letter", "type"]}[value.dtype.kind] if value.size else []
    return kinds + ["dropped"] + (["exchanged", "twice", "cut"] if value.ndim and len(value) > 1 else [])


def another(value, how, rng):
    value = np.asarray(value)
    kind = value.dtype.kind
    if how == "letter":
        return change_text(value, rng)
    if how == "flag":
        return ~value
    if how == "type":
        other = {"f": "i8", "i": "f8", "b": "i8", "S": "f8"}[kind]
        return np.zeros(value.shape, other) if kind == "S" else np.nan_to_num(value).astype(other)
    if how == "exchanged":
        at = rng.integers(len(value) - 1)
        return value[[*range(at), at + 1, at, *range(at + 2, len(value))]]
    if how in ("twice", "cut"):
        at = rng.integers(len(value))
        return np.insert(value, at, value[at], axis=0) if how == "twice" else np.delete(value, at, axis=0)
    changed = change_number(value, how, rng)
    return changed.astype(value.dtype) if kind == "i" else changed


def alike(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def change_dataset(file, path, rng):
    """What was done; nothing where that would change nothing."""
    old, item = file[path][()], file[path]
    how = rng.choice(ways(old))
    new = None if how == "dropped" else another(old, how, rng)
    if new is not None and alike(old, new):
        return None
    kept = dict(item.attrs)
    del file[path]
    if new is not None:
        file[path] = new
        file[path].attrs.update(kept)
    return how


def change_attribute(file, path, name, rng):
    old = file[path].attrs[name]
    how = rng.choice(ways(old))
    new = None if how == "dropped" else another(old, how, rng)
    if new is not None and alike(old, new):
        return None
    del file[path].attrs[name]
    if new is not None:
        file[path].attrs[name] = new
    return "attribute " + how


def contents(group):
    return [(name, contents(item) if isinstance(item, h5py.Group) else np.asarray(item[()]).tobytes())
            for name, item in group.items()]


def change_group(file, path, rng):
    how = rng.choice(["group dropped", "group renamed", "group twice", "group exchanged"])
    parent, _, name = path.rpartition("/")
    beside = [other for other, item in file[parent or "/"].items() if other != name
              and isinstance(item, h5py.Group) and contents(item) != contents(file[path])]
    if how == "group renamed":
        file.move(path, path + "x" if parent else f"case_{rng.integers(20, 99):04d}")
    elif how == "group twice":
        file.copy(path, path + "x" if parent else f"case_{rng.integers(20, 99):04d}")
    elif how == "group exchanged" and beside:
        other = f"{parent}/{rng.choice(beside)}"
        file.move(path, "aside"), file.move(other, path), file.move("aside", other)
    else:
        del file[path]
        return "group dropped"
    return how


def change(file, all_targets, rng):
    """Makes one; says where and what."""
    while True:
        path, name = all_targets[rng.integers(len(all_targets))]
        if name:
            how = change_attribute(file, path, name, rng)
        elif isinstance(file[path], h5py.Dataset):
            how = change_dataset(file, path, rng)
        else:
            how = change_group(file, path, rng)
        if how:
            return f"{path}@{name}" if name else path, how


# ---- Forgeries ----

INVERSE = ("tokens_per_second", "tokens_per_second_per_gpu", "tflops_per_gpu", "recipe_mfu", "model_mfu",
           "recipe_reached", "model_reached", "bytes_per_second")


def quicken(item, factor):
    """What is in seconds, or is said by the second, of a machine so many times as fast."""
    if item.name.split("/")[-1] in INVERSE:
        item[...] = item[()] * factor
    elif isinstance(item, h5py.Dataset) and item.attrs.get("units") in (b"s", b"d"):
        item[...] = item[()] / factor


def faster(file, factor):
    """All cases."""
    file.visititems(lambda path, item: quicken(item, factor) if path.startswith("case_") else None)


def faster_case(file, factor):
    """The last case that ran alone, cleanly."""
    name = [case for case in file if case.startswith("case_") and "results" in file[case]][-1]
    file[name].visititems(lambda _, item: quicken(item, factor))


def later(file, factor):
    """The run's times, too, as if it had taken so much less."""
    begin, end = (np.datetime64(file[f"provenance/{name}"][()].decode()[:-1]) for name in ("started", "written"))
    moment = begin + np.timedelta64(int((end - begin) / np.timedelta64(1, "s") / factor) + 1, "s")
    file["provenance/written"][...] = np.bytes_(f"{moment}Z")


def learned_more(file, factor):
    """Losses that training never reached."""
    for name in (case for case in file if case.startswith("case_") and "steps" in file[case]):
        file[f"{name}/steps/losses"][...] = file[f"{name}/steps/losses"][()] / factor


def forgeries():
    """(name, what it does to a record). Beyond 1.5 times as fast the sample's devices would exceed their peak."""
    for factor in (1.02, 1.05, 1.1, 1.2, 1.5):
        yield f"all seconds {factor} times as fast", lambda file, x=factor: faster(file, x)
        yield (f"all seconds and the run's times {factor} times as fast",
               lambda file, x=factor: (faster(file, x), later(file, x)))
        yield f"one case {factor} times as fast", lambda file, x=factor: faster_case(file, x)
        yield f"losses {factor} times as low", lambda file, x=factor: learned_more(file, x)
