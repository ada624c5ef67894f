#!/usr/bin/env python3
"""The budget of every recipe's layout as a page: MFU, one layer's parts, products and transfers.

    validation/budget/budget.py > validation/measured/budget.txt       # from the repository's root, after make"""
import csv

import machine
import products as table
from costs import layer_of, of_products
from layouts import all_layouts, fp8_layouts, products, ring_pieces
from rates import rate, shapes, share_of_whole
from steps import FURTHER, STRIPS, WAYS, mfu, mixed_ceiling, parts_of, step_seconds
from transfers import transfers

BEST_MEASURED = 790e12       # products, the second column of MFU
AIMS = {"llama3.1-8b 8 GPUs C2D4": 66, "llama3.1-70b 64 GPUs T4P4C2D2": 60, "llama3.1-405b 512 GPUs T8P8C2D4": 57}
FP8_SHOWN = ("llama3.1-8b 8 GPUs C2D4 FP8", "llama3.1-70b 64 GPUs T4P8D2 FP8", "llama3.1-405b 512 GPUs T8P8C2D4 FP8")
# What may turn out worse, and how much.
WORSE = (("products", 650e12), ("attention forward", 450e12), ("attention backward", 350e12), ("memory", 2.35e12),
         ("gap", 6e-6), ("nvlink", 300e9), ("network", 25e9), ("copy latency", 50e-6), ("filling", 100e-6))
WORSE_FP8 = (("FP8 products", 1.5), ("split sums", 1.3))


def published(precision):
    """{(workload, GPUs): MFU in percent} of the recipes' cells."""
    with open("validation/reference/cells.csv", encoding="utf-8") as rows:
        return {(r["workload"], int(r["gpus"])): r["recipe_mfu_percent"] for r in csv.DictReader(rows)
                if r["precision"] == precision and r["gpu"] == "H100"}


# ---- the page ----

HEADING = f"{'':10}" + "".join(f"{word:>12}" for word in ("products", "attention", "memory", "gaps", "exposed", "sum"))


def layer_lines(prices, x):
    """The budget of one layer: milliseconds forward + backward."""
    lines = [f"{x}: K {x.strips}", HEADING]
    for way in WAYS[x.fp8:] if x.tensor > 1 else WAYS[x.fp8:2]:
        parts = parts_of(prices, x, way, machine.of("products"))
        columns = (*parts, (parts.seconds(False), parts.seconds(True)))
        cells = "".join(f" {forward * 1e3:5.2f}+{backward * 1e3:5.2f}" for forward, backward in columns)
        lines.append(f"  {way:8}{cells}")
    return lines + [""]


def step_line(prices, x, cells):
    figures = [100 * mfu(x, step_seconds(prices, x, way, sustained)[0])
               for sustained in (machine.of("products"), BEST_MEASURED) for way in WAYS]
    seconds, bubble = step_seconds(prices, x, STRIPS, machine.of("products"))
    aim = AIMS.get(str(x))
    said = f"aim {aim}: {'reached' if figures[1] >= aim else 'not reached'}" if aim else x.beside
    recipe = "-" if x.beside else cells.get((x.workload, x.gpus), "-")
    return (f"{str(x):36}{recipe:>8}" + "".join(f"{f:8.1f}" for f in figures)
            + f"{seconds:9.3f}{100 * bubble / seconds:7.1f}  {said}").rstrip()


def fp8_line(prices, x, cells):
    """Codes made by what makes a value, then by passes of their own; the first's share of the ceiling."""
    def percent(y, way, sustained):
        return 100 * mfu(y, step_seconds(prices, y, way, sustained)[0])
    ceiling, passes = 100 * mixed_ceiling(x), x._replace(fused=False)
    slow, fast = machine.of("products"), BEST_MEASURED
    figures = [percent(x, STRIPS, slow), percent(x, FURTHER, slow), percent(passes, STRIPS, slow),
               percent(x, STRIPS, fast), percent(passes, STRIPS, fast)]
    seconds, bubble = step_seconds(prices, x, STRIPS, slow)
    cell = cells.get((x.workload, x.gpus), "-")
    return (f"{str(x):36}{cell:>8}{ceiling:9.1f}" + "".join(f"{f:9.1f}" for f in figures)
            + f"{figures[0] / ceiling:9.0%}{seconds:9.3f}{100 * bubble / seconds:7.1f}")


def fp8_lines(prices, layouts, cells):
    return ["FP8: recipe MFU in percent of 1979 TF/s; ceiling: attention and head at the BF16 peak, all else at FP8's",
            f"{'':53}{'BF16 products at most 710 TF/s':>27}{'at most 790':>15}{'fused at 710':>28}",
            f"{'layout':36}{'recipe':>8}{'ceiling':>9}"
            + "".join(f"{w:>9}" for w in ("fused", "further", "passes", "fused", "passes", "reached"))
            + f"{'step s':>9}{'bubble':>7}",
            *(fp8_line(prices, x, cells) for x in layouts), ""]


def transfer_lines(prices, x):
    lines = [str(x)]
    layer = layer_of(prices, x)
    for t in transfers(x, layer, of_products(prices, x, x.strips, head=True)):
        lines.append(f"  {t.axis:9}{t.name:44}{t.sent / 2**20:7.1f} MiB {t.way:13}{t.ctas:3} CTAs "
                     f"{t.sent / t.seconds / 1e9:4.0f} GB/s {t.seconds * 1e6:6.0f} us x{t.times} "
                     f"{'exposed' if t.planned_exposed else f'of {t.window * 1e6:.0f} us, {t.behind}'}")
    return lines + [""]


def product_line(prices, name, x):
    rates = [rate(prices, products(x, pieces)) / 1e12 for pieces in (ring_pieces(x), x.strips, 1)]
    share = share_of_whole(prices, x, x.strips)
    return f"{name:44}K {x.strips}" + "".join(f"{r:8.0f}" for r in rates) + f"{share:8.1%}"


def what_if(prices, mine, worse):
    """MFU of these layouts with one assumption worse than assumed."""
    lines = [f"{'':52}" + "".join(f"{x.workload.split('-')[1]:>8}" for x in mine)]
    for name, value in (("products", 710e12), *worse):
        with machine.assumed(name, value):
            figures = [100 * mfu(x, step_seconds(prices, x, STRIPS, machine.of("products"))[0]) for x in mine]
        a = machine.ASSUMED[name]
        said = "as assumed" if value == a.value else f"{name} {value / a.unit:.4g} instead of {a.value / a.unit:.4g}"
        lines.append(f"  {said:50}" + "".join(f"{f:8.1f}" for f in figures))
    return lines


def shown(layouts, fp8):
    """Those whose layers and transfers are shown: of each aim, beside the recipes, of llama2 the first, some of FP8."""
    some = [x for x in layouts if str(x) in AIMS or x.beside or (x.workload, x.gpus) == ("llama2-70b", 64)]
    return some + [x for x in fp8 if str(x) in FP8_SHOWN]


def page():
    """The whole text."""
    prices, cells, layouts, fp8 = table.read(), published("bf16"), all_layouts(), fp8_layouts()
    text = ["The budget of a step on H100s, on paper. Nothing here was measured on a GPU by xgsw.",
            "Written by validation/budget/budget.py; what the words mean is said in validation/budget/README.md.", "",
            "Assumed", *machine.table(), "", "Recipe MFU in percent",
            f"{'':36}{'':8}{'products at most 710 TF/s':>24}{'at most 790 TF/s':>24}{'strips at 710':>16}",
            f"{'layout':36}{'recipe':>8}" + 2 * "".join(f"{way:>8}" for way in WAYS) + f"{'step s':>9}{'bubble':>7}",
            *(step_line(prices, x, cells) for x in layouts), "",
            *fp8_lines(prices, fp8, published("fp8")),
            "Recipe MFU with strips, one assumption worse",
            *what_if(prices, [x for x in layouts if str(x) in AIMS], WORSE), "",
            "FP8, the same", *what_if(prices, [x for x in fp8 if str(x) in FP8_SHOWN], WORSE + WORSE_FP8), "",
            "One layer and microbatch, ms forward + backward", ""]
    for x in shown(layouts, fp8):
        text += layer_lines(prices, x)
    text += ["Products of a layer: TF/s by nvidia-matmul-heuristics as ring, strips, whole; strips of whole",
             *(product_line(prices, name, x) for name, x in shapes(layouts).items()), "",
             "Transfers of a layer and microbatch (data: of a layer, once a step), products at most 710 TF/s", ""]
    for x in shown(layouts, fp8):
        text += transfer_lines(prices, x) if x.gpus > 1 else []
    return "\n".join(text[:-1]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
