"""Ways to spoil an open record, each with a word that validate.py must then print."""

CASE = "case_0002"
EXPERTS = "case_0006"
FP8 = "case_0007"
LAST = CASE + "/steps/learning_rates"


def scale(path, factor=1 + 1e-9, index=()):
    """Changes a number in its tenth digit."""

    def apply(file):
        file[path][index] = file[path][index] * factor

    return apply


def put(path, value, index=()):
    def apply(file):
        file[path][index] = value

    return apply


def setting(name, value, case=CASE):
    def apply(file):
        file[case].attrs[name] = value

    return apply


def drop(path):
    def apply(file):
        del file[path]

    return apply


def drop_units(path):
    def apply(file):
        del file[path].attrs["units"]

    return apply


def all_of(*changes):
    def apply(file):
        for change in changes:
            change(file)

    return apply


def put_only(path, entry):
    def apply(file):
        del file[path]
        file[path] = [entry]

    return apply


REAL_RESULTS = """mean_seconds median_seconds p95_seconds minimum_seconds maximum_seconds recipe_seconds
    tokens_per_second tokens_per_second_per_gpu tflops_per_gpu recipe_mfu model_mfu days_per_trillion_tokens""".split()
# Word that validate.py prints -> the settings for which it prints it.
INTEGER_SETTINGS = {
    "flops": "layers hidden ffn kv_heads vocabulary", "hidden": "heads head_dim", "tokens": "sequence",
    "padded_vocabulary": "padded_vocabulary", "ranks": "tensor context shard data pipeline ranks",
    "global_batch": "microbatch microbatches global_batch", "step": "warmup steps",
    "learning_rate": "learning_rate_warmup", "metric_steps": "metric_steps",
}
WORD_SETTINGS = {
    "precision": ("fp32", "recipe_mfu"),
    "backend": ("host", "on the device"),
    "workload": ("other-8b", "formula"),
    "verdict": ("FAILED", "FAILED"),
    "validity": ("NOT VALID", "contradicts"),
    "check": ("off", "VALID, but"),
    "fault": ("drop adamw 1 0", "never struck"),
}


def of_results():
    for name in REAL_RESULTS:
        yield name, scale(f"{CASE}/results/{name}"), name
    for name in ("recipe_mfu", "model_mfu", "days_per_trillion_tokens"):
        yield name + " where there is none", put(f"case_0001/results/{name}", 0.5), name
    yield "a faster device", put(f"{CASE}/results/device", "NVIDIA H100 PCIe"), "recipe_mfu"
    yield "total_seconds", put(f"{CASE}/results/total_seconds", 10.0), "total_seconds"
    yield "completed", put(f"{CASE}/results/completed", 8), "completed"
    yield "slow steps", put(f"{CASE}/results/slow_steps", 1), "slow_steps"
    yield "their names", put(f"{CASE}/results/slow_step_names", "9"), "named are"
    yield "hazards", put(f"{CASE}/results/hazards", 1), "hazards"
    yield "faults", put(f"{CASE}/results/faults", 1), "none is planted"
    yield "passed", put(f"{CASE}/results/passed", False), "contradicts"
    yield "valid", put(f"{CASE}/results/valid", False), "contradicts"
    yield "a fail reason", put_only(f"{CASE}/results/fail_reasons", b"it smelt"), "it smelt"
    yield "an invalid reason", put_only(f"{CASE}/results/invalid_reasons", b"too hot"), "too hot"
    yield "a rank that there is not", put_only(f"{CASE}/results/fail_ranks", 4096), "fail_ranks has a rank"


def of_steps():
    yield "one step's time", scale(f"{CASE}/steps/step_seconds", index=5), "step_seconds"
    yield "one warm-up step's time", scale(f"{CASE}/steps/step_seconds", index=0), "step_seconds"
    yield "one rank's time", scale(f"{CASE}/ranks/rank_seconds", 1.1, (4, 3)), "step_seconds"
    yield "a loss that is no number", put(f"{CASE}/steps/losses", float("nan"), 3), "losses are not finite"
    yield ("a norm that is infinite", put(f"{CASE}/steps/gradient_norms", float("inf"), 3),
           "gradient_norms are not finite")
    yield "a learning rate", scale(LAST, 1.0001, 2), "learning_rate"
    yield "tokens", put(f"{CASE}/results/tokens_per_step", 1), "tokens_per_step"
    yield "a step's number", put(f"{CASE}/steps/step", 7, 1), "step"


def of_settings():
    for word, name in ((word, name) for word, names in INTEGER_SETTINGS.items() for name in names.split()):
        yield "setting " + name, lambda file, n=name: setting(n, file[CASE].attrs[n] + 1)(file), word
    for name, (value, word) in WORD_SETTINGS.items():
        yield "setting " + name, setting(name, value), word
    yield "setting proxy", setting("proxy", True), "days_per_trillion_tokens"
    yield "recipe flops", setting("recipe_flops_per_sequence", 4.8e14), "recipe_flops_per_sequence"
    yield "model flops", setting("model_flops_per_sequence", 4.8e14), "model_flops_per_sequence"
    yield "setting learning_rate", setting("learning_rate", 4e-4), "learning_rate"


def of_experts():
    yield "dropped choices without experts", put(f"{CASE}/steps/choices_dropped", 1.0, 3), "no experts"
    yield "dropped choices", put(f"{EXPERTS}/steps/choices_dropped", -1.0, 3), "choices_dropped"
    yield "dropped choices without a capacity", setting("capacity", "none", EXPERTS), "without a capacity"
    yield "loads of experts", put(f"{EXPERTS}/steps/expert_loads_most", 500.0, 3), "expert_loads"
    yield "a balance loss", put(f"{EXPERTS}/steps/balance_losses", 1.0, 3), "balance_losses"
    yield "flops of experts", setting("recipe_flops_per_sequence", 1e12, EXPERTS), "flops"
    yield "a mean of five steps", scale(f"{EXPERTS}/results/recipe_seconds"), "recipe_seconds"


def of_fp8():
    for name in ("recipe_ceiling", "model_ceiling", "recipe_reached", "model_reached", "recipe_mfu"):
        yield name + " of FP8", scale(f"{FP8}/results/{name}"), name
    yield "a ceiling of BF16", put(f"{CASE}/results/recipe_ceiling", 0.9), "recipe_ceiling"
    yield "flops of blocks", setting("recipe_block_flops_per_sequence", 3e14, FP8), "recipe_block_flops_per_sequence"
    yield "a part above the whole", put(f"{FP8}/fp8/underflowed", 1.5, 0), "fp8/underflowed is not a part"
    yield "a part that is no number", put(f"{FP8}/fp8/saturated", float("nan"), 2), "fp8/saturated is not a part"
    yield "a scale of zero", put(f"{FP8}/fp8/scale_least", 0.0, 1), "not a range"
    yield "scales in no order", put(f"{FP8}/fp8/scale_most", 0.5, 1), "not a range"
    yield "a scale that is not a power of two", put(f"{FP8}/fp8/scale_most", 3e6, 2), "not a power of two"
    for name, value in ("below the least", 0.25), ("above the largest", 2.0**40):
        yield f"a tensor's scale {name}", put(f"{FP8}/fp8_tensors/scales", value, (8, 3)), "of fp8_tensors/scales"
    yield "FP8 in a case of BF16", setting("precision", "bf16", FP8), "fp8/scale_least holds 3 numbers"


def of_checks():
    yield "residual", put(f"{CASE}/check_model/residual", 1.0), "check_model/residual"
    yield "a residual's part", put(f"{CASE}/check_model/weights", 2.0), "check_model/residual"
    yield "a residual above its threshold", put(f"{CASE}/check_model/residual", 17.0), "check_model/passed"
    yield "a check that was not done", put(f"{CASE}/check_model/done", False), "check_model/passed"
    yield "a transfer that differs", put(f"{CASE}/check_model/differences", 1), "1 differences"
    yield "an operation that differs", put(f"{CASE}/results/shadowed_mismatches", 1), "differ from the host's"
    yield "memory", put(f"{CASE}/results/arena_bytes", 1), "arena_bytes"


def of_faults():
    planted = setting("fault", "drop adamw 1 0"), put(f"{CASE}/results/faults", 1)
    elsewhere = put(f"{CASE}/results/struck", b"a")
    yield "a fault that struck elsewhere", all_of(*planted, elsewhere), "struck nothing in the check, but a in"
    yield "a fault that nobody looked for", all_of(*planted, setting("check", "off")), "planted and its check is off"


def of_rules():
    """Changes by which a VALID record breaks a rule. record/rules.t has all rules."""
    r = CASE + "/results/"
    yield "other run rules", setting("rules", "xgsw-0"), "judged by the run rules xgsw-0"
    yield "no run rules", lambda file: file[CASE].attrs.__delitem__("rules"), "the run rules without a version"
    yield "spread", scale(r + "spread", 1.01), "spread is"
    yield "drift", scale(r + "drift", 1.01), "drift is"
    yield "a key for developers", setting("share_devices", "yes"), "VALID, but share_devices is yes"
    yield "a reason of nothing", put("case_0004/results/invalid_rules", b"spread", 0), "no reason says"
    yield "a comparison", setting("recipe_gpus", 0), "comparable, but its layout is not a cell's"
    yield "comparable on the host", put("case_0001/results/comparable", True), "comparable, but backend host"
    yield "a peak of the deck", setting("peak_bf16", "500", "case_0004"), "recipe_mfu"


def cut_samples(case, keep):
    """Keeps the samples for which keep(rank, number in the rank) is true."""

    def apply(file):
        group = file[case]["samples"]
        ranks = list(group["rank"][()])
        kept = [i for i, rank in enumerate(ranks) if keep(rank, i - ranks.index(rank))]
        for name in list(group):
            values, units = group[name][()], dict(group[name].attrs)
            del group[name]
            group.create_dataset(name, data=values[kept]).attrs.update(units)

    return apply


def of_samples():
    none = "0 ranks have samples, one every"
    yield "all samples of a host left out", cut_samples("case_0001", lambda *_: False), none
    unknown = put(f"{CASE}/results/energy", float("nan")), put(f"{CASE}/results/energy_method", b"")
    yield ("all samples of GPUs left out, and their energy", all_of(cut_samples(CASE, lambda *_: False), *unknown),
           none)
    yield "a GPU's samples left out", cut_samples(CASE, lambda rank, _: rank != 3), "is known, and ranks have no"
    yield "the last sample of a GPU left out", cut_samples(CASE, lambda _, i: i < 2), "end before their steps"


def of_witnesses():
    yield "a throttled sample", put(f"{CASE}/samples/clock_events", 0x40, 5), "rank 1 was throttled in a sample"
    yield "energy", scale(f"{CASE}/results/energy"), "energy"
    yield "energy of a sample", scale(f"{CASE}/samples/device_energy", 1.1, 2), "energy is"
    yield "a counter that counts down", put(f"{CASE}/samples/device_energy", -1.0, 1), "counts down"


def of_drawings():
    """Numbers that drawings of a run need: of rank 0, which are also elsewhere in the record, and of another rank."""
    for path, row, value, word in (
            ("rank", 3, 9, "rank_sums/rank"), ("axis", 3, b"x", "axes of rank_sums"),
            ("idle_seconds", 0, 9, "idle_seconds of rank 0"), ("idle_seconds", 3, 1e3, "idle_seconds are"),
            ("dispatch_seconds", 0, 9, "dispatch_seconds of rank 0"), ("dispatch_seconds", 3, 1e3, "idle_seconds are"),
            ("phase_seconds", (0, 3), 9, "phase_seconds of rank 0"), ("phase_seconds", (3, 3), 9, "seconds of ranks"),
            ("transfer_messages", (0, 5), 0, "messages of rank 0"), ("transfer_messages", (3, 5), 0, "a pipeline"),
            ("transfer_bytes", (0, 5), 9, "bytes of rank 0"), ("transfer_bytes", (3, 1), 9, "whole steps"),
            ("transfer_seconds", (0, 5), 9, "transfer_seconds of"), ("transfer_seconds", (3, 1), 9, "whole steps")):
        yield f"{path} {row}", put(f"case_0001/rank_sums/{path}", value, row), word
    for path, row, value, word in (
            ("steps/begin_seconds", 4, 9, "begin_seconds are not"), ("samples/seconds", 0, -1, "samples/seconds are"),
            ("steps/begin_seconds", 12, 1e4, "after the case"), ("samples/seconds", 5, 1e4, "samples/seconds are"),
            ("results/begin_seconds", (), 9, "begin_seconds of case_0002"), ("results/peak_flops", (), 9, "peak_flops"),
            ("results/peak_source", (), b"deck: peak_bf16", "peak_source"),
            *((f"samples/{name}", 5, 9, f"{name} does not fit") for name in (
                "clock_least", "clock_most", "power_least", "power_most", "temperature_most"))):
        yield path, put(f"{CASE}/{path}", value, row), word
    same = put("provenance/device_identity", b"GPU-0", 2)
    for name, value, word in (("device_bus", b"00:3B.0", "device_bus"), ("device_serial", b"166", "one device"),
                              ("device_power_limit", 70, "device_power_limit"), ("switches", b"s", "switches"),
                              ("device_clock_limit", 1e9, "device_clock_limit"), ("device_clock_limit", 0, "is 0")):
        yield name, all_of(same, put(f"provenance/{name}", value, 2)), word
    yield "the last case's begin", put(f"{FP8}/results/begin_seconds", 1e7), "the run "


def of_file():
    yield "deck", put("provenance/deck", b"another deck"), "SHA-256"
    yield "deck hash", put("provenance/deck_sha256", b"0" * 64), "SHA-256"
    yield "debug build", put("provenance/debug", True), "debug build"
    yield "a case left out", drop("case_0003"), "number of cases"
    yield "a skipped case left out", drop("case_0005"), "skipped"
    yield "results left out", drop(f"{CASE}/results/recipe_mfu"), "recipe_mfu"
    yield "steps left out", drop(f"{CASE}/steps/step_seconds"), "without results"
    yield "rank times left out", drop(f"{CASE}/ranks/rank_seconds"), "rank_seconds"
    yield "units left out", drop_units(f"{CASE}/steps/losses"), "no units: steps/losses"


def everything():
    for part in (of_results, of_steps, of_experts, of_fp8, of_settings, of_checks, of_faults, of_rules,
                 of_witnesses, of_samples, of_drawings, of_file):
        yield from part()
