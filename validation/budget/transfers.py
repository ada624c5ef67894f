"""The transfers of a step as issue 13 plans them: what they move, what moves it, and what they must hide behind."""
from typing import NamedTuple

from layouts import FORWARD, INPUT, WEIGHT
from nccl import Group, collective, exchange, granted, kernel_seconds, send

NOTHING = ("nothing", 0.0)


class Transfer(NamedTuple):
    axis: str
    name: str
    sent: float              # bytes that leave each GPU
    way: str
    ctas: int
    seconds: float           # predicted, of one
    times: int               # of a layer and microbatch; of axis ends of a microbatch, of others of a layer or chunk
    behind: str
    window: float            # seconds of what it hides behind
    backward: bool = False

    @property
    def exposed(self):
        """Seconds of all of them that nothing hides."""
        return self.times * max(0.0, self.seconds - self.window)

    @property
    def planned_exposed(self):
        return self.behind == NOTHING[0]


def carried(x):
    """Bytes of a value that is gathered to be multiplied, or of a weight."""
    return 1 if x.fp8 else 2


def tensor_pair(x, layer, step, gathers, backward):
    """A product's strips: each is gathered behind the product before it, or summed over ranks behind the next one. What
    begins or ends a step has nothing beside it in forward; in backward the weight gradients of the second queue."""
    name, what = step, INPUT if backward else FORWARD
    whole = x.rows // x.strips * x.hidden * (carried(x) if gathers else 2)
    group = Group(x.tensor, 1, granted(x)[1])
    way = collective(group, whole, False) if gathers else exchange(group, whole)
    strip, said = layer.products[name, what] / x.strips, f"{name} {'dx' if backward else ''}".strip()
    ends = (f"dW {name}", layer.products[name, WEIGHT]) if backward else NOTHING
    verb = "gather" if gathers else "sum"
    place = "first" if gathers else "last"
    return [Transfer("tensor", f"{verb} strip of {said}", *way, x.strips - 1, f"a strip of {said}", strip,
                     backward),
            Transfer("tensor", f"{verb} {place} strip of {said}", *way, 1, *ends, backward)]


def tensor(x, layer):
    pairs = ((("qkv", True), ("attention output", False), ("gate_up", True), ("down", False)),
             (("down", True), ("gate_up", False), ("attention output", True), ("qkv", False)))
    some = [t for backward in (False, True) for step, gathers in pairs[backward]
            for t in tensor_pair(x, layer, step, gathers, backward)]
    whole = x.rows * x.hidden * carried(x)
    for name, beside in (("gate_up", "down"), ("qkv", "attention output")):
        some.append(Transfer("tensor", f"gather inputs again for dW {name}",
                             *collective(Group(x.tensor, 1, granted(x)[1]), whole, False), 1, f"dW {beside}",
                             layer.products[beside, WEIGHT], True))
    return some


def context(x, layer):
    """Keys and values gathered before attention and again in backward; FP32 sums of their gradients sent home."""
    group = Group(x.context, x.tensor, granted(x)[1])
    whole = x.sequence * x.microbatch * 2 * x.kv_heads * x.head_dim // x.tensor * 2
    gather, home = collective(group, whole, False), exchange(group, 2 * whole)
    return [Transfer("context", "gather keys and values", *gather, 1, *NOTHING),
            Transfer("context", "gather keys and values again", *gather, 1, "dW gate_up",
                     layer.products["gate_up", WEIGHT], True),
            Transfer("context", "dK, dV to their ranks", *home, 1, "dW attention output",
                     layer.products["attention output", WEIGHT], True)]


def sharded(x, layer):
    """Weights gathered for each use, their gradient summed; a second copy of the model adds its share."""
    group, whole = Group(x.shard, x.tensor * x.context, granted(x)[1]), 2 * x.layer_parameters // x.tensor
    forward, backward = layer.seconds(False), layer.seconds(True)
    gather = collective(group, whole, False)
    some = [Transfer("shard", "gather a layer's weights", *gather, 1, "a layer's forward", forward),
            Transfer("shard", "gather a layer's weights again", *gather, 1, "a quarter of a layer's backward",
                     backward / 4, True),
            Transfer("shard", "sum a layer's gradient", *exchange(group, whole), 1,
                     "the rest of a layer's backward", backward * 3 / 4, True)]
    if x.data > 1:
        copies, part = Group(x.data, x.tensor * x.context * x.shard, granted(x)[1]), 2 * whole // x.shard
        sent, _, ctas, _ = collective(copies, part, True)
        some.append(Transfer("data", "sum a shard's gradient over copies", 2 * sent, "ring", ctas,
                             kernel_seconds(copies, ctas, 2 * sent), 1,
                             "a layer's backward", backward, True))
    return some


def data(x, layer):
    """Once a step: each layer's gradient behind the backward of what follows in the last microbatches, its new weights
    behind the first ones' forward. A chunk is finished with P microbatches, so a layer has P times its own seconds."""
    group, whole = Group(x.data * x.context, x.tensor, granted(x)[1]), 2 * x.layer_parameters // x.tensor
    words = 2 * x.padded_vocabulary * x.hidden // x.tensor
    few = f"{x.pipeline} layers' " if x.pipeline > 1 else "a layer's "
    return [Transfer("data", "sum a layer's gradient", *collective(group, whole, True), 1, few + "backward",
                     x.pipeline * layer.seconds(True), True),
            Transfer("data", "gather a layer's weights", *collective(group, whole * carried(x) // 2, False), 1,
                     few + "forward",
                     x.pipeline * layer.seconds(False)),
            Transfer("ends", "sum the embedding's gradient", *collective(group, words, True), 1, *NOTHING),
            Transfer("ends", "gather the embedding's weights", *collective(group, words, False), 1, *NOTHING)]


def chunk_layers(x):
    """Layers of a chunk; embedding and loss count as one each where that divides."""
    parts = x.pipeline * x.chunks
    return (x.layers + (2 if (x.layers + 2) % parts == 0 else 0)) // parts


def pipeline(x, layer):
    group = Group(2, x.gpus // x.pipeline, granted(x)[0])
    part, layers = x.rows // x.tensor * x.hidden * 2, chunk_layers(x)
    return [Transfer("pipeline", "send to the next stage", *send(group, part), 1, "a chunk's forward",
                     layers * layer.seconds(False)),
            Transfer("pipeline", "send back", *send(group, part), 1, "a chunk's backward",
                     layers * layer.seconds(True), True)]


def ends(x, head):
    """Of the first and last stage: rows of the embedding, inputs of the head, statistics of the loss."""
    group, strip = Group(x.tensor, 1, granted(x)[1]), x.rows // x.strips * x.hidden * 2
    some, gather, total = [], collective(group, strip, False), exchange(group, strip)
    some.append(Transfer("ends", "sum rows of the embedding", *total, x.strips, *NOTHING))
    some.append(Transfer("ends", "gather strip of head", *gather, x.strips - 1, "a strip of head",
                         head["head", FORWARD] / x.strips))
    some.append(Transfer("ends", "sum strip of head dx", *total, x.strips - 1, "a strip of head dx",
                         head["head", INPUT] / x.strips, True))
    statistics = 2 * 4 * x.rows
    some.append(Transfer("ends", "maximum and sum of the loss", statistics, "ring", 1,
                         2 * kernel_seconds(group, 1, statistics), 1, *NOTHING))
    return some


def transfers(x, layer, head):
    some = tensor(x, layer) + ends(x, head) if x.tensor > 1 else []
    some += context(x, layer) if x.context > 1 else []
    some += pipeline(x, layer) if x.pipeline > 1 else []
    if x.shard > 1:
        return some + sharded(x, layer)
    return some + (data(x, layer) if x.data * x.context > 1 else [])
