"""A mixture of experts, forward and backward by hand. Every token goes to two experts, up to their capacity."""

from math import ceil

import numpy as np

from layers import linear, linear_backward

CHOICES, BALANCE = 2, 0.01


class Routed:
    """Of one step: the balance loss, the number of dropped choices, and the least margin of a choice or drop."""

    def __init__(self):
        self.balance, self.dropped, self.margin = 0.0, 0, np.inf


def softmax(x):
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def keep_most(weight, chosen, capacity, routed):
    """Returns which choices [N, 2] of a group's rows [N, 2] are kept: an expert keeps its largest weights, and among
    equal ones the lower rows."""
    kept = np.zeros(chosen.shape, bool)
    for e in np.unique(chosen):
        row, k = np.nonzero(chosen == e)
        order = np.argsort(-weight[row, k], kind="stable")
        kept[row[order[:capacity]], k[order[:capacity]]] = True
        if len(order) > capacity:
            last, next_ = weight[row, k][order[capacity - 1:capacity + 1]]
            routed.margin = min(routed.margin, last - next_)
    return kept


def keep(weight, chosen, deck, routed):
    """Returns the kept choices [B, S, 2]. A group is one microbatch, in rows by position, then sequence."""
    kept, b = np.zeros(chosen.shape, bool), deck.microbatch
    tokens = b * deck.sequence
    capacity = int(min(tokens, ceil(min(tokens, tokens * CHOICES / deck.recipe.experts * deck.capacity))))
    for first in range(0, len(chosen), b):
        w, c = (x[first:first + b].swapaxes(0, 1) for x in (weight, chosen))
        group = keep_most(w.reshape(-1, CHOICES), c.reshape(-1, CHOICES), capacity, routed)
        kept[first:first + b] = group.reshape(c.shape).swapaxes(0, 1)
    return kept


def balance(logits, chosen):
    """Returns the mean of the sequences' balance losses, and its gradient. The counts of tokens are constants there."""
    sequences, tokens, experts = logits.shape
    p = softmax(logits)
    count = (chosen[..., None] == np.arange(experts)).sum(axis=(1, 2))
    factor = count * experts * BALANCE / (tokens**2 * CHOICES) / sequences
    slope = factor[:, None, :]
    return np.sum(p.sum(axis=1) * factor), p * (slope - np.sum(p * slope, axis=-1, keepdims=True))


def of_expert(w, e):
    prefix = f"experts.{e}."
    return {name[len(prefix):]: value for name, value in w.items() if name.startswith(prefix)}


def mixture(x, w, deck, expert, routed, rounding):
    """expert(rows, weights, deck, rounding) returns one expert's output and the data that its backward needs."""
    logits = linear(x, w, "router", rounding)
    order = np.argsort(-logits, axis=-1, kind="stable")
    ranked = np.take_along_axis(logits, order, axis=-1)
    chosen, weight = order[..., :CHOICES], softmax(ranked[..., :CHOICES])
    kept = keep(weight, chosen, deck, routed)
    loss, dlogits = balance(logits, chosen)
    routed.margin = min(routed.margin, np.min(ranked[..., CHOICES - 1] - ranked[..., CHOICES]))
    routed.balance += loss
    routed.dropped += np.sum(~kept)
    y, runs = np.zeros_like(x), []
    for e in range(deck.recipe.experts):
        b, s, k = np.nonzero(kept & (chosen == e))
        out, saved = expert(x[b, s], of_expert(w, e), deck, rounding)
        y[b, s] += weight[b, s, k, None] * out
        runs.append((b, s, k, out, saved))
    return rounding.slot(y), (x, chosen, weight, dlogits, runs)


def mixture_backward(dy, saved, w, deck, expert_backward, rounding):
    x, chosen, weight, dlogits, runs = saved
    dx, dweight, g, dlogits = np.zeros_like(x), np.zeros_like(weight), {}, dlogits.copy()
    for e, (b, s, k, out, kept) in enumerate(runs):
        dweight[b, s, k] = np.sum(dy[b, s] * out, axis=-1)
        d_out = rounding.slot(weight[b, s, k, None] * dy[b, s])
        part, g_expert = expert_backward(d_out, kept, of_expert(w, e), deck, rounding)
        dx[b, s] += part
        g.update({f"experts.{e}.{name}": value for name, value in g_expert.items()})
    dtop = weight * (dweight - np.sum(dweight * weight, axis=-1, keepdims=True))
    np.put_along_axis(dlogits, chosen, np.take_along_axis(dlogits, chosen, axis=-1) + dtop, axis=-1)
    part, g_router = linear_backward(rounding.slot(dlogits), x, w, "router", rounding)
    return rounding.slot(rounding.slot(dx) + part), {**g, **g_router}
