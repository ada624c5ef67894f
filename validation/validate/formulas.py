"""Computes the recipes' metrics from settings and step times by the published formulas. Uses no recorded result."""

import math
from dataclasses import dataclass, fields, make_dataclass

import numpy as np

from validate import devices


@dataclass(frozen=True)
class Family:
    """What a recipe fixes: its model, how it counts flops, and its rule for the time of a step."""

    matrices: int                       # in an MLP
    active: int = 1                     # MLPs that process a token
    balance: float = 0.0                # coefficient of the balance loss of experts
    multi_head: bool = False            # the recipe counts K and V as wide as Q
    causal: bool = False                # the recipe counts half of the attention square
    vocabulary_multiple: int = 1        # the recipe pads the vocabulary to this
    metric_steps: int = 1               # the recipe's step time is the mean of this many last steps
    metric_skips: int = 0               # or of all but this many first steps


FAMILIES = {
    "llama2": Family(3),
    "llama3.1": Family(3),
    "nemotron4": Family(2, multi_head=True),
    "grok1": Family(3, active=2, balance=0.01, causal=True, metric_steps=5),
    "gpt3": Family(2, vocabulary_multiple=1024, metric_skips=7),
}


class NoFormula(Exception):
    """This program has no flop formula for the workload."""


def family(shape):
    name = shape["workload"].rsplit("-", 1)[0]
    if name not in FAMILIES:
        raise NoFormula(f"no flop formula for {shape['workload']}")
    return FAMILIES[name]


def padded(size, multiple):
    return -(-size // multiple) * multiple


@dataclass(frozen=True)
class Flops:
    """Flops of one training sequence (6 per weight and token)."""

    blocks: float                       # matrix products of the blocks, which may be in FP8
    rest: float                         # attention and LM head

    @property
    def whole(self):
        return self.blocks + self.rest

    def ceiling(self, peaks):
        """Returns the largest MFU if blocks run at the FP8 peak and the rest at the BF16 peak."""
        bf16, fp8 = peaks
        return self.whole / fp8 / (self.blocks / fp8 + self.rest / bf16)


def flops_per_sequence(shape, key_value, attended, vocabulary):
    """key_value: width of K over that of Q. attended: number of positions that a token attends to."""
    layers, hidden, sequence = shape["layers"], shape["hidden"], shape["sequence"]
    projections = 12 * hidden * hidden * (1 + key_value)
    attention = 12 * hidden * attended
    mlp = 6 * family(shape).active * family(shape).matrices * shape["ffn"] * hidden
    return Flops(sequence * layers * (projections + mlp), sequence * (layers * attention + 6 * vocabulary * hidden))


def recipe_flops(shape):
    """Returns the flops as the recipe counts them."""
    f = family(shape)
    key_value = 1 if f.multi_head else shape["kv_heads"] / shape["heads"]
    attended = shape["sequence"] / (2 if f.causal else 1)
    return flops_per_sequence(shape, key_value, attended, padded(shape["vocabulary"], f.vocabulary_multiple))


def model_flops(shape):
    """Returns flops that are comparable between families: causal attention (half the square), and no padding."""
    key_value = shape["kv_heads"] / shape["heads"]
    return flops_per_sequence(shape, key_value, shape["sequence"] / 2, shape["vocabulary"])


# The numbers of the report; NaN if unknown.
Speed = make_dataclass("Speed", """mean_seconds median_seconds p95_seconds minimum_seconds maximum_seconds
    recipe_seconds tokens_per_second tokens_per_second_per_gpu tflops_per_gpu peak_flops recipe_mfu model_mfu
    recipe_ceiling model_ceiling recipe_reached model_reached days_per_trillion_tokens""".split())


def given(shape, key):
    return math.nan if shape[key] == "none" else float(shape[key]) * 1e12


def peaks_of(shape, device):
    """Returns the BF16 and FP8 peaks of the device, or those in the deck if it has none. NaN if neither has one."""
    deck = [given(shape, key) if device else math.nan for key in ("peak_bf16", "peak_fp8")]
    return [own if math.isnan(peak) else peak for peak, own in zip(devices.peaks(device), deck)]


def peak_of(shape, device):
    """Returns the peak in the case's precision, and its source."""
    def of(given_peaks):
        return dict(zip(("bf16", "fp8"), peaks_of({**shape, **given_peaks}, device))).get(shape["precision"], math.nan)
    published, known = of({"peak_bf16": "none", "peak_fp8": "none"}), of({})
    source = "" if math.isnan(known) else f"deck: peak_{shape['precision']}"
    return known, source if math.isnan(published) else f"catalogue: {device}"


def speed(shape, device, seconds):
    """Computes the report's numbers from the times of the measured steps."""
    if len(seconds) == 0:
        return Speed(*[math.nan] * len(fields(Speed)))
    mean = float(np.mean(seconds))
    ranks, batch, precision = shape["ranks"], shape["copies"] * shape["global_batch"], shape["precision"]
    tokens = batch * shape["sequence"] / mean
    recipe, model = (batch * flops(shape).whole / mean / ranks for flops in (recipe_flops, model_flops))
    peaks = peaks_of(shape, device)
    peak, _ = peak_of(shape, device)
    ceilings = [f(shape).ceiling(peaks) if precision == "fp8" else math.nan for f in (recipe_flops, model_flops)]
    days = math.nan if shape["proxy"] else 1e12 / (tokens / shape["copies"]) / 86400
    return Speed(mean, float(np.median(seconds)), float(np.percentile(seconds, 95)), float(min(seconds)),
                 float(max(seconds)), float(np.mean(seconds[-metric_steps(shape) :])), tokens, tokens / ranks,
                 recipe / 1e12, peak, recipe / peak, model / peak, *ceilings, recipe / peak / ceilings[0],
                 model / peak / ceilings[1], days)


def learning_rate(rule, step, last):
    """Returns the rate of a step: linear warm-up, then a cosine down to the last step of the run."""
    warmup, highest, lowest = rule["learning_rate_warmup"], rule["learning_rate"], rule["learning_rate_minimum"]
    if step < warmup and rule["learning_rate_from_zero"]:
        return highest * step / warmup
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    if rule["learning_rate_constant"] or last <= warmup:
        return highest
    part = min(1, (step - warmup) / (last - warmup))    # a soak runs beyond `last`
    return lowest + 0.5 * (highest - lowest) * (1 + math.cos(math.pi * part))


def metric_steps(shape):
    """Returns how many last steps have the recipe's step time as their mean."""
    skips = family(shape).metric_skips
    return max(1, shape["warmup"] + shape["steps"] - skips) if skips else family(shape).metric_steps


def padded_vocabulary(shape):
    return padded(shape["vocabulary"], 128 * shape["tensor"])
