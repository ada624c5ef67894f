#!/usr/bin/env python3
"""Power of the conservation check (src/bench/check/conservation.c): how likely it finds one faulty sum over n ranks.

BF16 gradients are normal and independent between ranks. Signs are random, so totals whose elements differ by d differ
by a normal number of deviation |d|. healthy: four deviations of a faultless sum, divided by its limit."""

import math

import numpy as np

SLICES, COMPARISONS = 16, 1e6
FACTOR = math.sqrt(2 * math.log(2 * COMPARISONS / 1e-6))


def bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def summed(g, nccl):
    """Rounds after every addition (nccl), or once."""
    total = g[0]
    for part in g[1:]:
        total = bf16(total + part) if nccl else total + part
    return bf16(total)


def limit(g, total, nccl):
    n, before, after = len(g), float((g.astype(float) ** 2).sum()), float((total.astype(float) ** 2).sum())
    once = 2.0**-8 * math.sqrt(after) + (n - 1) * 2.0**-24 * math.sqrt(n * before)
    return FACTOR * (math.sqrt(n - 1) * 2.0**-8 * math.sqrt(max(before, after)) if nccl else once)


def found(d, t):
    """Returns the probability that one of 16 slices like this one is found. In one slice |D| <= t by chance."""
    return 1 - math.erf(t / math.sqrt(2) / np.linalg.norm(d)) ** SLICES


def main():
    random = np.random.default_rng(1)
    print(f"{'sums':>6} {'n':>4} {'elements':>9} {'healthy':>8} {'skipped':>9} {'part dropped':>13} {'doubled':>9}"
          f"   one exponent bit of one element: bits 7 (highest) to 0")
    for nccl in (False, True):
        for n in (2, 8, 128):
            for elements in (2**10, 2**16):
                g = bf16(random.standard_normal((n, elements)) * 2.0**-10)
                total, exact = summed(g, nccl), g.astype(float).sum(axis=0)
                t = limit(g, total, nccl)
                flips = []
                for bit in range(7, -1, -1):
                    # A large result widens the limit of its slice, because the limit contains the squares of results.
                    with np.errstate(all="ignore"):
                        flipped = (total.view(np.uint32) ^ np.uint32(1 << 23 + bit)).view(np.float32).astype(float)
                        own = FACTOR * 2.0**-8 * np.abs(flipped) * (math.sqrt(n - 1) if nccl else 1)
                        flips.append(np.mean(~(np.abs(flipped - total) <= np.hypot(t, own))))
                print(f"{'nccl' if nccl else 'fp32':>6} {n:4} {elements:9} {np.linalg.norm(total - exact) * 4 / t:8.2f}"
                      f" {found(exact - g[0], t):9.6f} {found(g[0], t):13.6f} {found(g[0], t):9.6f}   "
                      + " ".join(f"{share:.3f}" for share in flips))


main()
