"""Parts of layers: products with biases, norms, activations; forward, and backward by hand.

A Rounding defines the rounding of values. slot(values) rounds the results of operations. operand(name, kind, values)
rounds what the product with weight `name` takes: its input, weight or gradient of its output.
"""

from typing import Callable, NamedTuple

import numpy as np

NORM_EPS = 1e-5
INPUT, WEIGHT, GRADIENT = range(3)


class Rounding(NamedTuple):
    slot: Callable = lambda values: values
    operand: Callable = lambda name, kind, values: values


def bf16(x):
    """Returns the nearest BF16 numbers, with ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def linear(x, w, name, rounding):
    """Returns x Wᵀ plus the bias if there is one. The bias of `up` is added after the product is rounded."""
    y, bias = rounding.operand(name, INPUT, x) @ rounding.operand(name, WEIGHT, w[name]).T, w.get(name + "_bias", 0.0)
    return rounding.slot(y) + bias if name == "up" else rounding.slot(y + bias)


def linear_backward(dy, x, w, name, rounding):
    """Returns dx, which is not rounded, and the gradients."""
    g_bias = {name + "_bias": dy.reshape(-1, dy.shape[-1]).sum(axis=0)} if name + "_bias" in w else {}
    dy, x = rounding.operand(name, GRADIENT, dy), rounding.operand(name, INPUT, x)
    g = {name: dy.reshape(-1, dy.shape[-1]).T @ x.reshape(-1, x.shape[-1]), **g_bias}
    return dy @ rounding.operand(name, WEIGHT, w[name]), g


def norm(x, w, name, slot):
    """Computes RMSNorm, or LayerNorm if there is a bias. LayerNorm stores its gain minus 1."""
    centred = name + "_bias" in w
    x = x - np.mean(x, axis=-1, keepdims=True) if centred else x
    inverse = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + NORM_EPS)
    unit, gain = x * inverse, 1 + w[name] if centred else w[name]
    return slot(unit * gain + w.get(name + "_bias", 0.0)), (unit, inverse, gain)


def norm_backward(dy, saved, w, name):
    """Returns dx, which is not rounded, and the gradients."""
    unit, inverse, gain = saved
    dunit = dy * gain
    dx = inverse * (dunit - unit * np.mean(dunit * unit, axis=-1, keepdims=True))
    g = {name: np.sum(dy * unit, axis=(0, 1))}
    if name + "_bias" not in w:
        return dx, g
    return dx - np.mean(dx, axis=-1, keepdims=True), {**g, name + "_bias": np.sum(dy, axis=(0, 1))}


def silu(x):
    s = 1 / (1 + np.exp(-x))
    return x * s, s * (1 + x * (1 - s))


def gelu(x):
    """Uses the tanh approximation (Hendrycks and Gimpel 2016)."""
    c = np.sqrt(2 / np.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x**2)


def squared_relu(x):
    positive = np.maximum(x, 0)
    return positive**2, 2 * positive


def activate(x, name):
    """Returns the value and the slope."""
    return {"silu": silu, "gelu": gelu, "squared_relu": squared_relu}[name](x)
