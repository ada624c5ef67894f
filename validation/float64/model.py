"""The network of ../../src/DEFINITIONS.md in float64: forward, and backward by hand.

Shapes: B sequences, S positions, H query heads, K key-value heads, G = H/K, d = head dimension, E experts. A forward
function returns its result and the data that its backward function needs. A backward function returns the gradient of
the input, and those of the weights by name.
"""

from functools import partial

import numpy as np

from experts import mixture, mixture_backward
from layers import Rounding, activate, linear, linear_backward, norm, norm_backward

__all__ = ["loss_and_gradient"]


def rope_angles(deck):
    """Returns position · f_i, [S, width/2]."""
    width = int(deck.d * deck.recipe.rotated)
    f = deck.recipe.rope_base ** (-2 * np.arange(width // 2) / max(width, 1))
    if deck.recipe.rope_scaling:
        w = 2 * np.pi / f
        t = (8192 / w - 1) / (4 - 1)
        f = np.where(w > 8192 / 1, f / 8, np.where(w < 8192 / 4, f, (1 - t) * f / 8 + t * f))
    return np.arange(deck.sequence)[:, None] * f


def rotate(x, angles):
    """Rotates the pairs (x[i], x[i + width/2]) of the last axis. The backward pass rotates by -angles."""
    half = angles.shape[-1]
    a, b, rest = np.split(x, [half, 2 * half], axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def split_heads(x, groups, d):
    """[B, S, K·G·d] -> [B, K, G, S, d]. Query head i = k·G + g, so it reads key-value head i / G."""
    return x.reshape(*x.shape[:2], -1, groups, d).transpose(0, 2, 3, 1, 4)


def join_heads(x):
    return x.transpose(0, 3, 1, 2, 4).reshape(x.shape[0], x.shape[3], -1)


def attention(x, w, deck, rounding):
    groups, angles, slot = deck.heads // deck.kv_heads, rope_angles(deck), rounding.slot
    q = slot(rotate(split_heads(linear(x, w, "q", rounding), groups, deck.d), angles))
    k = slot(rotate(split_heads(linear(x, w, "k", rounding), 1, deck.d), angles))
    v = split_heads(linear(x, w, "v", rounding), 1, deck.d)
    score = q @ k.swapaxes(-1, -2) / np.sqrt(deck.d)
    score = np.where(np.tri(deck.sequence, dtype=bool), score, -np.inf)
    p = np.exp(score - score.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    o = slot(join_heads(p @ v))
    return linear(o, w, "attention_output", rounding), (x, q, k, v, p, o)


def attention_backward(dy, saved, w, deck, rounding):
    x, q, k, v, p, o = saved
    angles, scale, slot = rope_angles(deck), 1 / np.sqrt(deck.d), rounding.slot
    do, g = linear_backward(dy, o, w, "attention_output", rounding)
    do = split_heads(slot(do), deck.heads // deck.kv_heads, deck.d)
    dv = slot((p.swapaxes(-1, -2) @ do).sum(axis=2, keepdims=True))
    dp = do @ v.swapaxes(-1, -2)
    dscore = p * (dp - np.sum(dp * p, axis=-1, keepdims=True)) * scale
    dq = slot(rotate(slot(dscore @ k), -angles))
    dk = slot(rotate(slot((dscore.swapaxes(-1, -2) @ q).sum(axis=2, keepdims=True)), -angles))
    dx = 0
    for name, dy in (("q", dq), ("k", dk), ("v", dv)):
        part, g_part = linear_backward(join_heads(dy), x, w, name, rounding)
        dx, g = dx + part, {**g, **g_part}
    return slot(dx), g


def mlp(x, w, deck, rounding):
    up = linear(x, w, "up", rounding)
    value, slope = activate(linear(x, w, "gate", rounding) if deck.recipe.gated else up, deck.recipe.active)
    inner = rounding.slot(value * up if deck.recipe.gated else value)
    return linear(inner, w, "down", rounding), (x, up, value, slope, inner)


def mlp_backward(dy, saved, w, deck, rounding):
    (x, up, value, slope, inner), slot = saved, rounding.slot
    dinner, g_down = linear_backward(dy, inner, w, "down", rounding)
    dinner = slot(dinner)
    if not deck.recipe.gated:
        dx, g_up = linear_backward(slot(dinner * slope), x, w, "up", rounding)
        return slot(dx), {**g_up, **g_down}
    dx_gate, g_gate = linear_backward(slot(dinner * up * slope), x, w, "gate", rounding)
    dx_up, g_up = linear_backward(slot(dinner * value), x, w, "up", rounding)
    return slot(dx_gate + dx_up), {**g_gate, **g_up, **g_down}


def layer(x, w, deck, routed, rounding):
    y, saved_norm1 = norm(x, w, "attention_norm", rounding.slot)
    y, saved_attention = attention(y, w, deck, rounding)
    x = rounding.slot(x + y)
    y, saved_norm2 = norm(x, w, "mlp_norm", rounding.slot)
    if deck.recipe.experts:
        y, saved_mlp = mixture(y, w, deck, mlp, routed, rounding)
    else:
        y, saved_mlp = mlp(y, w, deck, rounding)
    return rounding.slot(x + y), (saved_norm1, saved_attention, saved_norm2, saved_mlp)


def layer_backward(dx, saved, w, deck, rounding):
    saved_norm1, saved_attention, saved_norm2, saved_mlp = saved
    if deck.recipe.experts:
        dy, g = mixture_backward(dx, saved_mlp, w, deck, mlp_backward, rounding)
    else:
        dy, g = mlp_backward(dx, saved_mlp, w, deck, rounding)
    dy, g_norm2 = norm_backward(dy, saved_norm2, w, "mlp_norm")
    dx = rounding.slot(dx + dy)
    dy, g_attention = attention_backward(dx, saved_attention, w, deck, rounding)
    dy, g_norm1 = norm_backward(dy, saved_norm1, w, "attention_norm")
    return rounding.slot(dx + dy), {**g, **g_attention, **g_norm1, **g_norm2}


def cross_entropy(logits, labels):
    """Returns the mean over all tokens, and its gradient; elements below 2^-126 are 0."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    one_hot = np.eye(logits.shape[-1])[labels]
    gradient = (np.exp(log_p) - one_hot) / labels.size
    return -np.sum(one_hot * log_p) / labels.size, np.where(np.abs(gradient) < 2.0**-126, 0.0, gradient)


def embed(weights, tokens):
    x = weights["embedding"][tokens]
    return x + weights["positions"][:tokens.shape[1]] if "positions" in weights else x


def embed_backward(dx, weights, tokens, g):
    """Adds to the gradient of the embedding, which may already contain that of a tied head."""
    np.add.at(g["embedding"], tokens, dx)
    if "positions" in weights:
        g["positions"] = np.zeros_like(weights["positions"])
        g["positions"][:tokens.shape[1]] = dx.sum(axis=0)


def loss_and_gradient(weights, tokens, labels, deck, routed, slot=Rounding().slot,
                      operand=lambda layer, name, kind, values: values):
    """Returns the loss, and the gradient of its sum with the balance loss. Adds every layer's routing to `routed`. slot
    and operand are those of a Rounding; operand takes the layer, too. Gradients of weights are not rounded."""
    weights = {name: slot(w) for name, w in weights.items()}
    prefixes = [f"layers.{l}." for l in range(deck.layers)]
    parts = [{n[len(p):]: w for n, w in weights.items() if n.startswith(p)} for p in prefixes]
    roundings, unquantized = [Rounding(slot, partial(operand, l)) for l in range(deck.layers)], Rounding(slot)
    head = "embedding" if deck.recipe.tied else "head"
    x, saved = slot(embed(weights, tokens)), []
    for w, of_layer in zip(parts, roundings):
        x, kept = layer(x, w, deck, routed, of_layer)
        saved.append(kept)
    y, saved_norm = norm(x, weights, "final_norm", slot)
    loss, dlogits = cross_entropy(linear(y, weights, head, unquantized), labels)

    g = {"embedding": np.zeros_like(weights["embedding"])}
    dy, g_head = linear_backward(slot(dlogits), y, weights, head, unquantized)
    dx, g_norm = norm_backward(slot(dy), saved_norm, weights, "final_norm")
    dx = slot(dx)
    g.update({**g_head, **g_norm})
    for prefix, w, kept, of_layer in reversed(list(zip(prefixes, parts, saved, roundings))):
        dx, g_layer = layer_backward(dx, kept, w, deck, of_layer)
        g.update({prefix + name: value for name, value in g_layer.items()})
    embed_backward(dx, weights, tokens, g)
    return loss, {name: g[name] for name in weights}
