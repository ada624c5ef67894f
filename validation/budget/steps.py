"""Seconds of a layer and microbatch, and of a step, part by part: with rings of products, as the code was before issue
13; with its strips; and further: strips that run through adding, norms and the next product one by one."""
from typing import NamedTuple

from costs import (forward_of, head_bytes, layer_of, memory_bytes, of_products, optimizer_seconds,
                   query_gradient_bytes)
from layouts import FORWARD, INPUT, WEIGHT, ring_pieces
from machine import of
from nccl import LINK_CTAS, Group, send
from transfers import chunk_layers, transfers

RING, STRIPS, FURTHER = "ring", "strips", "further"
WAYS = (RING, STRIPS, FURTHER)
# Microbatches whose weight gradient of the head waits for the drain (src/plan/catalogue/workloads.c).
DEFERRED = {"llama3.1-70b": 22, "llama3.1-405b": 50}


class Parts(NamedTuple):
    """Seconds of one layer and microbatch."""
    products: tuple          # (forward, backward), as all
    attention: tuple
    memory: tuple
    gaps: tuple
    exposed: tuple

    def seconds(self, backward):
        return sum(part[backward] for part in self)

    @property
    def both(self):
        return self.seconds(False) + self.seconds(True)


def pair(times):
    forward = forward_of(times)
    return forward, sum(times.values()) - forward


def stolen(some):
    """Seconds that transfers' thread blocks take from products beside them."""
    return sum(t.times * t.seconds * t.ctas / of("multiprocessors") for t in some if not t.planned_exposed)


def filled(some):
    """Seconds lost where weight gradients fill the gap before a backward transfer has ended."""
    return of("filling") * sum(t.behind.startswith("dW") and "inputs" not in t.name for t in some)


def layer_transfers(some):
    return [t for t in some if t.axis in ("tensor", "context", "shard")]


def waits_of(t, x, further):
    """The share of a transfer's exposed seconds that a layer waits for. Further, strips follow one another from the sum
    of one product to the gather of the next, so that forward waits only where a chunk begins."""
    if not further or t.axis != "tensor" or t.backward:
        return 1.0
    return 1 / chunk_layers(x) if t.name == "gather first strip of qkv" else 0.0


def after(prices, x, sustained, further):
    """With strips."""
    layer = layer_of(prices, x, sustained)
    some = layer_transfers(transfers(x, layer, of_products(prices, x, x.strips, head=True, sustained=sustained)))
    exposed = [sum(waits_of(t, x, further) * t.exposed for t in some if t.backward == b) for b in (False, True)]
    exposed[1] += filled(some)
    shares = [stolen([t for t in some if t.backward == b]) for b in (False, True)]
    lost = tuple(e + s for e, s in zip(exposed, shares))
    parts = Parts(pair(layer.products), layer.attention, layer.memory, layer.gaps, lost)
    if not further:
        return parts
    return parts._replace(gaps=tuple(gap + 2 * (x.strips - 1) * of("gap") for gap in layer.gaps))


def ring_waits(x, times):
    """(forward, backward): seconds that a ring's products wait for hops; a sum's partial products are FP32."""
    waits, piece = [0.0, 0.0], x.rows // ring_pieces(x) * x.hidden
    for (name, what), seconds in times.items():
        if what in (FORWARD, INPUT):
            gathers = (name in ("qkv", "gate_up")) == (what == FORWARD)
            hop = send(Group(x.tensor, 1, LINK_CTAS), piece * (2 if gathers else 4))[-1]
            waits[what == INPUT] += (x.tensor - 1) * max(0.0, hop - seconds / x.tensor)
    return waits


def ring_bytes(x):
    """Without what two calls of a piece add."""
    forward, backward = memory_bytes(x)
    return forward, backward - query_gradient_bytes(x)


def merge_bytes(x):
    """(forward, backward) of a context ring: each block's part is cast from BF16 and added to an FP32 sum."""
    q, kv = x.rows * x.heads * x.head_dim // x.tensor, x.rows * 2 * x.kv_heads * x.head_dim // x.tensor
    return x.context * 10 * q, x.context * 10 * (q + kv)


def before(prices, x, sustained):
    """With rings: 16 multiprocessors of several ranks' GPUs left to transfers, rings of tensor and context."""
    pieces = ring_pieces(x)
    slower = of("multiprocessors") / (of("multiprocessors") - of("given away")) if x.gpus > 1 else 1.0
    times = of_products(prices, x, pieces, sustained=sustained, longer=slower)
    layer = layer_of(prices, x, sustained)
    waits = ring_waits(x, times) if x.tensor > 1 else [0.0, 0.0]
    memory = [of("memory before") * bytes / of("memory") for bytes in ring_bytes(x)]
    if x.context > 1:
        memory = [m + b / of("memory") for m, b in zip(memory, merge_bytes(x))]
        home = x.rows * 2 * x.kv_heads * x.head_dim // x.tensor * 4
        waits[1] += send(Group(x.context, x.tensor, LINK_CTAS), home)[-1]
    some = transfers(x, layer, of_products(prices, x, x.strips, head=True))
    lost = tuple(w + sum(t.exposed for t in some if t.axis == "shard" and t.backward == b) for b, w in enumerate(waits))
    return Parts(pair(times), layer.attention, tuple(memory), layer.gaps, lost)


def parts_of(prices, x, way, sustained):
    return before(prices, x, sustained) if way == RING else after(prices, x, sustained, way == FURTHER)


def head_seconds(prices, x, way, sustained):
    """(all of it, its weight gradient); of a single stage with the embedding's exposed sums."""
    slower = of("multiprocessors") / (of("multiprocessors") - of("given away")) if way == RING and x.gpus > 1 else 1.0
    times = of_products(prices, x, x.strips if way != RING else ring_pieces(x), head=True, sustained=sustained)
    some = transfers(x, layer_of(prices, x), of_products(prices, x, x.strips, head=True)) if x.tensor > 1 else []
    exposed = sum(t.exposed for t in some if t.axis == "ends" and "embedding's" not in t.name
                  and (x.pipeline == 1 or "embedding" not in t.name))
    whole = slower * sum(times.values())
    return whole + head_bytes(x) / of("memory") + exposed, slower * times["head", WEIGHT]


def slowest_stage(x, layer, head):
    """(seconds of a microbatch, whether it is the last stage). Embedding and loss may take a layer's place each."""
    slots = x.layers + 2 if (x.layers + 2) % (x.pipeline * x.chunks) == 0 and x.pipeline > 1 else x.layers
    each = slots // x.pipeline
    last = (each - (slots > x.layers)) * layer + head
    return max(each * layer if x.pipeline > 1 else 0.0, last), last >= each * layer


def once_a_step(x, some):
    """Seconds of optimizer and of transfers once a step: first and last bucket, and what the others do not hide."""
    mine = [t for t in some if t.axis in ("data", "shard")]
    ends = sum(t.seconds for t in some if t in mine and "again" not in t.name or "embedding's" in t.name)
    rest = sum((x.layers // x.pipeline - 1) * t.exposed for t in mine if t.axis == "data")
    return optimizer_seconds(x) + ends + rest + stolen([t for t in mine if t.axis == "data"]) * x.layers / x.pipeline


def step_seconds(prices, x, way, sustained):
    """(a step, bubble)"""
    parts = parts_of(prices, x, way, sustained)
    head, deferred = head_seconds(prices, x, way, sustained)
    stage, is_last = slowest_stage(x, parts.both, head)
    each = parts.both * x.layers / x.pipeline
    bubble = (x.pipeline - 1) / x.chunks * each
    idle = (x.pipeline - 1) / x.chunks * parts.seconds(True) * x.layers / x.pipeline
    moved = min(idle, min(DEFERRED.get(x.workload, 0), x.microbatches) * deferred) if is_last else 0.0
    some = transfers(x, layer_of(prices, x, sustained), of_products(prices, x, x.strips, head=True))
    return x.microbatches * stage + bubble - moved + once_a_step(x, some), bubble


def mfu(x, seconds):
    return x.global_batch * x.flops / (seconds * x.gpus * of("FP8 peak" if x.fp8 else "peak"))


def mixed_ceiling(x):
    """The largest MFU of FP8 with attention and head at the BF16 peak."""
    return x.flops / (x.block_flops + (x.flops - x.block_flops) * of("FP8 peak") / of("peak"))
