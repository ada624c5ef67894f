#!/usr/bin/env python3
"""Does every transfer of a step get the bytes a second that it needs to hide? Every layout of the catalogue in BF16, by
NCCL's planning (nccl.py) and the products' prices; what has nothing to hide behind must be short. (In FP8, whose
products take half the time, sums of tensor ranks do not all hide: the budget prices what they leave open.)"""
import os
import re
import subprocess
import sys

sys.path.insert(0, "validation/program")
sys.path.insert(0, "validation/budget")
import nccl  # noqa: E402
import products as table  # noqa: E402
from costs import layer_of, of_products  # noqa: E402
from layouts import FORWARD, all_layouts  # noqa: E402
from program import Tap  # noqa: E402
from rates import Explained  # noqa: E402
from transfers import transfers  # noqa: E402

MOST_EXPOSED = 0.05          # of a layer's seconds
DRY_RUN = "llama3.1-8b 8 GPUs C2D4", "llama3.1-70b 64 GPUs T4P4C2D2", "llama3.1-405b 512 GPUs T8P8C2D4"


def planning(tap):
    """NCCL's arithmetic, of cases that are known."""
    node, pair = nccl.Group(8, 1, 8), nccl.Group(2, 8, 8)
    tap.ok(nccl.link_ctas(node, 8 << 20) == 1, "a hop of 8 MiB among 8 ranks of 8 channels has one CTA")
    tap.ok(nccl.link_ctas(node, 32 << 20) == 2, "a hop of 32 MiB has two")
    tap.ok(nccl.link_ctas(pair, 8 << 20) == 4, "a message over the network has four")
    tap.ok(nccl.collective_ctas(node, 100 << 10) == 3, "a ring of 100 KiB has three CTAs")
    tap.ok(nccl.Group(16, 4).of_node == 2 and nccl.Group(16, 4).nodes == 8, "a group of 16, 4 apart, has 2 in a node")
    tap.ok(nccl.collective(node, 1 << 20, True)[1] == "ring", "a sum is not for copy engines")


def hop_starves(tap, x, layer):
    """The check can fail: a hop of the ring that strips replace takes longer than its product."""
    seconds = nccl.send(nccl.Group(x.tensor, 1, nccl.LINK_CTAS), x.rows // (2 * x.tensor) * x.hidden * 2)[-1]
    product = layer.products["qkv", "forward"] / x.tensor
    tap.ok(seconds > product,
           f"{x}: a hop of the ring does not hide: {seconds * 1e6:.0f} us behind {product * 1e6:.0f}")


def hidden(tap, x, some, reasons):
    """Each axis: all of its transfers that have something beside them end before it does."""
    for axis in sorted({t.axis for t in some}):
        mine = [t for t in some if t.axis == axis and not t.planned_exposed]
        late = [f"{t.name}: {t.seconds * 1e6:.0f} us, {t.behind}: {t.window * 1e6:.0f} us" for t in mine
                if not reasons.holds(tap, t.seconds <= t.window, f"{x}: {axis}: {t.name}")]
        tap.ok(not late, f"{x}: {axis}: {len(mine)} transfers hide", "\n".join(late))


def link_is_free(tap, x, some, layer):
    """All transfers of the tensor axis together take less than the products beside them: they share one link."""
    for backward in (False, True):
        busy = sum(t.times * t.seconds for t in some if t.axis == "tensor" and t.backward == backward)
        beside = sum(s for (_, what), s in layer.products.items() if (what == FORWARD) != backward)
        tap.ok(busy <= beside, f"{x}: NVLink is busy for {busy * 1e3:.2f} ms of {beside * 1e3:.2f} ms of products "
               f"{'backward' if backward else 'forward'}")


def sent_in_dry_run(x):
    """{axis: bytes that the rank with most sends in a step}"""
    run = subprocess.run([os.environ.get("XGSW", "./xgsw"), "--dry-run", f"reference/{x.workload}-bf16.dat", "--ranks",
                          str(x.gpus)], capture_output=True, text=True, check=True, timeout=300)
    return {axis: int(sent) for axis, sent in re.findall(r"^  (\w+) +\d+ +\d+ +(\d+) +\d+ ", run.stdout, re.M)}


def as_in_dry_run(tap, x, some):
    """What is priced here is what the program sends, of the stage with most layers. Beside it words of the loss, 12 or
    14 bytes a step, go through the pipeline, and over tensor ranks at most three times the strips of the head."""
    said, layers = sent_in_dry_run(x), -(-x.layers // x.pipeline)
    for axis, each, more in ("context", layers, 0), ("pipeline", x.chunks, 14), ("tensor", layers, None):
        mine = x.microbatches * each * sum(t.sent * t.times for t in some if t.axis == axis)
        if more is None:
            more = 3 * x.microbatches * sum(t.sent * t.times for t in some if "strip of head" in t.name)
        if mine:
            tap.ok(mine <= said[axis] <= mine + more, f"{x}: {axis}: {mine:.0f} bytes a step in layers",
                   f"the dry run says {said[axis]}, {mine + more:.0f} at most expected")


def short(tap, x, some, layer, reasons):
    bare = sum(t.exposed for t in some if t.planned_exposed and t.axis != "ends")
    share, name = bare / (layer.seconds(False) + layer.seconds(True)), f"{x}: what nothing hides is short"
    if bare:
        tap.ok(reasons.holds(tap, share <= MOST_EXPOSED, name), f"{name}: {share:.1%} of a layer")


def main():
    tap, prices, reasons = Tap(), table.read(), Explained("transfers")
    planning(tap)
    for x in all_layouts():
        layer = layer_of(prices, x)
        some = transfers(x, layer, of_products(prices, x, x.strips, head=True))
        hidden(tap, x, some, reasons)
        short(tap, x, some, layer, reasons)
        if str(x) in DRY_RUN:
            as_in_dry_run(tap, x, some)
        if x.tensor > 1:
            link_is_free(tap, x, some, layer)
            hop_starves(tap, x, layer)
    reasons.all_used(tap)
    tap.done()


main()
