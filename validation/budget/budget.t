#!/usr/bin/env python3
"""The budget: the committed page is what budget.py writes, the aims are reached on paper, rings cost what the audit of
2026-11-22 found, and every assumption matters."""
import sys

sys.path.insert(0, "validation/program")
sys.path.insert(0, "validation/budget")
import machine  # noqa: E402
import products as table  # noqa: E402
from costs import code_bytes  # noqa: E402
from budget import AIMS, FP8_SHOWN, page  # noqa: E402
from layouts import all_layouts, fp8_layouts  # noqa: E402
from program import Tap  # noqa: E402
from rates import Explained  # noqa: E402
from steps import FURTHER, RING, STRIPS, WAYS, mfu, mixed_ceiling, step_seconds  # noqa: E402

PAGE = "validation/measured/budget.txt"
# Recipe MFU in percent that the audit states of the code with rings, and how far this budget may be from it.
AUDIT = {"llama3.1-8b 1 GPUs T1": (69, 1.5), "llama3.1-8b 8 GPUs C2D4": (59, 2.0),
         "llama3.1-405b 512 GPUs T8P8C2D4": (20.5, 3.5)}


def percent(prices, x, way):
    return 100 * mfu(x, step_seconds(prices, x, way, machine.of("products"))[0])


def figures(prices, some):
    return [percent(prices, x, way) for x in some for way in WAYS[x.fp8:]]


def every_assumption_matters(tap, prices, some):
    """A fifth worse or better changes the MFU of some layout: no assumption is stated and not used."""
    as_assumed = figures(prices, some)
    for name, assumption in machine.ASSUMED.items():
        with machine.assumed(name, 0.8 * assumption.value):
            changed = figures(prices, some)
        tap.ok(changed != as_assumed, f"{name} matters: up to "
               f"{max(abs(c - a) for c, a in zip(changed, as_assumed)):.2f} percent of MFU for a fifth of it")


def codes_cost(tap, prices, x):
    """Codes of their own passes cost more than those that come with the value, and both more than none."""
    fused, passes = percent(prices, x, STRIPS), percent(prices, x._replace(fused=False), STRIPS)
    ceiling = 100 * mixed_ceiling(x)
    tap.ok(passes < fused < ceiling, f"{x}: {passes:.1f} percent with passes, {fused:.1f} without, below {ceiling:.1f}")
    least = min(sum(code_bytes(x, how)) for how in (True, False))
    tap.ok(0 < least == sum(code_bytes(x, True)), f"{x}: {least / 1e6:.0f} MB of codes a layer", least)


def main():
    tap, prices, reasons = Tap(), table.read(), Explained("budget")
    layouts, fp8 = {str(x): x for x in all_layouts()}, {str(x): x for x in fp8_layouts()}
    with open(PAGE, encoding="utf-8") as f:
        tap.ok(f.read() == page(), f"{PAGE} is up to date", "renew it: validation/budget/budget.py")
    for name, aim in AIMS.items():
        for way in (STRIPS, FURTHER):
            reached = percent(prices, layouts[name], way)
            holds = reasons.holds(tap, reached >= aim, f"{name}: {way}")
            tap.ok(holds, f"{name}: {way}: {reached:.1f} percent, aim {aim}")
    reasons.all_used(tap)
    for name, (found, off) in AUDIT.items():
        ring = percent(prices, layouts[name], RING)
        tap.ok(abs(ring - found) <= off, f"{name}: {ring:.1f} percent with rings, in the audit {found}")
    for name in FP8_SHOWN:
        codes_cost(tap, prices, fp8[name])
    every_assumption_matters(tap, prices, [layouts[name] for name in {**AIMS, **AUDIT}] + [fp8[n] for n in FP8_SHOWN])
    tap.done()


main()
