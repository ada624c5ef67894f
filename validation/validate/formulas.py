"""The recipes' metrics, from settings and step times alone, by the published formulas; no recorded result comes in."""

import math
from dataclasses import dataclass

import numpy as np

# Dense peaks in flop/s of BF16 and FP8, by what the name of a whole device begins with: the first that match. Nothing
# is known of a host's.
PEAKS = (
    ("H100 PCIe", 756.5e12, 1513e12),
    ("H100 NVL", 835.5e12, 1671e12),
    ("H200 NVL", 835.5e12, 1671e12),
    ("H100", 989e12, 1979e12),
    ("H200", 989e12, 1979e12),
    ("GH200", 989e12, 1979e12),
    ("A100", 312e12, math.nan),
)


@dataclass(frozen=True)
class Family:
    """What a recipe fixes of its model, how it counts flops, and its rule of a step's time."""

    matrices: int                       # of an MLP
    active: int = 1                     # MLPs that a token passes
    balance: float = 0.0                # coefficient of the experts' balance loss
    multi_head: bool = False            # the recipe counts K and V as wide as Q
    causal: bool = False                # the recipe counts half of the attention square
    vocabulary_multiple: int = 1        # the recipe counts the vocabulary padded to it
    metric_steps: int = 1               # a step's time is the mean of so many last steps'


FAMILIES = {
    "llama2": Family(3),
    "llama3.1": Family(3),
    "nemotron4": Family(2, multi_head=True),
    "grok1": Family(3, active=2, balance=0.01, causal=True, metric_steps=5),
    "gpt3": Family(2, vocabulary_multiple=1024, metric_steps=13),
}


class NoFormula(Exception):
    """A workload whose flops this program cannot count."""


def family(shape):
    name = shape["workload"].rsplit("-", 1)[0]
    if name not in FAMILIES:
        raise NoFormula(f"no flop formula for {shape['workload']}")
    return FAMILIES[name]


def padded(size, multiple):
    return -(-size // multiple) * multiple


@dataclass(frozen=True)
class Flops:
    """Of one training sequence (6 per weight and token)."""

    blocks: float                       # the products of the blocks, which FP8 has
    rest: float                         # attention and LM head

    @property
    def whole(self):
        return self.blocks + self.rest

    def ceiling(self, peaks):
        """The largest MFU where blocks run at the FP8 peak and the rest at the BF16 peak."""
        bf16, fp8 = peaks
        return self.whole / fp8 / (self.blocks / fp8 + self.rest / bf16)


def flops_per_sequence(shape, key_value, attended, vocabulary):
    """key_value: width of K over that of Q; attended: positions that a token attends to."""
    layers, hidden, sequence = shape["layers"], shape["hidden"], shape["sequence"]
    projections = 12 * hidden * hidden * (1 + key_value)
    attention = 12 * hidden * attended
    mlp = 6 * family(shape).active * family(shape).matrices * shape["ffn"] * hidden
    return Flops(sequence * layers * (projections + mlp), sequence * (layers * attention + 6 * vocabulary * hidden))


def recipe_flops(shape):
    """As the recipe counts."""
    f = family(shape)
    key_value = 1 if f.multi_head else shape["kv_heads"] / shape["heads"]
    attended = shape["sequence"] / (2 if f.causal else 1)
    return flops_per_sequence(shape, key_value, attended, padded(shape["vocabulary"], f.vocabulary_multiple))


def model_flops(shape):
    """Comparable between families: half the square of attention, as a causal one needs; nothing padded."""
    key_value = shape["kv_heads"] / shape["heads"]
    return flops_per_sequence(shape, key_value, shape["sequence"] / 2, shape["vocabulary"])


@dataclass
class Speed:
    """The report's numbers; not-a-number where there is nothing to say."""

    mean_seconds: float
    median_seconds: float
    p95_seconds: float
    minimum_seconds: float
    maximum_seconds: float
    recipe_seconds: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    tflops_per_gpu: float
    peak_flops: float
    recipe_mfu: float
    model_mfu: float
    recipe_ceiling: float
    model_ceiling: float
    recipe_reached: float
    model_reached: float
    days_per_trillion_tokens: float


def given(shape, key):
    return math.nan if shape[key] == "none" else float(shape[key]) * 1e12


def peaks_of(shape, device):
    """BF16 and FP8, of the device of that name, or as the deck gives them; not-a-number where neither does."""
    name = device[len("NVIDIA ") :] if device.startswith("NVIDIA ") else device
    known = [peaks for words, *peaks in PEAKS if name.startswith(words) and " MIG " not in name]
    table = known[0] if known else (math.nan, math.nan)
    deck = [given(shape, key) if device else math.nan for key in ("peak_bf16", "peak_fp8")]
    return [own if math.isnan(peak) else peak for peak, own in zip(table, deck)]


def peak_of(shape, device):
    """Of the case's precision, and where it comes from."""
    def of(given_peaks):
        return dict(zip(("bf16", "fp8"), peaks_of({**shape, **given_peaks}, device))).get(shape["precision"], math.nan)
    published, known = of({"peak_bf16": "none", "peak_fp8": "none"}), of({})
    source = "" if math.isnan(known) else f"deck: peak_{shape['precision']}"
    return known, source if math.isnan(published) else f"catalogue: {device}"


def speed(shape, device, seconds):
    """From the measured steps' times."""
    if len(seconds) == 0:
        return Speed(*[math.nan] * 17)
    mean = float(np.mean(seconds))
    ranks, batch, precision = shape["ranks"], shape["global_batch"], shape["precision"]
    tokens = batch * shape["sequence"] / mean
    recipe, model = (batch * flops(shape).whole / mean / ranks for flops in (recipe_flops, model_flops))
    peaks = peaks_of(shape, device)
    peak, _ = peak_of(shape, device)
    ceilings = [f(shape).ceiling(peaks) if precision == "fp8" else math.nan for f in (recipe_flops, model_flops)]
    days = math.nan if shape["proxy"] else 1e12 / tokens / 86400
    return Speed(
        mean,
        float(np.median(seconds)),
        float(np.percentile(seconds, 95)),
        float(min(seconds)),
        float(max(seconds)),
        float(np.mean(seconds[-family(shape).metric_steps :])),
        tokens,
        tokens / ranks,
        recipe / 1e12,
        peak,
        recipe / peak,
        model / peak,
        *ceilings,
        recipe / peak / ceilings[0],
        model / peak / ceilings[1],
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
    part = min(1, (step - warmup) / (last - warmup))    # a soak goes on
    return lowest + 0.5 * (highest - lowest) * (1 + math.cos(math.pi * part))


def padded_vocabulary(shape):
    return padded(shape["vocabulary"], 128 * shape["tensor"])
