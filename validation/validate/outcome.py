"""Compares what a record says more than once about the check, faults, shadows and devices of a case."""

import numpy as np

from validate import placement, witness

# Limit of the residual, which is scaled to it.
THRESHOLD = 16.0
PARTS = ("loss", "gradient_first", "gradient_fourth", "along", "weights", "routing", "scales")
CHECK = "check_model"


def check_residuals(case, f):
    of = lambda part: case[f"{CHECK}/{part}"]
    done, residual, differing = case.flag(CHECK + "/done"), of("residual"), of("differences")
    parts = [of(part) for part in PARTS]
    if done and np.isfinite(parts).all():
        f.same(CHECK + "/residual", residual, max(parts))
    f.same(CHECK + "/passed", case.flag(CHECK + "/passed"), bool(done and residual < THRESHOLD and differing == 0))
    f.demand(done or not of("worst"), f"{CHECK} was not done, and has a worst parameter")
    f.demand((differing > 0) == bool(of("difference")), f"{CHECK}: {differing} differences, {of('difference')!r}")
    f.demand(of("flips") > 0 or of("margin") == 0, f"{CHECK}/margin without flips")
    f.demand(case.settings["precision"] == "fp8" or of("scales") == of("scale_flips") == 0,
             f"{CHECK}/scales without FP8")
    f.demand(case.settings["experts"] > 0 or of("routing") == of("flips") == 0, f"{CHECK}/routing without experts")


def check_faults(case, f):
    struck = case["results/faults"] - case[CHECK + "/faults"]
    f.demand(struck >= 0, f"faults are {case['results/faults']}, of which {case[CHECK + '/faults']} in the check")
    for place, count in ((CHECK, case[CHECK + "/faults"]), ("results", struck)):
        f.demand((count > 0) == bool(case[place + "/struck"]), f"{count} faults struck {case[place + '/struck']!r}")
    f.demand((case["results/hazards"] > 0) == bool(case["results/hazard"]), "hazards without a sentence, or reverse")


def check_shadow(case, f):
    counts = {part: case["results/shadowed_" + part] for part in ("operations", "elements", "mismatches", "left_out")}
    asked, compared = case.settings["check"] != "off", counts["operations"] > 0
    # A case that was stopped may have compared the operations of its check, or none.
    f.demand(compared == asked or asked and case.interrupted, f"check {case.settings['check']} compared {counts}")
    f.demand(counts["mismatches"] <= counts["operations"] <= counts["elements"], f"of each other: {counts}")
    f.demand(compared or not any(counts.values()) and case["results/shadowed_worst"] == 0, f"not compared: {counts}")
    f.demand(counts["mismatches"] > 0 or case["results/shadowed_worst"] <= 1, "shadowed_worst is above what is allowed")


def check_replay(case, f):
    n = {part: case["results/replayed_" + part]
         for part in ("operations", "mismatches", "left_out", "products", "comparisons")}
    worst, product = case["results/replayed_worst"], case["results/replayed_worst_comparison"]
    asked, ran = case.settings["check"] == "full", n["operations"] > 0
    # A case that was stopped has no replay, unless it was stopped after its last step.
    f.demand(ran == asked or asked and case.interrupted, f"check {case.settings['check']} replayed {n}")
    f.demand(ran == (n["products"] > 0) == (case["results/replay_seconds"] > 0), f"of each other: {n}")
    f.demand(ran or not any(n.values()) and worst == product == 0, f"not replayed: {n}")
    f.demand(n["mismatches"] <= n["operations"] and n["products"] <= n["comparisons"], f"of each other: {n}")
    f.demand(n["mismatches"] > 0 or worst <= 1, "replayed_worst is above what is allowed")
    f.demand(not case.flag("results/passed") or product <= 1, "passed, and a replayed product is wrong")


def check_conservation(case, f):
    """Expects comparisons unless all ranks are stages of one pipeline; there only tied embeddings are compared."""
    compared, failed, worst = (case["results/conserved_" + part] for part in ("comparisons", "mismatches", "worst"))
    copies, unequal = case["results/replicas_compared"], case["results/replica_mismatches"]
    f.demand(0 <= failed <= compared and (failed > 0) == (worst > 1), f"{failed} of {compared} sums, worst {worst}")
    f.demand(0 <= unequal <= copies, f"{unequal} of {copies} copies of weights differ")
    s = case.settings
    sums, tied = s["ranks"] > s["pipeline"] * s["copies"], s["tied_embedding"] and s["pipeline"] > 1
    f.demand(case.interrupted or (compared > 0, copies > 0) == (sums, sums or tied),
             f"{compared} sums and {copies} copies of weights were compared")


def check_throttled(case, words, f):
    """Requires that `throttled` names the first rank with a throttling reason. Ignores other reasons of clocks."""
    held = witness.THROTTLES.values()
    first = next((f"rank {rank}: {why}" for rank, pair in enumerate(zip(*words)) for why in pair
                  if not set(why.split(", ")).isdisjoint(held)), "")
    said = case["results/throttled"]
    # in a sample, which may have been dropped; the second ending is that of older records
    sampled = not first and said.endswith(("after the timed steps began", "after the window began"))
    f.demand(said == first or sampled, f"throttled is {said!r}, by the devices {first!r}")


def check_clocks(case, words, f):
    """A host has no clocks. A case that was stopped in its warm-up has only readings at its end."""
    host, ranks = case.settings["backend"] == "host", case.settings["ranks"]
    begin, end = ([case[f"devices/{what}_at_{when}"] for what in ("clock", "power")] for when in ("begin", "end"))
    f.demand(all(len(x) == ranks for x in (*begin, *end, *words)), f"devices are not those of {ranks} ranks")
    f.demand(not host or np.isnan(begin + end).all() and not any(sum(words, [])), "devices of the host have clocks")
    numbers = np.asarray(begin + end if len(case.measured) else end)
    f.demand(np.isnan(numbers).all() or (numbers > 0).all(), "devices have some clocks, not all")


def check_devices(case, provenance, f):
    """Requires for a GPU its name, and a reason if it was throttled. Nothing is known of a host."""
    host, ranks = case.settings["backend"] == "host", case.settings["ranks"]
    words = [case[f"devices/throttled_at_{when}"] for when in ("begin", "end")]
    check_clocks(case, words, f)
    check_throttled(case, words, f)
    for name in ("clock", "power"):
        limits = provenance[f"device_{name}_limit"]     # power may slightly exceed its limit
        above = len(limits) and (case[f"samples/{name}_least"] > 1.2 * limits[case["samples/rank"]]).any()
        f.demand(not above, f"samples/{name} is above device_{name}_limit")
    names = set(provenance["device_name"][:ranks])
    name = "host" if host else names.pop() if len(names) == 1 else ""
    found = case["results/device"]
    f.demand(case["results/completed"] == 0 or found == name, f"device is {found!r}, by where it ran {name!r}")


def check_words(case, provenance, f):
    """Compares texts that follow from other texts. A case without a step has no such texts."""
    engines, library = case["results/engines"], provenance["products_library"]
    said = case.settings["backend"] == "cuda" or case["results/completed"] == 0 or library in engines
    f.demand(said, f"engines are {engines!r}, the record's products {library!r}")
    f.demand(case.interrupted == bool(case["results/interrupted"]), f"interrupted is {case['results/interrupted']!r}")


def check_list(case, f):
    """Requires that rows are numbered from 0, and that counts are whole numbers."""
    steps, s = np.arange(case.total), case.settings
    for name, rows in (("ranks/step", steps), *((f"{group}/rank", np.arange(s["ranks"])) for group in
                                                ("ranks", "rank_sums"))):
        f.demand(np.array_equal(case[name], rows), f"{name} does not count from 0")
    for name in ("choices_dropped", "expert_loads_least", "expert_loads_most"):
        values = case["steps/" + name]
        f.demand(not (values[np.isfinite(values)] % 1).any(), f"{name} are not whole numbers")
    shape = (case.total, 12 * s["layers"] if s["precision"] == "fp8" else 0)
    f.demand(case["fp8_tensors/scales"].shape == shape, f"fp8_tensors/scales is not a table of {shape}")
    f.demand(s["precision"] != "fp8" or case["fp8/name"] == ["input", "weight", "gradient"], "fp8/name is another's")


def check_variation(case, f):
    """Bounds the variation of a list with this mean between its least and most load (Bhatia and Davis)."""
    s, done = case.settings, slice(0, case["results/completed"])
    if not s["experts"]:
        return
    least, most, variation = (case["steps/expert_loads_" + part][done] for part in ("least", "most", "variation"))
    mean = s["sequence"] * s["global_batch"] * s["active_experts"] / s["experts"]
    above = np.sqrt(np.maximum((most - mean) * (mean - least), 0)) / mean
    below = (most - least) / np.sqrt(2 * s["layers"] * s["experts"]) / mean
    f.demand(((variation <= above * (1 + 1e-9)) & (variation >= below * (1 - 1e-9))).all(),
             "expert_loads_variation does not fit the least and the most load")


OF_CASE = (check_residuals, check_faults, check_shadow, check_replay, check_conservation, check_list, check_variation)
OF_WHERE = (check_devices, check_words, placement.check)      # with the record's provenance
