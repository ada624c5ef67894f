"""What several readers derive from a record: the page, the comparison and the tables of CSV."""

import numpy as np

from validate import slow

AXES = (("tensor", "T"), ("context", "C"), ("shard", "S"), ("data", "D"), ("pipeline", "P"))    # innermost first
# The settings that say how much is computed, and how exactly. Layout, program and machine are not among them.
WORK = ("workload", "size", "precision", "sequence", "global_batch", "layers", "hidden", "ffn", "heads", "kv_heads",
        "vocabulary", "experts", "active_experts", "capacity", "tokens", "fp8_scale", "fp8_scaling",
        "context_gradients", "rules")


def timed(case):
    """The steps that were timed and finished."""
    return slice(case.settings["warmup"], case["results/completed"])


def own_computing(case):
    """Seconds [steps, ranks] that each rank computed itself; the time of other programs on its core is subtracted."""
    return np.maximum(case["ranks/computing_seconds"] - case["ranks/run_delay_seconds"], 0)


def waits(case):
    """Seconds [steps, ranks] in which only transfers ran, by axis."""
    return {axis: case["ranks/exposed_" + axis] for axis in slow.EXPOSED}


def spent(case):
    """Mean seconds of a timed step, of each rank: computing, waiting by axis, and the rest."""
    steps = timed(case)
    parts = {"computing": own_computing(case)[steps].mean(axis=0)}
    parts.update((axis, table[steps].mean(axis=0)) for axis, table in waits(case).items())
    whole = case["ranks/rank_seconds"][steps].mean(axis=0)
    return {**parts, "rest": np.maximum(whole - sum(parts.values()), 0)}


def peers(case):
    """Lists of ranks that were given the same work."""
    return slow.kinds_of_work(case["ranks/computing_flops"], case["ranks/computing_bytes"])


def relative_to_peers(table, kinds):
    """Each number of a table [steps, ranks] over its peers' median in the same step, less 1; NaN without peers."""
    relative = np.full(table.shape, np.nan)
    for kind in (kind for kind in kinds if len(kind) > 1):
        relative[:, kind] = table[:, kind] / slow.medians_of_others(table[:, kind]) - 1
    return relative


def speed(case):
    """Tokens/s by the mean and by the median of the measured steps; NaN if none was measured."""
    tokens, seconds = case.settings["sequence"] * case.settings["global_batch"], measured(case)
    return (tokens / np.mean(seconds), tokens / np.median(seconds)) if len(seconds) else (np.nan, np.nan)


def repeats(cases):
    """Lists of the cases that repeat one section of the deck, in order."""
    groups = []
    for case in cases:
        if case.settings["repeat"] == 1 or not groups:
            groups.append([])
        groups[-1].append(case)
    return groups


def work(case):
    """The settings that two cases must share before their speeds are compared."""
    return {name: case.settings[name] for name in WORK}


def layout(case):
    """The axes of more than one rank: "T8 P8 D8"; "1 rank" if there is none."""
    order = ("tensor", "context", "pipeline", "expert", "data", "shard")
    letters = dict(AXES, expert="E")
    return " ".join(f"{letters[axis]}{case.settings[axis]}" for axis in order if case.settings[axis] > 1) or "1 rank"


def measured(case):
    """Times of the steps that count; a journal does not know after which of them a checkpoint was saved."""
    return case.measured if "steps/pause_seconds" in case.values else case["steps/step_seconds"][timed(case)]


def places(record):
    """(host, index among the ranks of this node) of every rank."""
    seen, found = {}, []
    for host, node in zip(record.provenance["hosts"], record.provenance["nodes"]):
        seen[node] = seen.get(node, -1) + 1
        found.append((host, seen[node]))
    return found


def place(record, rank):
    """(host, index among the ranks of this node): node and GPU of a rank."""
    return places(record)[rank]
