#!/usr/bin/env python3
"""Compares the output of ptxas for every kernel for sm_90a with machine_code.list: registers a thread and spilled
bytes. For a template, the largest number of its instances counts. Skipped without the CUDA machine, and for other
releases of CUDA, which allocate otherwise.

    validation/cuda/machine_code.t --print     # the list as it would be now"""
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "validation/program")
from program import Tap  # noqa: E402

BUILD, LIST = Path(os.environ.get("BUILD", "build/mpicc")), "validation/cuda/machine_code.list"
TARGET, RELEASE = "sm_90a", "13.0"
OTHERS, SPILLED = ("sm_80", "sm_89", "sm_100f", "sm_120"), 48  # only targets that were built; spilled bytes
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'\n.*\n.* (\d+) bytes spill stores, "
                   r"(\d+) bytes spill loads\nptxas info +: Used (\d+) registers")


def kernel_name(demangled):
    return re.match(r"(?:void )?(\w+)", demangled)[1]


def compiled(target=TARGET):
    """Returns {kernel: (registers, spilled bytes)}."""
    reports = [BUILD / f"{source}.ptxas" for source in Path("src").glob("**/*.cu")]
    said = "".join(report.read_text() for report in reports if report.exists())
    entries = [entry for entry in ENTRY.findall(said) if entry[1] == target]
    names = subprocess.run(["c++filt"], input="\n".join(e[0] for e in entries), text=True, capture_output=True,
                           check=True).stdout.splitlines()
    kernels = {}
    for name, (_, _, stores, loads, registers) in zip(map(kernel_name, names), entries):
        most = kernels.get(name, (0, 0))
        kernels[name] = max(most[0], int(registers)), max(most[1], int(stores) + int(loads))
    return kernels


def listed():
    with open(LIST, encoding="utf-8") as rows:
        words = [row.split() for row in rows if not row.startswith("#")]
    return {name: (int(registers), int(spilled)) for name, registers, spilled in words}


now = compiled()
if "--print" in sys.argv:
    print("".join(f"{name:32}{registers:4}{spilled:8}\n" for name, (registers, spilled) in sorted(now.items())), end="")
    sys.exit(0)
if not now or (BUILD / "kernel_flags").read_text().split()[-1] != RELEASE:
    print(f"1..0 # SKIP nothing is compiled for {TARGET} by CUDA {RELEASE}")
    sys.exit(0)
tap, allowed = Tap(), listed()
for name in sorted(now):
    most = allowed.get(name, (0, 0))
    tap.ok(name in allowed and all(is_ <= may for is_, may in zip(now[name], most)),
           f"{name}: {now[name][0]} registers of {most[0]}, {now[name][1]} bytes spilled of {most[1]}",
           "" if name in allowed else f"{LIST} has no row for it")
for target in OTHERS:
    over = {name: spilled for name, (_, spilled) in compiled(target).items() if spilled > allowed[name][1] + SPILLED}
    tap.ok(not over, f"{target}: {len(compiled(target))} kernels, none spills many more bytes than for {TARGET}", over)
tap.ok(not allowed.keys() - now.keys(), "every row has a kernel", " ".join(allowed.keys() - now.keys()))
tap.done()
