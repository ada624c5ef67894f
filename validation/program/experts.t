#!/usr/bin/env python3
"""A mixture of experts on the host: every way of cutting it agrees with the references, which take its choices; those
are checked apart. (Faults in its operations: faults/table.t.)"""
from program import Tap, deck_file, ranks, results

KEYS = "record = none\nsteps = 1\nwarmup = 0\nsize = check\nbackend = host\n"
tap = Tap()


def run(count, cases):
    """The results of the cases, each a few keys."""
    sections = "".join("[grok1-314b]\n" + case.replace("; ", "\n") + "\n" for case in cases)
    return results(ranks(count, deck_file(KEYS + sections)))


def passed(result):
    return result["passed"] and result["hazards"] == 0 and result["check_model"]["routing"] < 16


# ---- layouts ----
LAYOUTS = {
    1: ["capacity = 1", "capacity = none; recompute = layer"],
    2: ["expert = 2", "tensor = 2", "context = 2; expert = 2", "pipeline = 2; capacity = 0.5"],
    4: ["expert = 4", "expert = 2; tensor = 2; overlap = off",
        "expert = 2; pipeline = 2; chunks_per_stage = 2; global_batch = 8",
        "context = 2; tensor = 2; expert = 2; recompute = mlp", "expert = 2; sharding = none",
        "expert = 2; tensor = 2; order = hostile; capacity = none; recompute = attention_mlp"],
    8: ["expert = 2; tensor = 2; context = 2", "expert = 4; pipeline = 2; capacity = 1.5",
        "expert = 4; tensor = 2; weight_gradient_queue = off",
        "expert = 2; tensor = 2; pipeline = 2; recompute = elementwise"],
}
for count, layouts in LAYOUTS.items():
    for precision in ("fp32", "bf16"):
        cases = [f"precision = {precision}; {layout}" for layout in layouts]
        for case, result in zip(cases, run(count, cases) + [None] * len(cases)):
            tap.ok(result and passed(result), f"{count} ranks, {case}", result)

# ---- without a capacity nothing is dropped; the losses are those with room for all ----
one, other = run(1, ["precision = fp32; capacity = none", "precision = fp32; capacity = 4"])
tap.ok(one["choices_dropped"] == other["choices_dropped"] == [0] and one["losses"] == other["losses"],
       "four times an even share of four experts' rows is room for all", (one, other))
tight = run(1, ["precision = fp32; capacity = 0.5"])[0]
tap.ok(tight["choices_dropped"][0] >= 0.5 * 2 * 2 * 64 * 2, "half an even share drops half of the choices at least",
       tight)
tap.ok(tight["expert_loads_least"][0] <= 64 <= tight["expert_loads_most"][0] and tight["balance_losses"][0] > 0,
       "loads lie on both sides of the mean", tight)
tap.done()
