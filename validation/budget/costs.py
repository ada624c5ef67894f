"""Seconds of what one GPU computes for one layer and microbatch, or for the head, without any transfer."""
from typing import NamedTuple

from layouts import FORWARD, NODE, products
from machine import of
from nccl import granted

CONTEXT_KEYS = 4096          # up to so many positions, and for pieces of a context rank, attention is slower


def left_to_transfers(x):
    """How much longer a product takes on the multiprocessors that transfers leave it: by default 16 fewer where kernels
    move what tensor or context ranks exchange, since not all of them are of one node; else, in a pipeline, without
    those of a receive, which is posted one action ahead and holds them until it comes. In proportion: where power and
    not multiprocessors limits a product this is too much, where a last wave of tiles grows by one it is too little."""
    kernels = x.tensor > 1 and x.tensor * x.context > NODE
    gone = of("given away") if kernels else granted(x)[0] if x.pipeline > 1 else 0
    return of("multiprocessors") / (of("multiprocessors") - gone)


def product_seconds(prices, p, sustained, longer):
    """As estimated, but no faster than power allows; on fewer multiprocessors in proportion."""
    held = sustained * (of("FP8 products") if p.fp8 else 1.0)
    split = of("split sums") if p.fp8 and p.what != FORWARD else 1.0
    return p.times * longer * split * max(1e-6 * prices[p.key], p.flops / p.times / held)


def of_products(prices, x, pieces, head=False, sustained=None, longer=None):
    """{(name, what): seconds}"""
    return {(p.name, p.what): product_seconds(prices, p, sustained or of("products"), longer or left_to_transfers(x))
            for p in products(x, pieces, head)}


def forward_of(times):
    return sum(s for (name, what), s in times.items() if what == FORWARD and not name.endswith("again"))


def attention(x):
    """(forward, backward); what context ranks do is the same, spread evenly by the zig-zag order. What masks hide is
    not computed: backward a call is a masked square and the keys before it (attention_staging.h)."""
    slower = of("attention at 4096") if x.context > 1 or x.sequence <= CONTEXT_KEYS else 1.0
    flops = 2 * x.sequence**2 * x.heads * x.head_dim * x.microbatch / x.tensor / x.context
    forward = flops / of("attention forward") / slower
    again = forward if x.recompute == "attention_mlp" else 0.0
    return forward, again + 2.5 * flops / of("attention backward") / slower


def memory_bytes(x):
    """(forward, backward): bytes that kernels between the products read and write, BF16. Norms: residual and y in, sum
    and normed rows out; backwards: gradient, residual's gradient and x in, one gradient out. Adding up a strip: T parts
    in, one out."""
    h, rows, own = x.hidden, x.rows, x.rows // x.tensor
    norm, rope = 2 * 4 * h * own, 2 * rows * (x.heads + x.kv_heads) * x.head_dim // x.tensor
    activation = rows * x.ffn // x.tensor
    adding = 2 * (rows + own) * h if x.tensor > 1 else 0
    gathered = 4 * rows * 2 * x.kv_heads * x.head_dim // x.tensor if x.context > 1 else 0
    forward = 2 * (norm + rope + 3 * activation + adding) + 2 * gathered
    backward = 2 * (norm + rope + 5 * activation + adding) + 4 * gathered
    again = 2 * norm if x.recompute == "attention_mlp" else 0
    return forward, backward + again + query_gradient_bytes(x)


def code_bytes(x, fused):
    """(forward, backward): what codes add to these bytes. Where they are fused, what makes a value writes its codes, as
    rows and transposed, instead of BF16; attention knows no codes, and the residual's gradient stays BF16 beside them;
    what tensor ranks hold in parts is gathered as codes and then transposed. Else each value and, at each use, each
    weight is read once more and written as codes."""
    own, whole, t = x.rows // x.tensor, x.rows, x.tensor
    queries, values = x.heads * x.head_dim // t, x.kv_heads * x.head_dim // t
    gathered = 2 * 2 * x.hidden * whole if t > 1 else 0            # transposed: of two inputs, or two gradients
    outputs = queries * whole                                      # of attention
    if fused:
        return 4 * outputs, gathered + (4 * values + 2 * 2 * x.hidden // t) * whole + gathered
    inputs = 2 * x.hidden * own + outputs + x.ffn // t * whole
    gradients = (queries + 2 * values + 2 * x.ffn // t) * whole + 2 * x.hidden * own
    weights = 3 * x.layer_parameters // t
    return 4 * inputs + weights, 4 * gradients + 2 * gathered + weights


def query_gradient_bytes(x):
    """What a second call reads and writes beside its main kernel: gradient and output in, zeros of FP32 sums out; these
    in, BF16 out; then, to add the gradients of two calls, two in, one out. (One piece of the sequence, the first, has
    no second call.)"""
    return (2 + 2 + 4 + 4 + 2 + 6) * x.rows * x.heads * x.head_dim // x.tensor if x.context > 1 else 0


def kernels(x, pieces):
    """(forward, backward): launches one behind another."""
    adds = 2 * pieces if x.tensor > 1 else 0
    calls, backward = (2, 18) if x.context > 1 else (1, 3)
    return 4 * pieces + adds + calls + 4, 4 * pieces + 4 + adds + backward + 6


def code_kernels(x):
    """(forward, backward): launches that codes add."""
    transposes = 4 if x.tensor > 1 else 0
    return (0, 0) if not x.fp8 else (1, 1 + transposes) if x.fused else (8, 8 + transposes)


class Layer(NamedTuple):
    """What one GPU computes of a layer and microbatch; pairs are (forward, backward)."""
    products: dict
    attention: tuple
    memory: tuple
    gaps: tuple

    def seconds(self, backward):
        products = sum(self.products.values()) - forward_of(self.products) if backward else forward_of(self.products)
        return products + self.attention[backward] + self.memory[backward] + self.gaps[backward]


def layer_of(prices, x, sustained=None):
    bytes_ = memory_bytes(x)
    if x.fp8:
        bytes_ = [b + codes for b, codes in zip(bytes_, code_bytes(x, x.fused))]
    launches = [n + codes for n, codes in zip(kernels(x, x.strips), code_kernels(x))]
    return Layer(of_products(prices, x, x.strips, sustained=sustained), attention(x),
                 tuple(b / of("memory") for b in bytes_), tuple(n * of("gap") for n in launches))


def head_bytes(x):
    """Final norm both ways and cross-entropy: two passes over the logits and one that writes their gradient."""
    return 2 * 8 * x.hidden * x.rows // x.tensor + 2 * 3 * x.rows * x.padded_vocabulary // x.tensor


def optimizer_seconds(x):
    """Of the fullest stage: 2 bytes of gradient for the norm, then 30 a parameter of this rank's share."""
    share = x.layers * x.layer_parameters / x.pipeline + x.padded_vocabulary * x.hidden * (2 if x.pipeline == 1 else 1)
    return (2 + 30 / (x.data * x.context * x.shard)) * share / x.tensor / of("memory") if x.shard == 1 else \
        32 * share / x.shard / of("memory")
