"""Recomputes the contents of a record from its raw numbers, and finds contradictions."""

from dataclasses import asdict

import numpy as np

from validate import accept, copies, formulas, machine, origin, outcome, reference, rules, schema, slow, witness
from validate.findings import ROUNDING, Findings
from validate.machine import AXES
from validate.outcome import CHECK

# Minimum, maximum and maximum over ranks copy a double, so they must be equal.
EXACT = 0.0
# Rounding of a clock in seconds: a few times 2^-53 of the months since the machine started.
CLOCK = 1e-6
# The program may compute the cosine by an FP32 polynomial with an error of 3e-7.
COSINE = 1e-6

ROUTED = ("balance_losses", "choices_dropped", "expert_loads_least", "expert_loads_most", "expert_loads_variation")
FP8 = ("underflowed", "saturated", "scale_least", "scale_most")


def check_settings(case, f):
    s = case.settings
    f.same("ranks", s["ranks"], int(np.prod([s[axis] for axis in ("copies", *AXES)])))
    f.demand(s["ranks"] <= s["world_ranks"], f"{s['ranks']} ranks used of {s['world_ranks']}")
    f.same("global_batch", s["global_batch"], s["data"] * s["shard"] * s["microbatch"] * s["microbatches"])
    f.same("hidden", s["hidden"], s["heads"] * s["head_dim"])
    f.same("padded_vocabulary", s["padded_vocabulary"], formulas.padded_vocabulary(s))
    f.same("active_experts", s["active_experts"] or 1, formulas.family(s).active)
    f.same("balance", s["balance"], formulas.family(s).balance)
    f.same("metric_steps", s["metric_steps"], formulas.metric_steps(s))
    for name, flops in (("recipe", formulas.recipe_flops(s)), ("model", formulas.model_flops(s))):
        f.same(f"{name}_flops_per_sequence", s[f"{name}_flops_per_sequence"], flops.whole, ROUNDING)
        f.same(f"{name}_block_flops_per_sequence", s[f"{name}_block_flops_per_sequence"], flops.blocks, ROUNDING)


def check_steps(case, f):
    s, total = case.settings, case.total
    for name in ("step_seconds", "begin_seconds", "losses", "gradient_norms", "learning_rates", "step", *ROUTED):
        f.demand(case["steps/" + name].shape == (total,), f"{name} does not hold one number for each of {total} steps")
    whole = case["ranks/rank_seconds"].shape == (total, s["ranks"])
    f.demand(whole, f"rank_seconds is not {total} steps x {s['ranks']} ranks")
    f.demand(np.array_equal(case["steps/step"], np.arange(total)), "steps/step does not count the steps from 0")
    f.same("tokens_per_step", case["results/tokens_per_step"], s["sequence"] * s["global_batch"])
    finished = np.isfinite(case["steps/step_seconds"])
    f.same("completed", case["results/completed"], int(np.argmin(finished)) if not finished.all() else total)
    done = slice(0, case["results/completed"])
    f.demand((case["steps/step_seconds"][done] > 0).all(), "a step took no time")
    copies.check(case, f)
    # On rank 0, a step begins at the end of the previous step or of the pause after it.
    begin = case["steps/begin_seconds"][done]
    end = begin + case["ranks/rank_seconds"][done, 0]
    f.demand(np.allclose(begin[1:], end[:-1] + case["steps/pause_seconds"][done][1:], rtol=ROUNDING, atol=CLOCK),
             "begin_seconds are not where the steps before them ended")
    f.demand((end <= case["results/total_seconds"]).all(), "begin_seconds of a step are after the case")
    loaded = {name: int(case["checkpoints/" + name]) for name in ("loaded_step", "rate_warmup", "rate_steps")}
    rule = {**s, "learning_rate_warmup": loaded["rate_warmup"]} if loaded["loaded_step"] else s
    last = (loaded["rate_steps"] if loaded["loaded_step"] else case.planned) - 1
    rates = [formulas.learning_rate(rule, loaded["loaded_step"] + t, last) for t in range(total)]
    f.same("learning_rates", case["steps/learning_rates"][done], rates[done], COSINE)


def check_checkpoints(case, f):
    """Requires bytes for each save, parts that take no longer than the save, and pauses only after a save."""
    saved = {name.split("/")[1]: case[name] for name in case.values if name.startswith("checkpoints/")}
    parts = np.nan_to_num([saved["sync_seconds"], saved["write_seconds"], saved["seconds"]])
    f.demand((np.diff(parts) >= 0).all() or saved["failed"], "the parts of a save took longer than it")
    f.demand((saved["bytes"] > 0) == (saved["saves"] > 0) or saved["failed"], "a save has no bytes, or bytes no save")
    every, done = case.settings["checkpoint_every"], case["results/completed"]
    paused = np.flatnonzero(case["steps/pause_seconds"][:done] > 0)
    f.demand(not paused.size or (every and not (paused % every).any()), "a step pauses that follows no save")


def check_experts(case, f):
    """Bounds: an expert's load is at most all tokens, so the balance loss of a layer is at most E coefficient / k."""
    family, s, done = formulas.family(case.settings), case.settings, slice(0, case["results/completed"])
    balance, dropped, least, most, _ = routed = [case[f"steps/{name}"][done] for name in ROUTED]
    if s["experts"] == 0:
        f.demand(np.isnan(routed).all(), f"{', '.join(ROUTED)} are numbers, but there are no experts")
        return
    choices = s["layers"] * s["sequence"] * s["global_batch"] * family.active
    mean = choices / s["layers"] / s["experts"]
    f.demand(((0 <= dropped) & (dropped <= choices)).all(), f"choices_dropped is not among {choices} choices")
    f.demand(s["capacity"] != "none" or not dropped.any(), "choices were dropped without a capacity")
    f.demand(((least <= mean) & (mean <= most)).all(), f"expert_loads do not lie about their mean {mean}")
    most_balance = s["layers"] * s["experts"] * family.balance / family.active
    f.demand(((0 <= balance) & (balance <= most_balance)).all(), f"balance_losses are above {most_balance}")


def check_fp8(case, f):
    """Requires fractions between 0 and 1, and scales that are powers of two unless the deck asks for exact ones. The
    recorded extremes are those of all tensors of a kind in the timed steps. Every third tensor is of the same kind."""
    values = {name: case[f"fp8/{name}"] for name in FP8}
    kinds = 3 if case.settings["precision"] == "fp8" else 0
    for name, found in values.items():
        f.demand(found.shape == (kinds,), f"fp8/{name} holds {found.size} numbers, not {kinds}")
    for name in FP8[:2]:
        f.demand(((0 <= values[name]) & (values[name] <= 1)).all(), f"fp8/{name} is not a part of the values")
    least, most = values["scale_least"], values["scale_most"]
    if kinds:
        timed = case["fp8_tensors/scales"][case.settings["warmup"]:].reshape(-1, kinds)
        f.demand((least == timed.min(axis=0)).all(), "fp8/scale_least is not the least of fp8_tensors/scales")
        f.demand((most == timed.max(axis=0)).all(), "fp8/scale_most is not the largest of fp8_tensors/scales")
    f.demand(((0 < least) & (least <= most) & np.isfinite(most)).all(), "fp8/scale_least to scale_most is not a range")
    whole = case.settings["fp8_scale"] == "exact" or not (np.frexp([least, most])[0] != 0.5).any()
    f.demand(whole, "fp8/scale_least or scale_most is not a power of two")


def check_speed(case, f):
    exact = ("minimum_seconds", "maximum_seconds")
    rounding = ROUNDING + len(case.measured) * 2.0**-53     # a sum; each addition is off by 2^-53
    s, device = case.settings, case["results/device"]
    f.demand((s["backend"] == "host") == (device == "host"), f"backend {s['backend']} on the device {device!r}")
    for name, value in asdict(formulas.speed(s, device, case.measured)).items():
        f.same(name, case["results/" + name], value, EXACT if name in exact else rounding)
    _, source = formulas.peak_of(s, device)
    f.demand(case["results/peak_source"] == source, f"peak_source is {case['results/peak_source']!r}, not {source!r}")
    f.demand(not case["results/model_mfu"] > 1, "model_mfu is above 1: faster than the device can compute")
    # Sums per rank: the slowest ranks of all steps together may take longer than any single rank.
    spent = float(np.nansum(case["ranks/rank_seconds"], axis=0).max())
    f.demand(case["results/total_seconds"] >= spent * (1 - ROUNDING), "total_seconds is less than the steps took")


def against_fault(case):
    """Yields reasons against PASSED: the same fault must strike the check and the timed steps."""
    if case["results/faults"] == 0:
        yield "its fault never struck"
    if case.settings["check"] == "off":
        yield "a fault is planted and its check is off"
    if case.flag(CHECK + "/done") and case[CHECK + "/struck"] != case["results/struck"]:
        struck, elsewhere = case[CHECK + "/struck"] or "nothing", case["results/struck"] or "nothing"
        yield f"its fault struck {struck} in the check, but {elsewhere} in the timed steps"


def against_passed(case):
    """Yields the facts that contradict PASSED."""
    yield from (f"it has the reason {reason!r}" for reason in case["results/fail_reasons"])
    if case["results/completed"] < max(case.total, case.planned):
        yield f"only {case['results/completed']} of {case.planned} steps finished"
    yield from (f"its {name} are not finite" for name in rules.not_finite(case))
    if case["results/hazards"] > 0:
        yield f"it has {case['results/hazards']} hazards: {case['results/hazard']}"
    if case.settings["check"] != "off" and not case.flag(CHECK + "/passed"):
        yield f"its check did not pass: residual {case[CHECK + '/residual']:.4g} {case[CHECK + '/difference']}"
    if case["results/shadowed_mismatches"] > 0:
        yield f"{case['results/shadowed_mismatches']} of its operations differ from the host's"
    for name, what in (("conserved_mismatches", "totals that a sum changed"),
                       ("replica_mismatches", "unequal weights")):
        if case["results/" + name] > 0:
            yield f"it has {case['results/' + name]} {what}"
    if case.settings["fault"] != "none":
        yield from against_fault(case)


def check_verdict(case, provenance, f):
    verdict, validity = case.settings["verdict"], case.settings["validity"]
    f.demand(case.flag("results/passed") == (verdict == "PASSED"), f"verdict {verdict} contradicts results/passed")
    f.demand(case.flag("results/valid") == (validity == "VALID"), f"{validity} contradicts results/valid")
    f.demand(case.settings["fault"] != "none" or case["results/faults"] == 0, "a fault struck, but none is planted")
    for kind in ("fail", "invalid"):
        named, last = case[f"results/{kind}_ranks"], case.settings["world_ranks"] - 1
        f.demand(all(-1 <= rank <= last for rank in named), f"{kind}_ranks has a rank that is not among -1 to {last}")
    if verdict == "PASSED":
        for reason in against_passed(case):
            f.add(f"recorded PASSED, but {reason}")
    elif verdict == "INTERRUPTED":
        for reason in case["results/fail_reasons"]:
            f.add(f"recorded INTERRUPTED, but it has the reason {reason!r}")
    else:
        f.add(f"recorded {verdict}: " + ("; ".join(case["results/fail_reasons"]) or "without a reason"))
    rules.check_rules(case, provenance, f)


def check_recovered(case, f):
    """Checks a case from a journal: its steps by the clock of rank 0."""
    s, steps = case.settings, case["steps/step"]
    f.demand(np.array_equal(steps, np.arange(len(steps))), "steps/step does not count the steps from 0")
    f.same("completed", case["results/completed"], len(steps))
    f.demand(len(steps) <= case.total, f"{len(steps)} steps of {case.total}")
    f.demand((case["steps/step_seconds"] > 0).all(), "a step took no time")
    rates = [formulas.learning_rate(s, t, case.planned - 1) for t in range(len(steps))]
    f.same("learning_rates", case["steps/learning_rates"], rates, COSINE)
    f.demand(s["validity"] == "NOT VALID", f"{s['validity']}, but its run was interrupted")


def checks_of(case):
    """Returns the checks of a case. A stopped case has fewer numbers. A case from a journal has only steps."""
    if case.recovered:
        return (check_settings, check_recovered)
    every = (check_settings, *schema.CHECKS, check_steps, check_checkpoints, check_experts, *outcome.OF_CASE,
             slow.check_ranks, slow.check_slow_steps, witness.check_samples)
    timed = len(case.measured) > 0
    if case.interrupted:
        return (*every, *machine.STOPPED, check_fp8, check_speed) if timed else every
    return (*every, *machine.CHECKS, check_fp8, check_speed)


def attempt(check, f, *arguments):
    """Returns what the check returns. Missing values or wrong types become a finding, and the function returns None."""
    try:
        return check(*arguments, f)
    except formulas.NoFormula as error:
        f.add(str(error))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration, ArithmeticError) as error:
        f.add(f"{check.__name__} cannot be made: {type(error).__name__} {error}")
    return None


def check_case(case, record, f):
    """Makes every check of a case that ran."""
    for check in checks_of(case):
        attempt(check, f, case)
    if not case.recovered:
        for check in (*outcome.OF_WHERE, check_verdict):
            attempt(check, f, case, record.provenance)
        attempt(accept.check_repeats, f, case, record)
        attempt(reference.check_comparable, f, case)


def missing(record):
    """Describes what an interrupted run did not reach; empty if the run finished."""
    words = [f"case {case.settings['case']} was interrupted after {case.progress}"
             for case in record.cases if case.interrupted]
    planned = record.root.get("cases_planned", 0)
    if planned > len(record.cases):
        words.append(f"{len(record.cases)} of {planned} cases: the run ended early")
    return words


def check_root(record, f):
    """Checks the counts of verdicts, and what a viewer shows first."""
    for word in ("passed", "failed", "skipped", "interrupted"):
        count = sum(case.settings.get("verdict") == word.upper() for case in record.cases)
        f.same(f"number of cases {word}", record.root.get(word, 0 if word == "interrupted" else None), count)
    names = [case.name for case in record.cases]
    f.demand(names == [f"case_{n:04d}" for n in range(1, len(names) + 1)],
             f"the cases are {' '.join(names)}, not the first {len(names)}")
    ran = [case for case in record.cases if case.ran]
    f.demand(ran, "no case ran: nothing to validate")
    f.demand("recovered" in record.root or not ran or record.root.get("default") == ran[0].name,
             f"the record shows {record.root.get('default')}, {ran[0].name if ran else 'nothing'} ran first")
    f.demand(record.root.get("NX_class") == "NXroot", "the root is not NXroot")
    for case in record.cases:
        skipped = case.settings.get("verdict") == "SKIPPED"
        f.demand(skipped != case.ran, f"{case.name} is {case.settings.get('verdict')} "
                 + ("with" if case.ran else "without") + " results")


def check_all(record):
    """Returns findings about the whole file, and about each case by name. Checks only settings of skipped cases."""
    whole, of_case = Findings(), {case.name: Findings() for case in record.cases}
    for check in (check_root, origin.check):
        attempt(check, whole, record)
    for case in record.cases:
        f = of_case[case.name]
        attempt(schema.check_attributes, f, case)
        if case.ran:
            attempt(check_case, f, case, record)
        # The acceptance always uses the program's own table.
        attempt(accept.check_acceptance, f, case, reference.read_cells(reference.CELLS))
    return whole, of_case


def contradictions(record):
    """Returns findings about the whole record and, by name, about its cases, without those that repeat a verdict."""
    whole, of_case = check_all(record)
    told = {case.name: f"recorded {case.settings.get('verdict')}: " for case in record.cases}
    return whole.sentences, {name: [sentence for sentence in f.sentences if not sentence.startswith(told[name])]
                             for name, f in of_case.items()}
