#!/usr/bin/env python3
"""Are a layer's products, cut into strips, nearly as fast as whole, and as fast as a GPU is known to be? Every layout
of the catalogue in BF16, and of Llama 3.1 in FP8, by products.list, which products.py makes."""
import math
import sys

sys.path.insert(0, "validation/program")
sys.path.insert(0, "validation/budget")
import layouts as plan  # noqa: E402
import products as table  # noqa: E402
from program import Tap  # noqa: E402
from rates import Explained, missing, rate, shapes, share_of_whole  # noqa: E402

LEAST = 0.85                 # of the rate of whole products, and of MEASURED
MEASURED = 790e12            # a large product on an H100, random data (mamf of stas00/ml-engineering: 794.5)
MEASURED_FP8 = 1400e12       # the same: 1402.6


def formulas(tap, flops, layouts):
    """The layouts are read rightly: their flops are those that the listing states."""
    for name in plan.FAMILIES:
        full = max((x for x in layouts if x.workload == name), key=lambda x: x.layers)
        tap.ok(math.isclose(full.flops, flops[name], rel_tol=1e-6), f"{name}: flops of a sequence as listed",
               f"{full.flops:e}, listed {flops[name]:e}")


def priced(tap, prices, layouts):
    for x in layouts:
        lacks = [key for pieces in (x.strips, 1, *([] if x.fp8 else [plan.ring_pieces(x)])) for head in (False, True)
                 for key in missing(prices, plan.products(x, pieces, head))]
        tap.ok(not lacks, f"{x}: every product has a price", f"{lacks}: run products.py")


def fast_enough(tap, prices, layouts):
    reasons = Explained("products")
    for name, x in shapes(layouts).items():
        for what, head in (("layer", False), ("head", True)):
            reached, share = rate(prices, plan.products(x, x.strips, head)), share_of_whole(prices, x, x.strips, head)
            known = f"{name}: {what}: as fast as a GPU is known to be"
            whole = f"{name}: {what}: nearly as fast as whole"
            measured = MEASURED_FP8 if x.fp8 and not head else MEASURED
            tap.ok(reasons.holds(tap, reached >= LEAST * measured, known), f"{known}: {reached / 1e12:.0f} TF/s")
            if x.strips > 1:
                tap.ok(reasons.holds(tap, share >= LEAST, whole), f"{whole}: {share:.1%}")
    reasons.all_used(tap)


def rings_fail(tap, prices, layouts):
    """The checks can fail: the products of a ring, which strips replace, are slow."""
    for name, x in shapes(layouts).items():
        if x.tensor > 1 and not x.fp8:
            share = share_of_whole(prices, x, plan.ring_pieces(x))
            tap.ok(share < LEAST, f"{name}: a ring's products are too slow: {share:.1%}")


def main():
    flops, recipes, others = plan.catalogue(plan.listing())
    layouts, prices, tap = plan.beside(recipes) + recipes + plan.fp8_layouts(), table.read(), Tap()
    formulas(tap, flops, recipes)
    priced(tap, prices, layouts)
    if not tap.failed:
        fast_enough(tap, prices, layouts)
        rings_fail(tap, prices, layouts)
    tap.say(f"{sum(x not in layouts for x in others)} layouts in FP8 have no row here")
    tap.done()


main()
