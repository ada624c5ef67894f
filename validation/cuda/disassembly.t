#!/usr/bin/env python3
"""Compares the machine code of every kernel for sm_90a with disassembly.list: 128-bit loads and stores in kernels that
wait for memory, tensor cores in attention, no local memory. The disassembler is the toolkit's, or comes from PyPI into
build/cuobjdump. The test is skipped without either, and for other releases of CUDA.

    validation/cuda/disassembly.t --print     # what each kernel holds"""
import collections
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, "validation/program")
from program import Tap  # noqa: E402

BUILD, LIST, TOOLS = Path(os.environ.get("BUILD", "build/mpicc")), "validation/cuda/disassembly.list", "build/cuobjdump"
TARGET, RELEASE = "sm_90a", "13.0"
PACKAGES = ["nvidia-cuda-cuobjdump==13.*", "nvidia-cuda-nvdisasm==13.*"]
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][\w.]*)")


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def find_tools():
    """Returns the path of cuobjdump. Extends PATH, because cuobjdump searches for nvdisasm there."""
    homes = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin", TOOLS + "/nvidia/cu13/bin"]
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *homes])
    return shutil.which("nvdisasm") and shutil.which("cuobjdump")


def fetch_tools():
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", TOOLS, *PACKAGES]
    if subprocess.run(command, capture_output=True, check=False, timeout=300).returncode:
        skip("there is no cuobjdump, and " + " ".join(PACKAGES) + " cannot be had from PyPI")
    for wheel in Path(TOOLS).glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(TOOLS)
    for tool in Path(TOOLS).glob("nvidia/*/bin/*"):
        tool.chmod(0o755)


def output_of(*command, given=None):
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


def disassembled():
    """Returns {kernel: {instruction: number}}."""
    kernels = {}
    for source in sorted(Path("src").glob("**/*.cu")):
        listing = output_of("cuobjdump", "-sass", "-arch", TARGET, str(BUILD / f"{source}.o"))
        for text in output_of("c++filt", given=listing).split("Function : ")[1:]:
            name, _, code = text.partition("\n")
            name = re.sub(r"\(.*|^void ", "", name).replace(" ", "")
            kernels[name] = collections.Counter(filter(lambda x: x != "NOP", INSTRUCTION.findall(code)))
    return kernels


def listed():
    """Returns [(pattern, words)]. The first match counts."""
    with open(LIST, encoding="utf-8") as rows:
        words = [row.split() for row in rows if row.strip() and not row.startswith("#")]
    return [(row[0], row[1:] if row[1] != "-" else []) for row in words]


def count(code, prefixes):
    """Returns the number of instructions that begin with one of these, such as HMMA/HGMMA."""
    return sum(n for name, n in code.items() if name.startswith(tuple(prefixes.split("/"))))


def lacking(code, words):
    wanted = [word for word in words if word != "local"]
    return [word for word in wanted if not count(code, word)] + \
           (["no local memory"] if "local" not in words and count(code, "LDL/STL") else [])


def print_table(kernels):
    columns = {"instructions": "", "LDG.128": "LDG.E.128/LDGSTS.E.BYPASS.128", "STG.128": "STG.E.128", "LDG": "LDG",
               "STG": "STG", "local": "LDL/STL", "cvt.bf16": "F2FP.BF16", "ex2": "MUFU.EX2", "tensor": "HMMA/HGMMA"}
    print(f"{'kernel':42}" + "".join(f"{name:>13}" for name in columns))
    for name, code in sorted(kernels.items()):
        print(f"{name:42}" + "".join(f"{count(code, prefixes):13}" for prefixes in columns.values()))


def run_tests(kernels):
    tap, rows = Tap(), listed()
    used = set()
    for name, code in sorted(kernels.items()):
        pattern, words = next((row for row in rows if fnmatch.fnmatchcase(name, row[0])), (None, []))
        used.add(pattern)
        lacks = lacking(code, words)
        tap.ok(pattern and not lacks, f"{name}: {' '.join(words) or 'nothing asked'}",
               f"it lacks {', '.join(lacks)}" if pattern else f"{LIST} has no row for it")
    unused = [pattern for pattern, _ in rows if pattern not in used]
    tap.ok(not unused, "every row has a kernel", " ".join(unused))
    tap.ok(all(lacking(code, ["STG.E.512"]) for code in kernels.values()), "what no kernel has is missed in each")
    tap.done()


flags = BUILD / "kernel_flags"
if not flags.exists() or flags.read_text().split()[-1] != RELEASE:
    skip(f"nothing is compiled for {TARGET} by CUDA {RELEASE}")
if not find_tools():
    fetch_tools()
if "--print" in sys.argv:
    print_table(disassembled())
else:
    run_tests(disassembled())
