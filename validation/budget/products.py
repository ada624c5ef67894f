#!/usr/bin/env python3
"""Prices every product of the catalogue's layouts with nvidia-matmul-heuristics and writes products.list.

    pip download --no-deps nvidia-matmul-heuristics==0.1.0.27 && unzip -d /tmp/heuristics nvidia_matmul_heuristics*.whl
    validation/budget/products.py /tmp/heuristics          # from the repository's root, after make

It needs no GPU. Of the library's 64 candidates for an H100 the fastest counts, as xgsw tries cuBLASLt's."""
import os
import sys

from layouts import FAMILIES, all_layouts, products, ring_pieces

LIST = "validation/budget/products.list"
CANDIDATES = 64
HEAD = """# Microseconds of each product on an H100 SXM, BF16 summed in FP32, as estimated by nvidia-matmul-heuristics
# {version}: the fastest of {candidates} candidates (CUTLASS3, precision TST, tuned by its model of performance).
# It knows no limit of power, and no operand order makes a difference to it. Written by products.py.
# m n k operands microseconds
"""


def needed():
    """Keys of all products, as strips, whole and as pieces of a ring."""
    keys = set()
    for x in all_layouts():
        for head in (False, True):
            for pieces in {x.strips, 1, ring_pieces(x)}:
                keys |= {product.key for product in products(x, pieces, head)}
    return sorted(keys)


class Library:
    """nvidia-matmul-heuristics, asked about an H100."""

    def __init__(self, folder):
        sys.path.insert(0, folder)
        import nvMatmulHeuristics as library  # pylint: disable=import-error,import-outside-toplevel
        self.library = library
        self.ask = library.NvMatmulHeuristicsInterface(
            backend=library.NvMatmulHeuristicsTarget.CUTLASS3, precision="TST",
            flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING)
        self.gpu = self.ask.createHardwareDescriptor()
        self.ask.setHardwarePredefinedGpu(self.gpu, library.NvMatmulHeuristicsNvidiaGpu.H100_SXM)
        self.orders = {}
        for words in ("NT", "NN", "TN"):
            self.orders[words] = library.NvMatmulHeuristicsMatmulLayout[f"{words}_ROW_MAJOR"]
            assert self.ask.loadInternalDiscoverySet(self.orders[words], self.gpu)

    def microseconds(self, m, n, k, operands):
        problem = self.ask.makeNvMatmulHeuristicsProblem(m, n, k, self.orders[operands])
        return 1e6 * min(c["runtime"] for c in self.ask.get(problem, CANDIDATES, hardware_descriptor=self.gpu))


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
    rows = [f"{m:6} {n:6} {k:6} {operands} {library.microseconds(m, n, k, operands):10.2f}\n"
            for m, n, k, operands in keys]
    with open(LIST, "w", encoding="utf-8") as out:
        out.write(HEAD.format(version=version_of(sys.argv[1]), candidates=CANDIDATES) + "".join(rows))
    print(f"{len(rows)} products of {', '.join(FAMILIES)}", flush=True)
    os._exit(0)              # the library ends with a segmentation fault where its destructor runs


if __name__ == "__main__":
    main()
