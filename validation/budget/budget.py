#!/usr/bin/env python3
"""The budget of every recipe's layout as a page: MFU, one layer's parts, products and transfers.

    validation/budget/budget.py > validation/measured/budget.txt       # from the repository's root, after make"""
import csv

import machine
import products as table
from costs import layer_of, of_products
from layouts import all_layouts, products, ring_pieces
from rates import rate, shapes, share_of_whole
from steps import STRIPS, WAYS, mfu, parts_of, step_seconds
from transfers import transfers

BEST_MEASURED = 790e12       # products, the second column of MFU
AIMS = {"llama3.1-8b 8 GPUs C2D4": 66, "llama3.1-70b 64 GPUs T4P4C2D2": 60, "llama3.1-405b 512 GPUs T8P8C2D4": 57}
# What may turn out worse, and how much.
WORSE = (("products", 650e12), ("attention forward", 450e12), ("attention backward", 350e12), ("memory", 2.35e12),
         ("gap", 6e-6), ("nvlink", 300e9), ("network", 25e9), ("copy latency", 50e-6), ("filling", 100e-6))


def published():
    """{(workload, GPUs): MFU in percent} of the recipes' BF16 cells."""
    with open("validation/reference/cells.csv", encoding="utf-8") as rows:
        return {(r["workload"], int(r["gpus"])): r["recipe_mfu_percent"] for r in csv.DictReader(rows)
                if r["precision"] == "bf16" and r["gpu"] == "H100"}


# ---- the page ----

HEADING = f"{'':10}" + "".join(f"{word:>12}" for word in ("products", "attention", "memory", "gaps", "exposed", "sum"))


def layer_lines(prices, x):
    """The budget of one layer: milliseconds forward + backward."""
    lines = [f"{x}: K {x.strips}", HEADING]
    for way in WAYS if x.tensor > 1 else WAYS[:2]:
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


def what_if(prices, layouts):
    """MFU of the aims' layouts with one assumption worse than assumed."""
    mine = [x for x in layouts if str(x) in AIMS]
    lines = [f"{'':52}" + "".join(f"{x.workload.split('-')[1]:>8}" for x in mine)]
    for name, value in (("products", 710e12), *WORSE):
        with machine.assumed(name, value):
            figures = [100 * mfu(x, step_seconds(prices, x, STRIPS, machine.of("products"))[0]) for x in mine]
        a = machine.ASSUMED[name]
        said = "as assumed" if value == a.value else f"{name} {value / a.unit:.4g} instead of {a.value / a.unit:.4g}"
        lines.append(f"  {said:50}" + "".join(f"{f:8.1f}" for f in figures))
    return lines


def shown(layouts):
    """Those whose layers and transfers are shown: of each aim, beside the recipes, and of llama2 the first."""
    return [x for x in layouts if str(x) in AIMS or x.beside or (x.workload, x.gpus) == ("llama2-70b", 64)]


def page():
    """The whole text."""
    prices, cells, layouts = table.read(), published(), all_layouts()
    text = ["The budget of a step on H100s, on paper. Nothing here was measured on a GPU by xgsw.",
            "Written by validation/budget/budget.py; what the words mean is said in validation/budget/README.md.", "",
            "Assumed", *machine.table(), "", "Recipe MFU in percent",
            f"{'':36}{'':8}{'products at most 710 TF/s':>24}{'at most 790 TF/s':>24}{'strips at 710':>16}",
            f"{'layout':36}{'recipe':>8}" + 2 * "".join(f"{way:>8}" for way in WAYS) + f"{'step s':>9}{'bubble':>7}",
            *(step_line(prices, x, cells) for x in layouts), "",
            "Recipe MFU with strips, one assumption worse", *what_if(prices, layouts), "",
            "One layer and microbatch, ms forward + backward", ""]
    for x in shown(layouts):
        text += layer_lines(prices, x)
    text += ["Products of a layer: TF/s by nvidia-matmul-heuristics as ring, strips, whole; strips of whole",
             *(product_line(prices, name, x) for name, x in shapes(layouts).items()), "",
             "Transfers of a layer and microbatch (data: of a layer, once a step), products at most 710 TF/s", ""]
    for x in shown(layouts):
        text += transfer_lines(prices, x) if x.gpus > 1 else []
    return "\n".join(text[:-1]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
