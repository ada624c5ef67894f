"""The recipes' metrics, from settings and step times alone, by the published formulas; no recorded result comes in."""

import math
from dataclasses import dataclass

import numpy as np

# Dense peaks in flop/s of BF16, by what the name of a whole device begins with: the first that match. Nothing is known
# of a host's.
PEAKS = (
    ("H100 PCIe", 756.5e12),
    ("H100 NVL", 835.5e12),
    ("H200 NVL", 835.5e12),
    ("H100", 989e12),
    ("H200", 989e12),
    ("GH200", 989e12),
    ("A100", 312e12),
)

# Families whose flops are counted by the Llama formula.
LLAMA = ("llama2", "llama3.1")


class NoFormula(Exception):
    """A workload whose flops this program cannot count."""


def flops_per_sequence(shape, attended):
    """Training flops (6 per weight and token) of one sequence; attended: positions that a token attends to."""
    if not shape["workload"].rsplit("-", 1)[0] in LLAMA:
        raise NoFormula(f"no flop formula for {shape['workload']}")
    layers, hidden, sequence = shape["layers"], shape["hidden"], shape["sequence"]
    projections = 12 * hidden * hidden * (1 + shape["kv_heads"] / shape["heads"])
    attention = 12 * hidden * attended
    mlp = 18 * shape["ffn"] * hidden
    head = 6 * shape["vocabulary"] * hidden
    return sequence * (layers * (projections + attention + mlp) + head)


def recipe_flops(shape):
    """The recipe's own: the full square of attention."""
    return flops_per_sequence(shape, shape["sequence"])


def model_flops(shape):
    """Comparable between families: half the square, as causal attention needs."""
    return flops_per_sequence(shape, shape["sequence"] / 2)


@dataclass
class Speed:
    """The report's numbers; not-a-number where there is nothing to say."""

    median_seconds: float
    minimum_seconds: float
    maximum_seconds: float
    recipe_seconds: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    tflops_per_gpu: float
    recipe_mfu: float
    model_mfu: float
    days_per_trillion_tokens: float


def peak_of(device, precision):
    """Of the device of that name; not-a-number where none is known."""
    name = device[len("NVIDIA ") :] if device.startswith("NVIDIA ") else device
    known = [peak for words, peak in PEAKS if name.startswith(words) and " MIG " not in name]
    return known[0] if known and precision == "bf16" else math.nan


def speed(shape, device, seconds):
    """From the measured steps' times. The recipe's rule of the Llama recipes is the last step."""
    if len(seconds) == 0:
        return Speed(*[math.nan] * 10)
    median = float(np.median(seconds))
    ranks, batch = shape["ranks"], shape["global_batch"]
    tokens = batch * shape["sequence"] / median
    recipe = batch * recipe_flops(shape) / median / ranks
    model = batch * model_flops(shape) / median / ranks
    peak = peak_of(device, shape["precision"])
    days = math.nan if shape["proxy"] else 1e12 / tokens / 86400
    return Speed(
        median,
        float(min(seconds)),
        float(max(seconds)),
        float(seconds[-1]),
        tokens,
        tokens / ranks,
        recipe / 1e12,
        recipe / peak,
        model / peak,
        days,
    )


def learning_rate(rule, step, last):
    """Linear warm-up, then a cosine that ends at the last step of the run."""
    warmup, highest, lowest = rule["learning_rate_warmup"], rule["learning_rate"], rule["learning_rate_minimum"]
    if step < warmup and rule["learning_rate_from_zero"]:
        return highest * step / warmup
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    if rule["learning_rate_constant"] or last <= warmup:
        return highest
    part = (step - warmup) / (last - warmup)
    return lowest + 0.5 * (highest - lowest) * (1 + math.cos(math.pi * part))


def padded_vocabulary(shape):
    multiple = 128 * shape["tensor"]
    return -(-shape["vocabulary"] // multiple) * multiple
