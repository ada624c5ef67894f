"""The catalogue's layouts, from `xgsw --list`, and the matrix products of a layer and of the head in each of them."""
import os
import re
import subprocess
from typing import NamedTuple

FAMILIES = ("llama3.1-8b", "llama3.1-70b", "llama3.1-405b", "llama2-70b")
NODE = 8                     # GPUs that NVLink joins
FEWEST_ROWS = 1024           # of a strip's products (issue 13)
FORWARD, INPUT, WEIGHT = "forward", "input gradient", "weight gradient"
# Both operands lie along the summed dimension (NT), the second across it (NN), both across it (TN); row major.
OPERANDS = {FORWARD: "NT", INPUT: "NN", WEIGHT: "TN"}
FP8 = "FP8"                  # instead of these: all are NT, of codes of one byte, and make BF16


class Layout(NamedTuple):
    """A recipe's row, and the shape of its model."""
    workload: str
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocabulary: int
    recompute: str
    precision: str
    gpus: int
    sequence: int
    layers: int
    tensor: int
    pipeline: int
    context: int
    data: int
    shard: int
    chunks: int
    microbatch: int
    global_batch: int
    beside: str = ""         # why it is priced although no recipe has it
    fused: bool = True       # FP8: what makes a value makes its codes

    @property
    def rows(self):
        """Rows of the products of one rank: tokens of its share of the sequence."""
        return self.sequence // self.context * self.microbatch

    @property
    def head_dim(self):
        return self.hidden // self.heads

    @property
    def microbatches(self):
        return self.global_batch // (self.data * self.shard * self.microbatch)

    @property
    def padded_vocabulary(self):
        return -(-self.vocabulary // (128 * self.tensor)) * 128 * self.tensor

    @property
    def layer_parameters(self):
        projections = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return projections + 3 * self.hidden * self.ffn + 2 * self.hidden

    @property
    def fp8(self):
        return self.precision == "fp8"

    @property
    def block_flops(self):
        """Of one sequence, of the products of the blocks."""
        projections = 12 * self.hidden * (self.hidden + self.hidden * self.kv_heads // self.heads)
        return self.sequence * self.layers * (projections + 18 * self.ffn * self.hidden)

    @property
    def flops(self):
        """Of one sequence, by the recipe's formula."""
        rest = 12 * self.layers * self.hidden * self.sequence + 6 * self.vocabulary * self.hidden
        return self.block_flops + self.sequence * rest

    @property
    def strips(self):
        """K of issue 13: strips of a rank's rows."""
        if self.tensor == 1:
            return 1
        share = self.sequence // self.context
        return max([k for k in (4, 2, 1) if self.rows // k >= FEWEST_ROWS and share % (k * self.tensor) == 0] or [1])

    def __str__(self):
        ways = (("T", self.tensor), ("P", self.pipeline), ("C", self.context), ("D", self.data), ("S", self.shard))
        cut = "".join(f"{k}{n}" for k, n in ways if n > 1) or "T1"
        return f"{self.workload} {self.gpus} GPUs {cut}{' FP8' if self.fp8 else ''}"


class Product(NamedTuple):
    """C[m, n] = A[m, k] B[k, n], so many times."""
    name: str
    what: str
    m: int
    n: int
    k: int
    times: int
    fp8: bool

    @property
    def key(self):
        return self.m, self.n, self.k, FP8 if self.fp8 else OPERANDS[self.what]

    @property
    def flops(self):
        return 2 * self.m * self.n * self.k * self.times


def listing():
    program = os.environ.get("XGSW", "./xgsw")
    return subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout


def shape_of(text):
    """The words of a workload's block that a layout needs, and the flops of a sequence that it states."""
    found = re.search(r"hidden (\d+), ffn (\d+), heads (\d+)/(\d+), vocabulary (\d+)", text)
    recompute = re.search(r"recompute (\w+)", text)[1]
    return [int(n) for n in found.groups()], recompute, float(re.search(r"flops a sequence (\S+) by", text)[1])


def catalogue(text):
    """({family: flops of a sequence as listed}, its layouts of BF16, the rows of other precisions)."""
    flops, layouts, others = {}, [], []
    for block in re.split(r"\n(?=\[)", text):
        name = re.match(r"\s*\[(\S+)\]", block)
        if not name or name[1] not in FAMILIES:
            continue
        shape, recompute, flops[name[1]] = shape_of(block)
        for precision, row in re.findall(r"^  (bf16|fp8) +(\d+ +H100 .*)$", block, re.M):
            gpus, _, s, layers, t, p, c, _, d, shard, chunks, micro, batch = row.split()[:13]
            layout = Layout(name[1], *shape, recompute, precision,
                            *map(int, (gpus, s, layers, t, p, c, d, shard, chunks, micro, batch)))
            (layouts if precision == "bf16" else others).append(layout)
    return flops, layouts, others


def beside(layouts):
    """8b on one GPU, and with whole sequences on eight."""
    recipe = next(x for x in layouts if (x.workload, x.gpus) == ("llama3.1-8b", 8))
    return [recipe._replace(gpus=1, context=1, data=1, global_batch=16, beside="one GPU"),
            recipe._replace(context=1, data=8, beside="beside the recipe's")]


def all_layouts():
    """Recipes' layouts in BF16 and those beside them."""
    layouts = catalogue(listing())[1]
    return beside(layouts) + layouts


def fp8_layouts():
    """Llama 3.1's in FP8."""
    return [x for x in catalogue(listing())[2] if x.workload.startswith("llama3.1")]


def weights(x, head):
    """Name, outputs and inputs of a rank's share of each matrix, and whether the outputs are what is shared."""
    h, d, t = x.hidden, x.head_dim, x.tensor
    if head:
        return (("head", x.padded_vocabulary // t, h, True),)
    return (("qkv", (x.heads + 2 * x.kv_heads) * d // t, h, True), ("attention output", h, x.heads * d // t, False),
            ("gate_up", 2 * x.ffn // t, h, True), ("down", h, x.ffn // t, False))


def products(x, pieces, head=False):
    """Of one layer and microbatch, or of the head: its rows in so many pieces, a weight gradient in one."""
    rows, some = x.rows // pieces, []
    for name, outputs, inputs, _ in weights(x, head):
        again = name == "gate_up" and x.recompute == "attention_mlp"
        some += [Product(name, FORWARD, rows, outputs, inputs, pieces, x.fp8 and not head),
                 Product(name, INPUT, rows, inputs, outputs, pieces, x.fp8 and not head),
                 Product(name, WEIGHT, outputs, inputs, x.rows, 1, x.fp8 and not head)]
        some += [Product(name + " again", FORWARD, rows, outputs, inputs, pieces, x.fp8)] if again else []
    return some


def ring_pieces(x):
    """Pieces of the ring that strips replace: halves of a rank's rows go both ways."""
    return 2 * x.tensor if x.tensor > 1 else 1
