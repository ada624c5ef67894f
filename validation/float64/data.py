"""The inputs of training by the definitions: the deck, random numbers, initial weights and tokens."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np


def recipe(**differences):
    """std: None means by fan-in. rotated: fraction of a head that RoPE rotates. positions: rows of learned positions.
    active: activation of gated or plain MLPs. experts: number of experts, of which a token chooses two."""
    return SimpleNamespace(**{"rope_base": 10000.0, "rope_scaling": False, "rotated": 1.0, "positions": 0,
                              "layer_norm": False, "biases": False, "gated": True, "active": "silu", "experts": 0,
                              "tied": False, "next_labels": True, "gains_decay": False, "clip": 1.0, **differences})


def llama31(hidden, std, rope_scaling=False):
    return recipe(hidden=hidden, std=std, rope_base=500000.0, rope_scaling=rope_scaling, next_labels=False)


def gpt3(hidden, positions):
    return recipe(hidden=hidden, std=None, rotated=0.0, positions=positions, layer_norm=True, biases=True,
                  gated=False, active="gelu", tied=True, gains_decay=True, clip=np.inf)


RECIPES = {  # hidden size and initial standard deviation at full size, and differences
    "llama3.1-8b": llama31(4096, 0.01),
    "llama3.1-70b": llama31(8192, 0.008944),
    "llama3.1-405b": llama31(16384, 0.02, rope_scaling=True),
    "llama2-70b": recipe(hidden=8192, std=None, gains_decay=True),
    "nemotron4-340b": recipe(hidden=18432, std=0.0063, rotated=0.5, layer_norm=True, gated=False,
                             active="squared_relu"),
    "grok1-314b": recipe(hidden=6144, std=0.008, rope_base=1e6, active="gelu", experts=8),
    "gpt3-175b": gpt3(12288, 16384),
    "gpt3-52k": gpt3(16, 2048),
}
INTEGERS = "seed steps warmup microbatch global_batch sequence layers hidden ffn heads kv_heads vocabulary".split()


def read_deck(path):
    """Reads two title lines, then `key = value  # remark` and one `[workload]`."""
    keys = {"warmup": "0", "capacity": "1", "fp8_scale": "power_of_two", "fp8_scaling": "delayed"}
    workload = None
    for line in Path(path).read_text().splitlines()[2:]:
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            assert workload is None, f"{path}: more than one workload"
            workload = line.strip("[] ")
        elif line:
            key, equals, value = line.partition("=")
            assert equals, f"{path}: not `key = value`: {line}"
            keys[key.strip()] = value.strip()
    assert keys["size"] == "small" and "learning_rate_warmup" not in keys, f"{path}: constant rate only"
    assert keys["precision"] in ("fp32", "bf16", "fp8"), f"{path}: no such precision"
    assert keys["fp8_scaling"] == "delayed", f"{path}: delayed scaling only"
    capacity = np.inf if keys["capacity"] == "none" else float(keys["capacity"])
    integers = {key: int(keys[key]) for key in INTEGERS}
    exact = keys["fp8_scale"] == "exact"
    return make_deck(workload, keys["tokens"], capacity, keys["precision"], exact, **integers)


def make_deck(workload, tokens, capacity, precision="fp32", exact_scales=False, **integers):
    deck = SimpleNamespace(recipe=RECIPES[workload], tokens=tokens, capacity=capacity, precision=precision,
                           exact_scales=exact_scales, **integers)
    assert deck.hidden % deck.heads == 0 and deck.heads % deck.kv_heads == 0
    deck.d = deck.hidden // deck.heads
    return deck


def fnv(name):
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


def philox(counter, key):
    """Computes philox4x32-10. The four counter words may be arrays. Words are stored in uint64."""
    low = np.uint64(0xFFFFFFFF)
    c = np.broadcast_arrays(*(np.asarray(word, np.uint64) for word in counter))
    k0, k1 = key
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = ((b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & low,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & low)
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c


def mulhi(x, n):
    return x * np.uint64(n) >> np.uint64(32)


def normal(seed, name, shape, std):
    index = np.arange(np.prod(shape), dtype=np.uint64)
    r = philox((index & np.uint64(0xFFFFFFFF), index >> np.uint64(32), 0, 0), (seed, fnv(name)))
    n = sum((word & np.uint64(0xFFFF)) + (word >> np.uint64(16)) for word in r).astype(np.int64) - 262140
    unit = np.sqrt(8 * (65536**2 - 1) / 12)
    return (n.astype(np.float32) * np.float32(std / unit)).astype(np.float64).reshape(shape)


def mlp_shapes(deck):
    h, r = deck.hidden, deck.recipe
    one = {**({"gate": (deck.ffn, h)} if r.gated else {}), "up": (deck.ffn, h), "down": (h, deck.ffn)}
    if not r.experts:
        return one
    return {"router": (r.experts, h),
            **{f"experts.{e}.{name}": shape for e in range(r.experts) for name, shape in one.items()}}


def shapes(deck):
    """Returns names and shapes. Positions come last, because a short sequence uses only a few of their rows."""
    h, q, kv, r = deck.hidden, deck.heads * deck.d, deck.kv_heads * deck.d, deck.recipe
    norm_bias = {"attention_norm_bias": (h,), "mlp_norm_bias": (h,)} if r.layer_norm else {}
    attention = {"q": (q, h), "k": (kv, h), "v": (kv, h), "attention_output": (h, q)}
    biases = {name + "_bias": shape[:1] for name, shape in {**attention, **mlp_shapes(deck)}.items() if r.biases}
    layer = {"attention_norm": (h,), **attention, "mlp_norm": (h,), **norm_bias, **mlp_shapes(deck), **biases}
    layers = {f"layers.{l}.{name}": shape for l in range(deck.layers) for name, shape in layer.items()}
    last = {"final_norm": (h,), **({"final_norm_bias": (h,)} if r.layer_norm else {})}
    table = (deck.vocabulary, h)
    return {"embedding": table, **layers, **last, **({} if r.tied else {"head": table}),
            **({"positions": (r.positions, h)} if r.positions else {})}


def initial_std(deck, name, shape):
    if deck.recipe.std is None:
        return 1.0 if name in ("embedding", "positions") else 1 / np.sqrt(shape[1])
    std = deck.recipe.std * np.sqrt(deck.recipe.hidden / deck.hidden)
    return std / np.sqrt(2 * deck.layers) if name.endswith((".attention_output", ".down")) else std


def initial_weights(deck):
    vector = np.zeros if deck.recipe.layer_norm else np.ones
    return {name: vector(shape) if len(shape) == 1 else
            normal(deck.seed, name, shape, initial_std(deck, name, shape)) for name, shape in shapes(deck).items()}


def ramp(deck, step, sample):
    """Returns documents of counting tokens, one after another, cut at one token more than the sequence."""
    row, j, key = [], 0, (deck.seed, fnv("tokens"))
    while len(row) <= deck.sequence:
        length = 1 + int(mulhi(philox((j, sample, step, 1), key)[0], 4096))
        row += [1 + o % (deck.vocabulary - 2) for o in range(length - 1)] + [deck.vocabulary - 1]
        j += 1
    return row[:deck.sequence + 1]


def batch(deck, step):
    """Returns tokens and labels [B, S] of one global batch."""
    if deck.tokens == "zeros":
        return np.zeros((2, deck.global_batch, deck.sequence), int)
    if deck.tokens == "ramp":
        rows = np.array([ramp(deck, step, sample) for sample in range(deck.global_batch)])
        return rows[:, :-1], rows[:, 1:]
    assert deck.tokens == "uniform"
    sample, position = np.mgrid[:deck.global_batch, :deck.sequence + 1]
    r = philox((position, sample, step, 0), (deck.seed, fnv("tokens")))
    tokens, labels = mulhi(r[0], deck.vocabulary).astype(int), mulhi(r[1], deck.vocabulary).astype(int)
    return tokens[:, :-1], tokens[:, 1:] if deck.recipe.next_labels else labels[:, :-1]
