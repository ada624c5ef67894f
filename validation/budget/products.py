#!/usr/bin/env python3
"""Prices every product of the catalogue's layouts with nvidia-matmul-heuristics and writes products.list.

    pip download --no-deps nvidia-matmul-heuristics==0.1.0.27 && unzip -d /tmp/heuristics nvidia_matmul_heuristics*.whl
    validation/budget/products.py /tmp/heuristics          # from the repository's root, after make

It needs no GPU. Of the library's 64 candidates for an H100 the fastest counts, as xgsw tries cuBLASLt's."""
import os
import sys

from layouts import FAMILIES, FP8, all_layouts, fp8_layouts, products, ring_pieces

LIST = "validation/budget/products.list"
CANDIDATES = 64
HEAD = """# Microseconds of each product on an H100 SXM, BF16 or FP8, as estimated by nvidia-matmul-heuristics
# {version}: the fastest of {candidates} candidates (CUTLASS3, precision TST or QST, tuned by its model of performance).
# It knows no limit of power and no split accumulation, and no operand order makes a difference to it. Written by
# products.py.
# m n k operands microseconds
"""


def needed():
    """Keys of all products, as strips, whole and as pieces of a ring."""
    keys = set()
    for x in all_layouts() + fp8_layouts():
        for head in (False, True):
            for pieces in {x.strips, 1} if x.fp8 else {x.strips, 1, ring_pieces(x)}:
                keys |= {product.key for product in products(x, pieces, head)}
    return sorted(keys)


class Library:
    """nvidia-matmul-heuristics, asked about an H100."""

    def __init__(self, folder):
        sys.path.insert(0, folder)
        import nvMatmulHeuristics as library  # pylint: disable=import-error,import-outside-toplevel
        self.library, self.asked = library, {}
        for operands in ("NT", "NN", "TN", FP8):
            self.asked[operands] = self.interface(*(("QST", "NT") if operands == FP8 else ("TST", operands)))

    def interface(self, precision, order):
        ask = self.library.NvMatmulHeuristicsInterface(
            backend=self.library.NvMatmulHeuristicsTarget.CUTLASS3, precision=precision,
            flags=self.library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING)
        gpu, layout = ask.createHardwareDescriptor(), self.library.NvMatmulHeuristicsMatmulLayout[f"{order}_ROW_MAJOR"]
        ask.setHardwarePredefinedGpu(gpu, self.library.NvMatmulHeuristicsNvidiaGpu.H100_SXM)
        assert ask.loadInternalDiscoverySet(layout, gpu)
        return ask, gpu, layout

    def microseconds(self, m, n, k, operands):
        ask, gpu, layout = self.asked[operands]
        problem = ask.makeNvMatmulHeuristicsProblem(m, n, k, layout)
        return 1e6 * min(c["runtime"] for c in ask.get(problem, CANDIDATES, hardware_descriptor=gpu))


def version_of(folder):
    infos = [name for name in os.listdir(folder) if name.endswith(".dist-info")]
    return infos[0].removesuffix(".dist-info").split("-")[1]


def read(path=LIST):
    """{(m, n, k, operands): microseconds}"""
    with open(path, encoding="utf-8") as rows:
        words = [row.split() for row in rows if not row.startswith("#")]
    return {(int(m), int(n), int(k), operands): float(us) for m, n, k, operands, us in words}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    library, keys = Library(sys.argv[1]), needed()
    rows = [f"{m:6} {n:6} {k:6} {operands:3} {library.microseconds(m, n, k, operands):9.2f}\n"
            for m, n, k, operands in keys]
    with open(LIST, "w", encoding="utf-8") as out:
        out.write(HEAD.format(version=version_of(sys.argv[1]), candidates=CANDIDATES) + "".join(rows))
    print(f"{len(rows)} products of {', '.join(FAMILIES)}", flush=True)
    os._exit(0)              # the library ends with a segmentation fault where its destructor runs


if __name__ == "__main__":
    main()
