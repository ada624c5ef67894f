"""What the page, the comparison and the CSV tables all derive from a record."""

import numpy as np

from validate import slow
from validate.slow import own_computing, waits

AXES = (("tensor", "T"), ("context", "C"), ("shard", "S"), ("data", "D"), ("pipeline", "P"))    # innermost first
# Settings that define how much is computed and how exactly, without layout, program and machine.
WORK = ("workload", "size", "precision", "sequence", "global_batch", "layers", "hidden", "ffn", "heads", "kv_heads",
        "vocabulary", "experts", "active_experts", "capacity", "tokens", "fp8_scale", "fp8_scaling",
        "context_gradients", "rules")


def spent(case):
    """Returns mean seconds of a timed step for each rank: computing, waiting by axis, and the rest."""
    steps = case.window
    parts = {"computing": own_computing(case)[steps].mean(axis=0)}
    parts.update((axis, table[steps].mean(axis=0)) for axis, table in waits(case).items())
    whole = case["ranks/rank_seconds"][steps].mean(axis=0)
    return {**parts, "rest": np.maximum(whole - sum(parts.values()), 0)}


def peers(case):
    """Returns lists of ranks that have the same work."""
    return slow.kinds_of_work(case["ranks/computing_flops"], case["ranks/computing_bytes"])


def relative_to_peers(table, kinds):
    """Divides a table [steps, ranks] by the peers' median in the same step, and subtracts 1. NaN: no peers."""
    relative = np.full(table.shape, np.nan)
    for kind in (kind for kind in kinds if len(kind) > 1):
        relative[:, kind] = table[:, kind] / slow.medians_of_others(table[:, kind]) - 1
    return relative


def speed(case):
    """Returns tokens/s by the mean and by the median of the measured steps; NaN if none was measured."""
    tokens, seconds = case.settings["sequence"] * case.settings["global_batch"], measured(case)
    return (tokens / np.mean(seconds), tokens / np.median(seconds)) if len(seconds) else (np.nan, np.nan)


def repeats(cases):
    """Groups cases that repeat one section of the deck, in order."""
    groups = []
    for case in cases:
        if case.settings["repeat"] == 1 or not groups:
            groups.append([])
        groups[-1].append(case)
    return groups


def work(case):
    """Returns the settings that must be equal before two cases are compared."""
    return {name: case.settings[name] for name in WORK}


def layout(case):
    """Returns the axes of more than one rank, such as "T8 P8 D8", or "1 rank"."""
    order = ("tensor", "context", "pipeline", "expert", "data", "shard")
    letters = dict(AXES, expert="E")
    return " ".join(f"{letters[axis]}{case.settings[axis]}" for axis in order if case.settings[axis] > 1) or "1 rank"


def measured(case):
    """Returns the times of the steps that count. A journal does not record which of them follow a checkpoint."""
    return case.measured if "steps/pause_seconds" in case.values else case["steps/step_seconds"][case.window]


def places(record):
    """Returns (host, index among the ranks of its node) of every rank."""
    seen, found = {}, []
    for host, node in zip(record.provenance["hosts"], record.provenance["nodes"]):
        seen[node] = seen.get(node, -1) + 1
        found.append((host, seen[node]))
    return found
