#!/usr/bin/env python3
"""The kernels that cuDNN loads for the attention of every recipe (short: of two). With a fake driver (fake_driver.c),
the library compiles its first choice for an H100 and passes it on. Each must use Hopper's tensor cores. Backward, the
later pieces of a context rank are two calls (attention_staging.h). The long test tries every piece, not only the first
and the last.

    XGSW_TEST_LONG=1 validation/machine/cudnn_kernels.t --print          # the table, after make units"""
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, "validation/program")
from program import FULL, LONG, Tap, alone, results  # noqa: E402

UNIT = Path(os.environ.get("BUILD", "build/mpicc") + "/units/cudnn_kernels")
DRIVER = os.environ.get("BUILD", "build/mpicc") + "/shims/machine/fake_driver.so"
HOPPER = {"forward": re.compile("sm90.*fprop.*wgmma"), "backward": re.compile("sm90.*bprop.*wgmma")}


def recipes():
    """Returns the cases of Llama's published cells on H100s, as the program resolves them."""
    with open("validation/reference/cells.csv", encoding="utf-8") as rows:
        cells = {(r["workload"], r["gpus"]) for r in csv.DictReader(rows)
                 if r["workload"].startswith("llama" if FULL else ("llama3.1-8b", "llama2-70b"))}
    return [case for workload in sorted({workload for workload, _ in cells})
            for case in results(alone("--dry-run", f"reference/{workload}-bf16.dat", "--ranks",
                                      ",".join(gpus for name, gpus in cells if name == workload), "--json", "-"))]


def calls(x, every):
    """Returns (s, t, b, heads, kv_heads, d, rows) of each attention: queries and keys. Context ranks have several."""
    tensor, context, sequence = x["tensor"], x["context"], x["sequence"]
    rest = x["microbatch"], x["heads"] // tensor, x["kv_heads"] // tensor, x["head_dim"]
    if context == 1:
        return [(sequence, sequence, *rest, "fused")]
    piece, ends = sequence // (2 * context), range(1, 2 * context + 1)
    return [(piece, n * piece, *rest, "apart") for n in ends if every or n in (ends[0], ends[-1])]


def driver(folder):
    shutil.copy(DRIVER, f"{folder}/libcuda.so.1")


def planned(folder, some, capability):
    """Returns {(call, direction): output of the program}."""
    lines = "".join(f"{folder}/{i} {' '.join(map(str, call))}\n" for i, call in enumerate(some))
    paths = [folder, os.environ.get("LD_LIBRARY_PATH", "")]
    run = subprocess.run([UNIT, capability], input=lines, text=True, capture_output=True, check=False, timeout=600,
                         env=dict(os.environ, LD_LIBRARY_PATH=":".join(filter(None, paths))))
    said = dict(line.split(" ", 1) for line in run.stdout.splitlines() if line.startswith(folder))
    return {(call, way): said.get(f"{folder}/{i}{end}", (run.stdout + run.stderr)[-400:] or f"status {run.returncode}")
            for i, call in enumerate(some) for way, end in (("forward", ""), ("backward", "-backward"))}


def kernels(folder, i, way):
    """Returns the names of the kernels in the loaded programs, in the order of loading."""
    names = []
    for image in sorted(Path(folder).glob(f"{i}{'-backward' if way == 'backward' else ''}.[0-9]*")):
        names += sorted(set(re.findall(rb"\0\.text\.(\w+)", image.read_bytes())))
    return [name.decode().removeprefix("cudnn_generated_fort_native_sdpa_") for name in names]


def found(some, capability="900"):
    """Returns {(call, direction): (output, kernels)} for a device of that compute capability."""
    with tempfile.TemporaryDirectory(prefix="xgsw-cudnn-") as folder:
        driver(folder)
        said = planned(folder, some, capability)
        return {(call, way): (said[call, way], kernels(folder, some.index(call), way)) for call, way in said}


# (call, its result): heads of other widths, a sequence that is no multiple of a tile, and rows that are no multiple of
# 16 bytes, for which the program has its own kernels.
OTHERS = {(500, 500, 1, 4, 2, 64, "fused"): "planned", (500, 1000, 2, 4, 2, 64, "apart"): "planned",
          (128, 128, 1, 4, 2, 16, "fused"): "planned", (64, 64, 1, 4, 2, 12, "fused"): "not for the library"}


# Other devices, and the family of their kernels. cuDNN 9.19 and 9.28 have no backward engine there for heads of 192 (or
# of 256, so padding does not help). The program's own kernels compute them.
ELSEWHERE = {"800": "sm80", "890": "sm80", "1000": "sm100", "1030": "sm100", "1200": "sm120"}
SQUARE, WIDE = (8192, 8192, 1, 16, 2, 128, "fused"), (4096, 4096, 1, 12, 1, 192, "fused")


def words(call):
    s, t, b, heads, kv, d, rows = call
    return f"{s} queries, {t} keys, b {b}, heads {heads}/{kv}, d {d}, {rows}"


def is_hopper(call, way, said, names):
    """Expects one Hopper kernel; two for backward with fewer queries than keys."""
    count = 2 if way == "backward" and call[0] < call[1] else 1
    return said == "planned" and len(names) == count and all(HOPPER[way].search(name) for name in names)


def main():
    if not UNIT.exists():
        print("1..0 # SKIP built without cuDNN")
        return
    some, tap = sorted({call for x in recipes() for call in calls(x, LONG)}), Tap()
    results = found(some)
    if "--print" in sys.argv:
        for (call, way), (said, names) in results.items():
            print(f"{words(call):58} {way:9}{', '.join(names) if said == 'planned' else said}")
        return
    for (call, way), (said, names) in results.items():
        tap.ok(is_hopper(call, way, said, names), f"{words(call)}, {way}: {', '.join(names)}", said)
    for (call, way), (said, _) in found(list(OTHERS)).items():
        tap.ok(said == OTHERS[call], f"{words(call)}, {way}: {OTHERS[call]}", said)
    for capability, family in ELSEWHERE.items() if LONG else (("800", "sm80"),):
        for (call, way), (said, names) in found([SQUARE, WIDE], capability).items():
            if call == WIDE and way == "backward":
                tap.ok(said == "no engine takes this graph", f"{capability}: none {way} of {words(call)}", said)
            else:
                tap.ok(said == "planned" and all(re.match(f"sm80|{family}", name) for name in names),
                       f"{capability}: {', '.join(names)}", said)
    tap.done()


main()
