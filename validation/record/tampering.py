"""Ways to spoil a record in memory, each with a word that validate.py must then print."""

import ast
import re
from dataclasses import replace

import numpy as np

# CHANGES | WORD, with changes separated by semicolons. A change: [CASE:]PATH[INDEX] OPERATOR VALUE, in case 2 unless it
# says another one. A path without a group is a setting. Operators: = sets, * multiplies, + adds, del removes, units
# removes the units, keep drops samples. Names in braces stand for a row each; @ is the name.
ROWS = """
results/{mean_seconds median_seconds p95_seconds minimum_seconds maximum_seconds recipe_seconds} * 1.000000001 | @
results/{tokens_per_second tokens_per_second_per_gpu tflops_per_gpu recipe_mfu model_mfu} * 1.000000001 | @
results/{days_per_trillion_tokens energy} * 1.000000001 | @
1:results/{recipe_mfu model_mfu days_per_trillion_tokens} = 0.5 | @
results/device = "NVIDIA H100 PCIe" | recipe_mfu
results/{total_seconds completed hazards slow_steps tokens_per_step} = 1 | @
results/slow_step_names = "9" | named are
results/faults = 1 | none is planted
results/{passed valid} = False | contradicts
results/fail_reasons = ["it smelt"] | it smelt
results/invalid_reasons = ["too hot"] | too hot
results/fail_ranks = np.array([4096]) | fail_ranks has a rank
results/arena_bytes = 1 | arena_bytes
results/shadowed_mismatches = 1 | differ from the host's
steps/step_seconds[5] * 1.000000001 | step_seconds
steps/step_seconds[0] * 1.000000001 | step_seconds
ranks/rank_seconds[4,3] * 1.1 | step_seconds
steps/losses[3] = np.nan | losses are not finite
steps/gradient_norms[3] = np.inf | gradient_norms are not finite
steps/learning_rates[2] * 1.0001 | learning_rate
steps/step[1] = 7 | step
{layers hidden ffn kv_heads vocabulary} + 1 | flops
{heads head_dim} + 1 | hidden
{padded_vocabulary metric_steps} + 1 | @
{tensor context shard data pipeline ranks} + 1 | ranks
{microbatch microbatches global_batch} + 1 | global_batch
{warmup steps} + 1 | step
sequence + 1 | tokens
learning_rate_warmup + 1 | learning_rate
learning_rate = 4e-4 | learning_rate
precision = "fp32" | recipe_mfu
backend = "host" | on the device
workload = "other-8b" | formula
verdict = "FAILED" | FAILED
validity = "NOT VALID" | contradicts
check = "off" | VALID, but
fault = "drop adamw 1 0" | never struck
proxy = True | days_per_trillion_tokens
{recipe_flops_per_sequence model_flops_per_sequence} = 4.8e14 | @
steps/choices_dropped[3] = 1.0 | no experts
6:steps/choices_dropped[3] = -1.0 | choices_dropped
6:capacity = "none" | without a capacity
6:steps/expert_loads_most[3] = 500.0 | expert_loads
6:steps/balance_losses[3] = 1.0 | balance_losses
6:recipe_flops_per_sequence = 1e12 | flops
6:results/recipe_seconds * 1.000000001 | recipe_seconds
7:results/{recipe_ceiling model_ceiling recipe_reached model_reached recipe_mfu} * 1.000000001 | @
results/recipe_ceiling = 0.9 | recipe_ceiling
7:recipe_block_flops_per_sequence = 3e14 | recipe_block_flops_per_sequence
7:fp8/underflowed[0] = 1.5 | fp8/underflowed is not a part
7:fp8/saturated[2] = np.nan | fp8/saturated is not a part
7:fp8/scale_least[1] = 0.0 | not a range
7:fp8/scale_most[1] = 0.5 | not a range
7:fp8/scale_most[2] = 3e6 | not a power of two
7:fp8_tensors/scales[8,3] = 0.25 | of fp8_tensors/scales
7:fp8_tensors/scales[8,3] = 2.0**40 | of fp8_tensors/scales
7:precision = "bf16" | fp8/scale_least holds 3 numbers
check_model/residual = 1.0 | check_model/residual
check_model/weights = 2.0 | check_model/residual
check_model/residual = 17.0 | check_model/passed
check_model/done = False | check_model/passed
check_model/differences = 1 | 1 differences
fault = "drop adamw 1 0"; results/faults = 1; results/struck = "a" | struck nothing in the check, but a in
fault = "drop adamw 1 0"; results/faults = 1; check = "off" | planted and its check is off
results/{spread drift} * 1.01 | @ is
share_devices = "yes" | VALID, but share_devices is yes
4:results/invalid_rules = ["spread"] | no reason says
recipe_gpus = 0 | comparable, but its layout is not a cell's
1:results/comparable = True | comparable, but backend host
4:peak_bf16 = "500" | recipe_mfu
1:samples keep rank < 0 | 0 ranks have samples, one every
samples keep rank < 0; results/energy = np.nan; results/energy_method = "" | 0 ranks have samples, one every
samples keep rank != 3 | is known, and ranks have no
samples keep number < 2 | end before their steps
samples/clock_events[5] = 0x40 | rank 1 was throttled in a sample
samples/device_energy[2] * 1.1 | energy is
samples/device_energy[1] = -1.0 | counts down
results/{mean_power energy_per_step} * 1.001 | @ is
1:rank_sums/rank[3] = 9 | rank_sums/rank
1:rank_sums/axis = ["x"] * 9 | axes of rank_sums
1:rank_sums/{idle_seconds dispatch_seconds}[0] = 9 | @ of rank 0
1:rank_sums/{idle_seconds dispatch_seconds}[3] = 1e3 | idle_seconds are
1:rank_sums/phase_seconds[0,3] = 9 | phase_seconds of rank 0
1:rank_sums/phase_seconds[3,3] = 9 | seconds of ranks
1:rank_sums/transfer_messages[0,5] = 0 | messages of rank 0
1:rank_sums/transfer_messages[3,5] = 0 | a pipeline
1:rank_sums/transfer_bytes[0,5] = 9 | bytes of rank 0
1:rank_sums/transfer_seconds[0,5] = 9 | transfer_seconds of
1:rank_sums/{transfer_bytes transfer_seconds}[3,1] = 9 | whole steps
steps/begin_seconds[4] = 9 | begin_seconds are not
steps/begin_seconds[12] = 1e4 | after the case
samples/seconds[0] = -1 | samples/seconds are
samples/seconds[5] = 1e4 | samples/seconds are
samples/{clock_least clock_most power_least power_most temperature_most}[5] = 9 | @ does not fit
results/begin_seconds = 9 | begin_seconds of case_0002
results/peak_flops = 9 | peak_flops
results/peak_source = "deck: peak_bf16" | peak_source
7:results/begin_seconds = 1e7 | the cases took
provenance/device_identity[2] = "GPU-0"; provenance/device_bus[2] = "00:3B.0" | device_bus
provenance/device_identity[2] = "GPU-0"; provenance/device_serial[2] = "166" | one device
provenance/device_identity[2] = "GPU-0"; provenance/device_power_limit[2] = 70 | device_power_limit
provenance/device_identity[2] = "GPU-0"; provenance/switches[2] = "s" | switches
provenance/device_identity[2] = "GPU-0"; provenance/device_clock_limit[2] = 1e9 | device_clock_limit
provenance/device_identity[2] = "GPU-0"; provenance/device_clock_limit[2] = 0 | is 0
deck = b"another deck" | SHA-256
provenance/deck_sha256 = "0" * 64 | SHA-256
provenance/debug = True | debug build
provenance/command_line = "./xgsw --json a other.dat" | name the deck
3: del | number of cases
5: del | skipped
results/recipe_mfu del | recipe_mfu
steps/step_seconds del | without results
ranks/rank_seconds del | rank_seconds
steps/losses units | no units: steps/losses
vocabulary = -5 | flops
"""
CHANGE = re.compile(r"(?:(\d):)?([\w/]*)(?:\[([\d,]+)\])? (=|\*|\+|del|units|keep) ?(.*)$")


def fork(record):
    """Returns a copy of which names may get other values."""
    cases = [replace(case, **{kind: dict(getattr(case, kind)) for kind in ("values", "units", "settings")})
             for case in record.cases]
    return replace(record, provenance=dict(record.provenance), cases=cases)


def keep_samples(case, condition):
    """Keeps the samples that satisfy a condition on rank and number (in its rank)."""
    rank = case["samples/rank"]
    kept = eval(condition, {"rank": rank, "number": np.arange(len(rank)) - np.searchsorted(rank, rank)})
    case.values.update({path: value[kept] for path, value in case.values.items() if path.startswith("samples/")})


def put(names, path, index, operator, value):
    """Changes a value by its name, or one element of it."""
    old = whole = names[path]
    if index:
        whole, index = whole.copy(), ast.literal_eval(f"({index})")
        old = whole[index]
    new = value if operator == "=" else old * value if operator == "*" else old + value
    if index is not None:
        whole[index] = new
    names[path] = new if index is None else whole


def change(record, text):
    number, path, index, operator, value = CHANGE.match(text).groups()
    case = next(case for case in record.cases if case.settings["case"] == int(number or 2))
    group = path.split("/")[0]
    names = record.provenance if group == "provenance" else case.values if "/" in path else case.settings
    if not path:
        record.cases.remove(case)
    elif operator == "keep":
        keep_samples(case, value)
    elif operator in ("del", "units"):
        del (names if operator == "del" else case.units)[path]
    elif path == "deck":
        record.deck = ast.literal_eval(value)
    else:
        put(names, path.split("/", 1)[1] if group == "provenance" else path, index, operator, eval(value, {"np": np}))


def everything():
    """Yields changes of a sound record and the word that their finding must contain."""
    for line in ROWS.strip("\n").split("\n"):
        changes, word = line.split(" | ")
        names = re.search(r"{(.*)}", changes)
        for name in names[1].split() if names else [""]:
            yield changes.replace(names[0], name) if names else changes, word.replace("@", name)


def spoilt(record, changes):
    copy = fork(record)
    for text in changes.split("; "):
        change(copy, text)
    return copy
