"""Compares the sums in which rank 0's machine counted and timed the same operations, transfers and seconds."""

import collections

import numpy as np

from validate import formulas, slow
from validate.findings import ROUNDING

TRANSFERS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "exchange")
PHASES = ["setup", "batch", "forward", "backward", "recompute", "gradient", "optimizer"]
MEMORY = ["weights", "gradients", "optimizer", "activations", "batch", "scratch"]
MOST_KINDS = 16                     # rows of transfer_kinds; the last one then holds the rest
MOST_SPANS = 1 << 14                # recorded spans, of the last operations
# A sum of n doubles in any order is off by n 2^-53 at most. Here n is below a million.
SUMMED = 1e-9
AXES = ("tensor", "context", "shard", "data", "pipeline")          # innermost first
SUMMED_AXES = ["tensor", "context", "expert", "shard", "pipeline", "gradient", "model", "all"]


def table(case, group, key, column):
    return dict(zip(case[f"{group}/{key}"], case[f"{group}/{column}"]))


def check_names(case, f):
    names = case["operations/name"]
    f.demand(list(case["phases/name"]) == PHASES, f"phases are {case['phases/name']}")
    f.demand(list(case["memory/name"]) == MEMORY, f"kinds of memory are {case['memory/name']}")
    f.demand(case["rank_sums/axis"] == SUMMED_AXES, f"axes of rank_sums are {case['rank_sums/axis']}")
    f.demand(set(TRANSFERS) < set(names) and len(set(names)) == len(names), "operations are not each named once")
    for group, key in (("transfers", "axis"), ("transfer_kinds", "name")):
        f.demand(len(set(case[f"{group}/{key}"])) == len(case[f"{group}/{key}"]), f"{group} are not each named once")


def check_lengths(case, f):
    for group, key in (("operations", "name"), ("phases", "name"), ("transfers", "axis"), ("transfer_kinds", "name"),
                       ("memory", "name"), ("spans", "name"), ("fp8", "name"), ("samples", "rank")):
        lengths = {path: len(value) for path, value in case.values.items() if path.startswith(group + "/")}
        f.demand(len(set(lengths.values())) == 1, f"{group} has lists of different lengths: {lengths}")


def check_counts(case, f):
    """Requires that counts, flops and bytes are multiples of the timed steps, because all steps submit the same."""
    total = case.timed
    for name, *values in zip(*(case["operations/" + part] for part in ("name", "count", "flops", "bytes"))):
        f.demand(not any(value % total for value in values), f"{name}: {values} are not multiples of {total} steps")
        f.demand((values[0] > 0) == (values[2] > 0) and (values[0] > 0 or values[1] == 0),
                 f"{name}: {values} is not both counted and measured")
    counts, bytes_ = (table(case, "operations", "name", part) for part in ("count", "bytes"))
    f.same("messages of all axes", sum(case["transfers/messages"]), sum(counts[kind] for kind in TRANSFERS))
    f.same("bytes of all axes", sum(case["transfers/bytes"]), sum(bytes_[kind] for kind in TRANSFERS), SUMMED)
    for axis, messages, count in zip(*(case["transfers/" + part] for part in ("axis", "messages", "bytes"))):
        f.demand(not messages % total and not count % total, f"transfers of {axis} are not multiples of {total} steps")


def check_transfers(case, f):
    """Compares kinds of transfers with the axes."""
    kinds = case["transfer_kinds/name"]
    seconds = np.maximum(case["transfer_kinds/seconds"], 1e-9)
    f.same("bytes_per_second", case["transfer_kinds/bytes_per_second"], case["transfer_kinds/bytes"] / seconds,
           ROUNDING)
    if len(kinds) == MOST_KINDS:
        return
    messages = table(case, "transfer_kinds", "name", "messages")
    for axis, count in table(case, "transfers", "axis", "messages").items():
        of_axis = sum(n for name, n in messages.items() if name.split()[0] == axis)
        seconds = sum(s for name, s in zip(kinds, case["transfer_kinds/seconds"]) if name.split()[0] == axis)
        told = case["rank_sums/transfer_seconds"][0, SUMMED_AXES.index(axis)]
        f.same("transfer_seconds of rank 0", told, seconds, SUMMED)
        f.same(f"messages of {axis}", of_axis, count)
    spent = table(case, "operations", "name", "seconds")
    for kind in TRANSFERS:
        of_kind = sum(s for name, s in table(case, "transfer_kinds", "name", "seconds").items()
                      if name.split()[1] == kind)
        f.same(f"seconds of {kind}", of_kind, spent[kind], SUMMED)


def check_rank_sums(case, f):
    """Compares rank 0's row with its numbers elsewhere. Requires whole steps on every rank, because all steps submit
    the same. Without a pipeline, all ranks submit equally many messages."""
    messages, bytes_, seconds = (case[f"rank_sums/transfer_{part}"] for part in ("messages", "bytes", "seconds"))
    for part, found in (("messages", messages), ("bytes", bytes_)):
        told = table(case, "transfers", "axis", part)
        f.same(f"transfer_{part} of rank 0", found[0], [told.get(axis, 0) for axis in SUMMED_AXES])
    for name, told in (("phase", "phases/seconds"), ("idle", "results/idle_seconds"),
                       ("dispatch", "results/dispatch_seconds")):
        f.same(f"{name}_seconds of rank 0", case[f"rank_sums/{name}_seconds"][0], case[told])
    whole = not (messages % case.timed).any() and not (bytes_ % case.timed).any()
    f.demand(whole and ((messages > 0) == (bytes_ > 0)).all() and not seconds[messages == 0].any(),
             "transfers of rank_sums are not those of whole steps")
    of_copies = messages.reshape(case.settings["copies"], -1, messages.shape[1])
    alike = case.settings["pipeline"] > 1 or (of_copies == of_copies[:, :1]).all()
    f.demand(alike, "transfer_messages of ranks differ without a pipeline")


def check_seconds(case, f):
    """Requires that computing, waiting, submitting and idle time fill the window of every rank. Computations on a GPU
    may overlap. The window may include waits for transfers of the step before it."""
    first, last = case.settings["warmup"], case["results/completed"]
    computed = sum(seconds for name, seconds in table(case, "operations", "name", "seconds").items()
                   if name not in TRANSFERS)
    f.same("seconds of phases", sum(case["phases/seconds"]), computed, SUMMED)
    window, exposed = case["ranks/rank_seconds"][first:last].sum(axis=0), sum(slow.waits(case).values())
    waited = np.array([exposed[first:last].sum(axis=0), exposed[max(first - 1, 0):last].sum(axis=0)])
    waited[:, 0] = np.sum(case["transfers/exposed_seconds"])
    phases = case["rank_sums/phase_seconds"].sum(axis=1)
    f.same("phase_seconds of ranks", phases, case["ranks/computing_seconds"][first:last].sum(axis=0), SUMMED)
    on_host = case.settings["backend"] == "host"
    spent = phases + (case["rank_sums/dispatch_seconds"] if on_host else 0) + waited
    idle, (most, least) = case["rank_sums/idle_seconds"], np.maximum(window - spent, 0)
    # The difference of large numbers keeps the rounding error of the whole window.
    most, rounding = most if on_host else window, SUMMED * window
    f.demand(((least - rounding <= idle) & (idle <= most + rounding)).all(), f"idle_seconds are {idle}, of windows of "
             f"{window} s {least} are left")


def check_spans(case, f):
    """Checks that the operations of the last step are in order, and that no two in a queue overlap."""
    begin, end, queue = (np.asarray(case["spans/" + part]) for part in ("begin", "end", "queue"))
    f.demand(len(end) > 0 and begin.min() == 0, "the first span does not begin at 0")
    f.demand((begin <= end).all() and (np.diff(end) >= 0).all(), "spans are not in the order of their ends")
    for number in set(queue.tolist()):
        of = queue == number
        f.demand((begin[of][1:] >= end[of][:-1]).all(), f"spans of queue {number} overlap")
    for part, most in (("layer", case.settings["layers"]), ("microbatch", case.settings["microbatches"])):
        f.demand((np.asarray(case["spans/" + part]) < most).all(), f"spans/{part} is not below {most}")
    f.demand(set(case["spans/phase"]) <= set(PHASES), "spans/phase is not a phase")
    submitted = table(case, "operations", "name", "count")
    found = collections.Counter(case["spans/operation"])
    if sum(submitted.values()) > MOST_SPANS * case.timed:
        return
    for name in dict.fromkeys([*found, *(name for name, count in submitted.items() if count)]):
        f.same(f"spans of {name}", found[name], submitted.get(name, 0) / case.timed)


def check_products(case, f):
    """Recomputes the flops of rank 0, if all ranks have an equal share and nothing is computed twice."""
    s = case.settings
    if s["pipeline"] > 1 or s["experts"] or s["recompute"] not in ("none", "elementwise"):
        return
    share = case.timed * s["global_batch"] * s["copies"] / s["ranks"]
    head = 6 * s["sequence"] * s["hidden"] * s["padded_vocabulary"]
    attention = 6 * s["layers"] * s["hidden"] * s["sequence"] ** 2
    flops = table(case, "operations", "name", "flops")
    f.same("flops of matmul", flops["matmul"], share * (formulas.model_flops(s).blocks + head), ROUNDING)
    f.same("flops of attention_forward", flops["attention_forward"], share * attention / 3, ROUNDING)
    f.same("flops of attention_backward", flops["attention_backward"], share * attention * 2 / 3, ROUNDING)


def check_memory(case, f):
    names = ("arena_bytes", "outside_bytes", "own_outside_bytes", "device_outside_bytes")
    r = {name: case["results/" + name] for name in names}
    f.same("arena_bytes", r["arena_bytes"], int(np.sum(case["memory/bytes"])))
    f.demand(r["own_outside_bytes"] <= r["outside_bytes"], "own_outside_bytes is more than outside_bytes")
    f.demand(not any(value % 1 for value in r.values()), f"bytes are not whole: {r}")
    f.demand(case.settings["backend"] == "cuda" or r["device_outside_bytes"] == 0, "memory of a device on the host")


CHECKS = (check_lengths, check_names, check_counts, check_transfers, check_rank_sums, check_seconds, check_spans,
          check_products, check_memory)
# A run that is stopped may have submitted a step without finishing it.
STOPPED = (check_lengths, check_names, check_memory)
