"""The training of ../../src/DEFINITIONS.md once more, in float64. It shares nothing else with the program.

    float64.py FOLDER DECK...   write NAME.gradient and NAME.curve to the folder for each deck NAME.dat
    float64.py --check          verify Philox, the FP8 formats and the hand-written backward pass; prints TAP

Weights start as the exact float32 values of the definitions; everything after that is float64. With the deck's
`precision = fp32` nothing is rounded. With `bf16` and `fp8` the results of operations are rounded to BF16 where
../../src/ROUNDING.md says so, except gradients of weights and the numbers of the optimizer. With `fp8` the block
products multiply operands that fp8.py has rounded. The network is model.py.

NAME.curve has a `#` line; `STEP LOSS GRADNORM` for every step, with warm-up (the loss before the update, the norm
before clipping); with experts also the balance loss and dropped choices; with FP8 `scales STEP SCALE...` of every
tensor in the order of fp8.py; `gradient NAME ROWS COLS OFFSET` for every parameter.
NAME.gradient has the first step's unclipped gradient in little-endian float32. OFFSET counts elements. Zeros at the end
of the file are omitted.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from data import batch, initial_weights, make_deck, philox, read_deck
from experts import Routed
from fp8 import E4M3, E5M2, Scaling, rounded
from layers import GRADIENT, INPUT, WEIGHT, bf16
from model import loss_and_gradient

RATE, BETA1, BETA2, ADAM_EPS, DECAY = 1e-3, 0.9, 0.95, 1e-8, 0.1


# -------------------------------------------------------------------------------------- training

def adamw(weights, g, m, v, norm, t, recipe):
    """Updates weights and moments in place at step t, counted from 0."""
    clip = min(1.0, recipe.clip / (norm + 1e-6))
    for name, w in weights.items():
        gradient = g[name] * clip
        m[name] = BETA1 * m[name] + (1 - BETA1) * gradient
        v[name] = BETA2 * v[name] + (1 - BETA2) * np.where(np.abs(gradient) < 2.0**-58, 0.0, gradient)**2
        mean, square = m[name] / (1 - BETA1**(t + 1)), v[name] / (1 - BETA2**(t + 1))
        decay = DECAY if w.ndim > 1 or recipe.gains_decay else 0.0
        w -= RATE * (mean / (np.sqrt(square) + ADAM_EPS) + decay * w)


def step_scales(scaling, step, choose):
    """Returns the scales of an FP8 step: choose(step, ratio) if given, otherwise the rule's (Scaling.end_step)."""
    ratio = scaling.end_step()
    return choose(step, ratio) if choose else scaling.by_rule(ratio)


def train(deck, choose=None):
    """Returns the curve [(loss, norm, ...)], the scales of every FP8 step, the gradient of the first step, and the
    least margin of a routing decision. With FP8, the history starts with a forward and backward pass of step 0 in BF16,
    which updates nothing."""
    weights, curve, scales, first, margin, scaling = initial_weights(deck), [], [], None, np.inf, Scaling(deck)
    rounding = {"fp32": (), "bf16": (bf16,), "fp8": (bf16, scaling.operand)}[deck.precision]
    m, v = ({name: np.zeros_like(w) for name, w in weights.items()} for _ in range(2))
    if deck.precision == "fp8":
        loss_and_gradient(weights, *batch(deck, 0), deck, Routed(), *rounding)
    for step in range(deck.warmup + deck.steps):
        if deck.precision == "fp8":
            scaling.scale = step_scales(scaling, step, choose)
            scales.append(scaling.scale)
        routed = Routed()
        loss, g = loss_and_gradient(weights, *batch(deck, step), deck, routed, *rounding)
        norm = np.sqrt(sum(np.sum(value**2) for value in g.values()))
        curve.append((loss, norm) + ((routed.balance, routed.dropped) if deck.recipe.experts else ()))
        first, margin = first or g, min(margin, routed.margin)
        adamw(weights, g, m, v, norm, step, deck.recipe)
    return curve, scales, first, margin


def write(path, deck, curve, scales, gradient, margin):
    """Writes path.gradient, then path.curve."""
    lines, offset = [f"# {deck}: float64.py; step, loss, gradient norm; first gradient"], 0
    lines += [f"# least margin of a choice or drop {margin:.1e}"] if np.isfinite(margin) else []
    lines += [" ".join([str(step)] + [f"{value:.16e}" for value in values]) for step, values in enumerate(curve)]
    lines += [" ".join(["scales", str(step)] + [f"{scale:.9g}" for scale in used]) for step, used in enumerate(scales)]
    for name, g in gradient.items():
        rows, columns = np.atleast_2d(g).shape
        lines.append(f"gradient {name} {rows} {columns} {offset}")
        offset += g.size
    values = np.concatenate([g.ravel() for g in gradient.values()]).astype("<f4")
    np.trim_zeros(values, "b").tofile(f"{path}.gradient")
    Path(f"{path}.curve").write_text("\n".join(lines) + "\n")


# ----------------------------------------------------------------------------------------- check

PHILOX_VECTORS = [  # counter, key, result: known answers of Random123
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


CHECKED = [("llama3.1-405b", 1, 1e-6), ("nemotron4-340b", 1, 1e-5), ("gpt3-52k", 1, 1e-5), ("grok1-314b", 0.5, 1e-5)]


def difference(weights, name, index, loss):
    """Returns d loss / d weights[name][index] by central differences, with the h² error extrapolated away."""
    w, middle, h = weights[name].reshape(-1), weights[name].reshape(-1)[index], 1e-4
    slopes = []
    for step in (h, h / 2):
        w[index] = middle + step
        above = loss()
        w[index] = middle - step
        slopes.append((above - loss()) / (2 * step))
        w[index] = middle
    return (4 * slopes[1] - slopes[0]) / 3


def gradient_errors(workload, capacity):
    """Yields for every tensor the largest relative error over some elements. Gains and biases start away from 1 and 0.
    Errors of tiny elements are relative to 1e-5 of the largest gradient, because key biases without rotation have no
    effect. The seed gives every routing decision a margin larger than the differences."""
    deck = make_deck(workload, "uniform", capacity, seed=21, steps=1, warmup=0, microbatch=2, global_batch=4,
                     sequence=8, layers=2, hidden=16, ffn=12, heads=4, kv_heads=2, vocabulary=17)
    weights, random = initial_weights(deck), np.random.default_rng(0)
    for w in weights.values():
        w += 0.2 * random.standard_normal(w.shape) * (w.ndim == 1)
    data = batch(deck, 0)

    def objective():
        routed = Routed()
        loss, _ = loss_and_gradient(weights, *data, deck, routed)
        return loss + routed.balance

    _, g = loss_and_gradient(weights, *data, deck, Routed())
    least = 1e-5 * max(np.abs(value).max() for value in g.values())
    for name, value in g.items():
        order = np.argsort(-abs(value.ravel()))  # the largest, and three of the larger half
        larger = order[1:np.count_nonzero(value) // 2]
        indices = [order[0], *random.choice(larger, 3, replace=False)]
        exact = [value.ravel()[i] for i in indices]
        slope = [difference(weights, name, i, objective) for i in indices]
        yield name, max(abs(s - e) / max(abs(e), least) for s, e in zip(slope, exact))


def numbers_of(exponent_bits, fraction_bits):
    """Returns the numbers of a format by code from 0 upwards, as its fields give them, with NaN and infinity."""
    code, bias, one = np.arange(128), 2**(exponent_bits - 1) - 1, 2**fraction_bits
    exponent, fraction = code // one, code % one / one
    return np.where(exponent > 0, 2.0**(exponent - bias) * (1 + fraction), 2.0**(1 - bias) * fraction)


def rounding_errors(form, numbers):
    """Counts the values that are not rounded to the nearest number (ties to the even code, at most the largest). Tries
    all finite BF16 values, the format's numbers, the middles between these, and values next to the middles."""
    bf16 = (np.arange(0x7F80, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
    middles = (numbers[1:] + numbers[:-1]) / 2
    x = np.concatenate([bf16, numbers, middles, middles * (1 + 2**-40), middles * (1 - 2**-40), [np.inf]])
    above = np.clip(np.searchsorted(numbers, x), 1, len(numbers) - 1)
    below = above - 1
    up, down = numbers[above] - x, x - numbers[below]
    nearest = np.where((up < down) | ((up == down) & (above % 2 == 0)), numbers[above], numbers[below])
    return np.count_nonzero(rounded(x, form) != nearest) + np.count_nonzero(rounded(-x, form) != -nearest)


def format_checks():
    for name, form, numbers in (("E4M3", E4M3, numbers_of(4, 3)[:0x7F]), ("E5M2", E5M2, numbers_of(5, 2)[:0x7C])):
        yield numbers[-1] == form.largest, f"{name} ends at {numbers[-1]:g}"
        errors = rounding_errors(form, numbers)
        yield errors == 0, f"{name}: values that do not become the nearest number: {errors}"
        yield np.isnan(rounded(np.nan, form)), f"{name}: NaN stays"
    scaling = Scaling(SimpleNamespace(layers=1, exact_scales=False))
    scaling.operand(0, "q", INPUT, np.array([-448.0]))
    scaling.operand(0, "up", WEIGHT, np.array([np.nextafter(448.0, 500)]))
    scaling.operand(0, "down", GRADIENT, np.array([3e-7]))
    scales = list(scaling.by_rule(scaling.end_step())[[0, 7, 11, 1]])
    yield scales == [1.0, 0.5, 2.0**37, 1.0], f"scales of amax 448, more than that, 3e-7 and 0: {scales}"


def check():
    results = [(tuple(int(word) for word in philox(counter, key)) == answer, f"philox known answer {i}")
               for i, (counter, key, answer) in enumerate(PHILOX_VECTORS)]
    results += format_checks()
    # The second derivative of squared ReLU jumps, so a difference across 0 has an error of first order in h.
    results += [(error <= limit, f"gradient of {workload}'s {name}, relative error {error:.1e}")
                for workload, capacity, limit in CHECKED for name, error in gradient_errors(workload, capacity)]
    print(f"1..{len(results)}")
    for number, (passed, text) in enumerate(results, 1):
        print("ok" if passed else "not ok", number, "-", text)
    return all(passed for passed, _ in results)


def main(arguments):
    if arguments == ["--check"]:
        return 0 if check() else 1
    if len(arguments) < 2 or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    for deck in map(Path, arguments[1:]):
        write(Path(arguments[0], deck.stem), deck.name, *train(read_deck(deck)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
