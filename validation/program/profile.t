#!/usr/bin/env python3
"""Profiles: an NVTX tool sees each operation that is submitted and, on the host, executed; it captures the steps of the
deck; no bit changes; a watched run is NOT VALID. Then nsys under run/launch, if it is installed."""
import collections
import csv
import glob
import os
import re
import shutil
import subprocess
import tempfile

from program import FULL, PROGRAM, Tap, deck_file, ranks, results

LISTENER = os.path.abspath(f"{os.environ.get('BUILD', 'build/mpicc')}/shims/program/nvtx_listener.so")
EMULATOR = os.path.abspath("build/emulator/xgsw-emulator")
SETTINGS = "check = off\nsize = check\nglobal_batch = 4\nwarmup = 1\nsteps = 4\ndeterministic = yes\nbackend = {}\n"
# Tensor ranks, captured in all timed steps and in two; then pipeline ranks, of which only the second is captured.
CASES = "[llama3.1-8b]\ntensor = 2\n{}[llama3.1-8b]\npipeline = 2\nchunks_per_stage = 2\n{}"
PROFILES = "profile = 1-5 2-4\n", "profile = 0-1\nprofile_ranks = 1-1\n"
STEPS = ["1234", "23"], ["1234", "23", "0"]
# The short test on the slow emulator.
SMALL = "record = none\ncheck = off\nsize = check\nlayers = 1\nglobal_batch = 1\nwarmup = 1\nsteps = 2\n" \
        "backend = cuda\n[llama3.1-8b]\ntensor = 2\nprofile = 1-3\n"
PHASE = r"(batch|forward|backward|recompute|gradient|optimizer)( chunk \d+)?"
AROUND = re.compile(rf"step|{PHASE}|layer \d+")     # all other ranges are operations
NESTED = re.compile(rf"(step/{PHASE}/(layer \d+/)?)?\w+ [\w.]+|step(/{PHASE}(/layer \d+)?)?")


def read(path):
    """Returns the captures of a rank (steps, operations submitted and executed), and the errors in its ranges."""
    captures, wrong, stack, begun = [([], [], [])], [], [], {}
    with open(path, encoding="utf-8") as file:
        calls = [line.split(" ", 2) for line in file.read().splitlines()]
    for kind, number, name in ((*call, "", "")[:3] for call in calls):
        if kind == ">":
            stack.append(name)
            wrong += [f"{stack}"] * (not NESTED.fullmatch("/".join(stack)))
            captures[-1][0].extend([number] * (name == "step"))
            captures[-1][1].extend([name] * (not AROUND.fullmatch(name)))
        elif kind == "<":
            stack.pop()
        elif kind == "=":
            wrong += [f"{number} {name} is registered in a capture"] * (len(captures) % 2 == 0)
        elif name == "profile" or begun.get(number) == "profile":
            captures.append(([], [], []))
            wrong += [f"a capture begins or ends in {stack} {begun}"] * bool(stack or len(begun) != (kind == "]"))
            begun = {number: name} if kind == "[" else {}
        elif kind == "[":
            begun[number] = name
            captures[-1][2].append(name)
        else:
            del begun[number]
    return captures[1::2], wrong + [f"never closed: {stack} {begun}"] * bool(stack or begun)


def deck_of(backend, profiles):
    return "record = none\n" + SETTINGS.format(backend) + CASES.format(*profiles)


def run(program, deck, **variables):
    done = ranks(2, deck_file(deck), program=program, variables=variables)
    return results(done), done.stdout + done.stderr


def watch(tap, program, backend, folder):
    """Tests what the listener sees of a backend. Returns the results, and the output."""
    small = backend == "cuda" and not FULL
    told, said = run(program, SMALL if small else deck_of(backend, PROFILES), NVTX_INJECTION64_PATH=LISTENER,
                     XGSW_RANGES=f"{folder}/{backend}")
    for rank, steps in enumerate([["12"]] * 2 if small else STEPS):
        captures, wrong = read(f"{folder}/{backend}.{rank}")
        tap.ok(not wrong, f"{backend}, rank {rank}: ranges are nested and closed, and named before captures", wrong[:9])
        tap.ok(["".join(c[0]) for c in captures] == steps, f"{backend}, rank {rank}: the steps asked for", captures)
        tap.ok(all(sorted(c[2]) == (sorted(c[1]) if backend == "host" else []) for c in captures),
               f"{backend}, rank {rank}: executions are shown on the host only")
    captures, _ = read(f"{folder}/{backend}.0")
    submitted = collections.Counter(name.split()[0] for name in captures[0][1])
    recorded = {name: row["count"] for name, row in told[0]["operations"].items() if row["count"]}
    tap.ok(submitted == recorded and "all_gather qkv" in captures[0][1],
           f"{backend}: as many ranges as the record has operations", f"{submitted} {recorded}")
    return told, said


def compare(tap, program, backend, told, said):
    """Tests that no bit changes; and the reasons for the listener and for a trace of NCCL."""
    plain, _ = run(program, deck_of(backend, ("", "")), NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="COLL")
    bits = [(case["weights_digest"], case["losses"], case["gradient_norms"]) for case in plain + told]
    tap.ok(len(plain) == 2 and bits[2:] == [bits[0], bits[0], bits[1]], f"{backend}: no bit changes", f"{bits}\n{said}")
    reasons = [" ".join(case["invalid_reasons"]) for case in (plain[0], told[0], told[1])]
    tap.ok(all(words in why for words, why in zip(("profiled: NCCL_DEBUG_SUBSYS=COLL makes", "profiled: steps 1 to 4",
                                                   f"profiled: NVTX_INJECTION64_PATH={LISTENER} att"), reasons)),
           f"{backend}: who is watched is NOT VALID", reasons)


def summary(report):
    """Returns counts of nested ranges and of other ranges by name, as nsys prints them."""
    if not os.path.exists(report + ".nsys-rep"):    # Debian's nsys does not find its importer
        importer = os.path.dirname(shutil.which("nsys")) + "/../lib/nsight-systems/host-linux-x64/QdstrmImporter"
        subprocess.run([importer, "-i", report + ".qdstrm"], check=False, capture_output=True)
    text = "".join(subprocess.run(["nsys", "stats", "-r", name, "-f", "csv", report + ".nsys-rep"], check=False,
                                  capture_output=True, text=True).stdout for name in ("nvtx_sum", "nvtxsum"))
    rows = list(csv.DictReader(text[text.find("Time (%)"):].splitlines()))
    return [{row["Range"].split(":")[-1]: int(row["Instances"]) for row in rows if row.get("Style") == style}
            for style in ("PushPop", "StartEnd")]


def real_tool(tap, folder):
    deck = deck_file(SETTINGS.format("host") + "[llama3.1-8b]\ntensor = 2\nprofile = 2-4\n")
    os.environ.update(XGSW=os.path.abspath(PROGRAM), ENABLE_PROFILE="true", JOB_TOTAL_GPUS="2", SLURM_LOG_DIR=folder)
    done = subprocess.run(["run/launch", "--start", "mpirun", deck], capture_output=True, text=True, check=False)
    reports = sorted({os.path.splitext(path)[0] for path in glob.glob(f"{folder}/results/*/*/2/nsys/*_2g_*_0_[01].*")})
    tap.ok(done.returncode == 0 and len(reports) == 2, "run/launch leaves a report of each rank", done)
    for report in reports:
        submitted, executed = summary(report)
        operations = {name: count for name, count in submitted.items() if not AROUND.fullmatch(name)}
        tap.ok(submitted.get("step") == 2 and executed == {**operations, "profile": 1} and operations["all_gather qkv"],
               f"nsys, {report[-3:]}: 2 steps, {sum(operations.values())} operations", f"{submitted}\n{executed}")


tap = Tap()
with open(PROGRAM, "rb") as file:
    if b"InitializeInjectionNvtx2" not in file.read():
        print("1..0 # SKIP built without NVTX")
        raise SystemExit
with tempfile.TemporaryDirectory() as folder:
    compare(tap, PROGRAM, "host", *watch(tap, PROGRAM, "host", folder))
    seen = watch(tap, EMULATOR, "cuda", folder)
    if FULL:
        compare(tap, EMULATOR, "cuda", *seen)
    (real_tool if shutil.which("nsys") else lambda tap, _: tap.ok(True, "nsys # SKIP it is not here"))(tap, folder)
tap.done()
