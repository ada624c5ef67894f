"""The training of ../../src/DEFINITIONS.md once more, in float64 and with nothing else in common.

    float64.py DECK...          for each deck NAME.dat write NAME.curve and NAME.gradient beside it
    float64.py --check          verify Philox and the hand-written backward pass; prints TAP

Weights start as the exact float32 values of the definitions; everything after that is float64.

NAME.curve: a `#` line; `STEP LOSS GRADNORM` for every step, warm-up included (the loss before the
update, the norm before clipping); `gradient NAME ROWS COLS OFFSET` for every parameter.
NAME.gradient: the first step's unclipped gradient, little-endian float32, OFFSET counted in elements.

Shapes: B sequences, S positions, H query heads, K key-value heads, G = H/K, d = head dimension.
A forward function returns its result and what its backward function needs.
"""

import sys
from pathlib import Path

import numpy as np

from data import batch, initial_weights, make_deck, philox, read_deck

NORM_EPS = 1e-5
RATE, BETA1, BETA2, ADAM_EPS, DECAY, CLIP = 1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0


def linear_backward(dy, x, w):
    """y = x Wᵀ: the gradients of x and W."""
    return dy @ w, dy.reshape(-1, dy.shape[-1]).T @ x.reshape(-1, x.shape[-1])


def norm(x, gain):
    inverse = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + NORM_EPS)
    return x * inverse * gain, (x * inverse, inverse, gain)


def norm_backward(dy, saved):
    unit, inverse, gain = saved
    dunit = dy * gain
    dx = inverse * (dunit - unit * np.mean(dunit * unit, axis=-1, keepdims=True))
    return dx, np.sum(dy * unit, axis=(0, 1))


def named_norm(x, w, name):
    """RMSNorm, or where there is a bias LayerNorm, whose gain is kept as its difference from 1."""
    if name + "_bias" not in w:
        return norm(x, w[name])
    middle = x - np.mean(x, axis=-1, keepdims=True)
    y, saved = norm(middle, 1 + w[name])
    return y + w[name + "_bias"], saved


def named_norm_backward(dy, saved, w, name):
    dx, dgain = norm_backward(dy, saved)
    if name + "_bias" not in w:
        return dx, {name: dgain}
    return (dx - np.mean(dx, axis=-1, keepdims=True),
            {name: dgain, name + "_bias": np.sum(dy, axis=(0, 1))})


def rope_angles(deck):
    """position · f_i, [S, width/2]."""
    width = int(deck.d * deck.recipe.rotated)
    f = deck.recipe.rope_base ** (-2 * np.arange(width // 2) / width)
    if deck.recipe.rope_scaling:
        w = 2 * np.pi / f
        t = (8192 / w - 1) / (4 - 1)
        f = np.where(w > 8192 / 1, f / 8, np.where(w < 8192 / 4, f, (1 - t) * f / 8 + t * f))
    return np.arange(deck.sequence)[:, None] * f


def rotate(x, angles):
    """Turn the pairs (x[i], x[i + width/2]) of the last axis; the backward pass turns by -angles."""
    half = angles.shape[-1]
    a, b, rest = np.split(x, [half, 2 * half], axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def split_heads(x, groups, d):
    """[B, S, K·G·d] -> [B, K, G, S, d]; query head i = k·G + g, so it reads key-value head i / G."""
    return x.reshape(*x.shape[:2], -1, groups, d).transpose(0, 2, 3, 1, 4)


def join_heads(x):
    return x.transpose(0, 3, 1, 2, 4).reshape(x.shape[0], x.shape[3], -1)


def attention(x, w, deck):
    groups, angles = deck.heads // deck.kv_heads, rope_angles(deck)
    q = rotate(split_heads(x @ w["q"].T, groups, deck.d), angles)
    k = rotate(split_heads(x @ w["k"].T, 1, deck.d), angles)
    v = split_heads(x @ w["v"].T, 1, deck.d)
    score = q @ k.swapaxes(-1, -2) / np.sqrt(deck.d)
    score = np.where(np.tri(deck.sequence, dtype=bool), score, -np.inf)
    p = np.exp(score - score.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    o = join_heads(p @ v)
    return o @ w["attention_output"].T, (x, q, k, v, p, o)


def attention_backward(dy, saved, w, deck):
    x, q, k, v, p, o = saved
    g, angles, scale = {}, rope_angles(deck), 1 / np.sqrt(deck.d)
    do, g["attention_output"] = linear_backward(dy, o, w["attention_output"])
    do = split_heads(do, deck.heads // deck.kv_heads, deck.d)
    dv = (p.swapaxes(-1, -2) @ do).sum(axis=2, keepdims=True)
    dp = do @ v.swapaxes(-1, -2)
    dscore = p * (dp - np.sum(dp * p, axis=-1, keepdims=True)) * scale
    dq = rotate(dscore @ k, -angles)
    dk = rotate((dscore.swapaxes(-1, -2) @ q).sum(axis=2, keepdims=True), -angles)
    dx = 0
    for name, dy in (("q", dq), ("k", dk), ("v", dv)):
        part, g[name] = linear_backward(join_heads(dy), x, w[name])
        dx = dx + part
    return dx, g


def mlp(x, w):
    if "gate" not in w:
        positive = np.maximum(x @ w["up"].T, 0)
        return positive**2 @ w["down"].T, (x, positive)
    gate, up = x @ w["gate"].T, x @ w["up"].T
    sigmoid = 1 / (1 + np.exp(-gate))
    inner = gate * sigmoid * up
    return inner @ w["down"].T, (x, gate, up, sigmoid, inner)


def mlp_backward(dy, saved, w):
    if "gate" not in w:
        x, positive = saved
        dinner, ddown = linear_backward(dy, positive**2, w["down"])
        dx, dup = linear_backward(dinner * 2 * positive, x, w["up"])
        return dx, {"up": dup, "down": ddown}
    x, gate, up, sigmoid, inner = saved
    g = {}
    dinner, g["down"] = linear_backward(dy, inner, w["down"])
    dgate = dinner * up * sigmoid * (1 + gate * (1 - sigmoid))
    dx_gate, g["gate"] = linear_backward(dgate, x, w["gate"])
    dx_up, g["up"] = linear_backward(dinner * gate * sigmoid, x, w["up"])
    return dx_gate + dx_up, g


def layer(x, w, deck):
    y, saved_norm1 = named_norm(x, w, "attention_norm")
    y, saved_attention = attention(y, w, deck)
    x = x + y
    y, saved_norm2 = named_norm(x, w, "mlp_norm")
    y, saved_mlp = mlp(y, w)
    return x + y, (saved_norm1, saved_attention, saved_norm2, saved_mlp)


def layer_backward(dx, saved, w, deck):
    saved_norm1, saved_attention, saved_norm2, saved_mlp = saved
    dy, g = mlp_backward(dx, saved_mlp, w)
    dy, g_norm2 = named_norm_backward(dy, saved_norm2, w, "mlp_norm")
    dx = dx + dy
    dy, g_attention = attention_backward(dx, saved_attention, w, deck)
    dy, g_norm1 = named_norm_backward(dy, saved_norm1, w, "attention_norm")
    return dx + dy, {**g, **g_attention, **g_norm1, **g_norm2}


def cross_entropy(logits, labels):
    """The mean over all tokens, and its gradient."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    one_hot = np.eye(logits.shape[-1])[labels]
    return -np.sum(one_hot * log_p) / labels.size, (np.exp(log_p) - one_hot) / labels.size


def loss_and_gradient(weights, tokens, labels, deck):
    prefixes = [f"layers.{l}." for l in range(deck.layers)]
    parts = [{n[len(p):]: w for n, w in weights.items() if n.startswith(p)} for p in prefixes]
    x, saved = weights["embedding"][tokens], []
    for w in parts:
        x, kept = layer(x, w, deck)
        saved.append(kept)
    y, saved_norm = named_norm(x, weights, "final_norm")
    loss, dlogits = cross_entropy(y @ weights["head"].T, labels)

    g = {"embedding": np.zeros_like(weights["embedding"])}
    dy, g["head"] = linear_backward(dlogits, y, weights["head"])
    dx, g_norm = named_norm_backward(dy, saved_norm, weights, "final_norm")
    g.update(g_norm)
    for prefix, w, kept in reversed(list(zip(prefixes, parts, saved))):
        dx, g_layer = layer_backward(dx, kept, w, deck)
        g.update({prefix + name: value for name, value in g_layer.items()})
    np.add.at(g["embedding"], tokens, dx)
    return loss, {name: g[name] for name in weights}


# -------------------------------------------------------------------------------------- training

def adamw(weights, g, m, v, norm_, t, gains_decay):
    """Update weights and moments in place, at step t from 0."""
    clip = min(1.0, CLIP / (norm_ + 1e-6))
    for name, w in weights.items():
        gradient = g[name] * clip
        m[name] = BETA1 * m[name] + (1 - BETA1) * gradient
        v[name] = BETA2 * v[name] + (1 - BETA2) * gradient**2
        mean, square = m[name] / (1 - BETA1**(t + 1)), v[name] / (1 - BETA2**(t + 1))
        decay = DECAY if w.ndim > 1 or gains_decay else 0.0
        w -= RATE * (mean / (np.sqrt(square) + ADAM_EPS) + decay * w)


def train(deck):
    """The curve [(loss, norm)] and the first step's gradient."""
    weights, curve, first = initial_weights(deck), [], None
    m, v = ({name: np.zeros_like(w) for name, w in weights.items()} for _ in range(2))
    for step in range(deck.warmup + deck.steps):
        loss, g = loss_and_gradient(weights, *batch(deck, step), deck)
        norm_ = np.sqrt(sum(np.sum(value**2) for value in g.values()))
        curve.append((loss, norm_))
        first = first or g
        adamw(weights, g, m, v, norm_, step, deck.recipe.gains_decay)
    return curve, first


def write(path, curve, gradient):
    lines, offset = [f"# {path.name}: float64.py; step, loss, gradient norm; first gradient"], 0
    lines += [f"{step} {loss:.16e} {norm_:.16e}" for step, (loss, norm_) in enumerate(curve)]
    for name, g in gradient.items():
        rows, columns = np.atleast_2d(g).shape
        lines.append(f"gradient {name} {rows} {columns} {offset}")
        offset += g.size
    path.with_suffix(".curve").write_text("\n".join(lines) + "\n")
    np.concatenate([g.ravel() for g in gradient.values()]).astype("<f4").tofile(path.with_suffix(".gradient"))


# ----------------------------------------------------------------------------------------- check

PHILOX_VECTORS = [  # counter, key, result: the known answers of Random123
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


def difference(weights, name, index, loss):
    """d loss / d weights[name][index] by central differences, the h² error extrapolated away."""
    w, middle, h = weights[name].reshape(-1), weights[name].reshape(-1)[index], 1e-3
    slopes = []
    for step in (h, h / 2):
        w[index] = middle + step
        above = loss()
        w[index] = middle - step
        slopes.append((above - loss()) / (2 * step))
        w[index] = middle
    return (4 * slopes[1] - slopes[0]) / 3


def gradient_errors(workload):
    """The largest relative error over some elements of every tensor, gains and biases moved away from 1 and 0."""
    deck = make_deck(workload, "uniform", seed=5, steps=1, warmup=0, global_batch=2, sequence=12,
                     layers=2, hidden=32, ffn=24, heads=4, kv_heads=2, vocabulary=17)
    weights, random = initial_weights(deck), np.random.default_rng(0)
    for w in weights.values():
        w += 0.2 * random.standard_normal(w.shape) * (w.ndim == 1)
    data = batch(deck, 0)
    _, g = loss_and_gradient(weights, *data, deck)
    for name, value in g.items():
        order = np.argsort(-abs(value.ravel()))  # the largest element, and three of the larger half
        indices = [order[0], *random.choice(order[1:order.size // 2], 3, replace=False)]
        exact = [value.ravel()[i] for i in indices]
        slope = [difference(weights, name, i, lambda: loss_and_gradient(weights, *data, deck)[0]) for i in indices]
        yield name, max(abs(s - e) / abs(e) for s, e in zip(slope, exact))


def check():
    results = [(tuple(int(word) for word in philox(counter, key)) == answer, f"philox known answer {i}")
               for i, (counter, key, answer) in enumerate(PHILOX_VECTORS)]
    # The second derivative of squared ReLU jumps: a difference that straddles 0 errs in the first order of h.
    results += [(error <= limit, f"gradient of {workload}'s {name}, relative error {error:.1e}")
                for workload, limit in (("llama3.1-405b", 1e-6), ("nemotron4-340b", 1e-5))
                for name, error in gradient_errors(workload)]
    print(f"1..{len(results)}")
    for number, (passed, text) in enumerate(results, 1):
        print("ok" if passed else "not ok", number, "-", text)
    return all(passed for passed, _ in results)


def main(arguments):
    if arguments == ["--check"]:
        return 0 if check() else 1
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    for path in map(Path, arguments):
        write(path, *train(read_deck(path)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
