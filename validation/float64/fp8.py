"""FP8 training: the formats, delayed scaling, and the rounded operands of block products.

A layer has four products with three tensors each, numbered (layer·4 + product)·3 + kind. Matrices that are multiplied
as one are one tensor, and so are those of all experts.
"""

from collections import deque
from typing import NamedTuple

import numpy as np

from layers import GRADIENT, INPUT, WEIGHT

PRODUCT = {"q": 0, "k": 0, "v": 0, "attention_output": 1, "gate": 2, "up": 2, "down": 3}
PRODUCTS, KINDS, HISTORY = 4, 3, 1024


class Format(NamedTuple):
    """Numbers k·2^(e - fraction_bits), |k| < 2^(fraction_bits + 1), e at least least_exponent, up to the largest."""

    largest: float
    least_exponent: int
    fraction_bits: int


E4M3, E5M2 = Format(448.0, -6, 3), Format(57344.0, -14, 2)
FORMAT = {INPUT: E4M3, WEIGHT: E4M3, GRADIENT: E5M2}


def rounded(x, form):
    """Returns the nearest numbers of a format, with ties to even. Larger values become the largest number."""
    exponent = np.maximum(np.frexp(x)[1] - 1, form.least_exponent)
    unit = np.ldexp(1.0, exponent - form.fraction_bits)
    return np.clip(np.rint(x / unit) * unit, -form.largest, form.largest)


def power_of_two(ratio):
    """Returns the largest power of two that is not above the ratio."""
    return np.ldexp(1.0, np.frexp(ratio)[1] - 1)


class Scaling:
    """Scales of all tensors, constant within a step. Without scales, values remain as they are."""

    def __init__(self, deck):
        self.exact, self.scale, self.history = deck.exact_scales, None, deque(maxlen=HISTORY)
        self.amax = np.zeros(deck.layers * PRODUCTS * KINDS)
        self.largest = np.tile([FORMAT[kind].largest for kind in range(KINDS)], deck.layers * PRODUCTS)

    def operand(self, layer, name, kind, values):
        """Returns the operand that the product with this weight uses. Rounds only operands of the four products."""
        if name not in PRODUCT:
            return values
        tensor = (layer * PRODUCTS + PRODUCT[name]) * KINDS + kind
        self.amax[tensor] = max(self.amax[tensor], np.abs(values).max(initial=0.0))
        if self.scale is None:
            return values
        scaled = (values * self.scale[tensor]).astype(np.float32).astype(np.float64)
        return rounded(scaled, FORMAT[kind]) / self.scale[tensor]

    def end_step(self):
        """Adds the step's amaxes to the history. Returns the format's largest number over the history's largest amax,
        or 0 if all amaxes were 0."""
        self.history.append(self.amax)
        amax = np.max(self.history, axis=0)
        self.amax = np.zeros_like(amax)
        return np.divide(self.largest, amax, out=np.zeros_like(amax), where=amax > 0)

    def by_rule(self, ratio):
        """Returns the scales. Scales, and values times scales, are float32."""
        return np.where(ratio > 0, ratio.astype(np.float32) if self.exact else power_of_two(ratio), 1.0)
