#!/usr/bin/env python3
"""Profiles: the ranges that a tool of NVTX is shown are those of the operations that were submitted and, on the host,
executed; captured are the steps that the deck names; no bit changes; who watches makes a run NOT VALID. Then the real
tool, nsys, under run/launch, where it is installed. Prints TAP."""
import collections
import csv
import glob
import os
import re
import shutil
import subprocess
import tempfile

from program import PROGRAM, Tap, deck_file, ranks, results

BUILD = os.environ.get("BUILD", "build/mpicc")
LISTENER = os.path.abspath(f"{BUILD}/shims/program/nvtx_listener.so")
EMULATOR = os.path.abspath("build/emulator/xgsw-emulator")
SETTINGS = ("check = off\nsize = check\nprecision = bf16\nglobal_batch = 4\nwarmup = 1\nsteps = 4\n"
            "deterministic = yes\nbackend = {}\n")
# Tensor ranks, captured in all timed steps and in two of them; then pipeline ranks, of which the second is captured.
CASES = ("[llama3.1-8b]\ntensor = 2\n{}", "[llama3.1-8b]\npipeline = 2\nchunks_per_stage = 2\n{}")
PROFILES = "profile = 1-5 2-4\n", "profile = 0-1\nprofile_ranks = 1-1\n"
STEPS = {0: ([1, 2, 3, 4], [2, 3]), 1: ([1, 2, 3, 4], [2, 3], [0])}
PHASE = re.compile(r"(batch|forward|backward|recompute|gradient|optimizer)(, chunk \d+)?$")
NESTED = re.compile(r"(o|s|sp|spo|spl|splo)$")


def letter(name):
    """s: a step, p: a phase, l: a layer, o: an operation."""
    return "s" if name == "step" else "p" if PHASE.match(name) else "l" if re.match(r"layer \d+$", name) else "o"


class Capture:
    def __init__(self):
        self.steps, self.submitted, self.executed = [], collections.Counter(), collections.Counter()


def read(path):
    """The captures of a rank, and what is wrong with its ranges."""
    captures, wrong, stack, begun, now, profile = [], [], [], {}, Capture(), None
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "=" and profile:
                wrong.append(f"registered in a capture: {rest}")
            elif kind == ">":
                payload, name = rest.split(" ", 1)
                stack.append(letter(name))
                if not NESTED.match("".join(stack)) or (stack[-1] == "s") != (payload != "-" and len(stack) == 1):
                    wrong.append(f"{name} ({payload}) in {stack}")
                if stack[-1] == "s":
                    now.steps.append(int(payload))
                now.submitted.update([name] * (stack[-1] == "o"))
            elif kind == "<":
                stack.pop()
            elif kind == "[":
                number, _, name = rest.split(" ", 2)
                begun[number] = name
                if name == "profile":
                    profile, now = number, Capture()
                    wrong += ["a capture begins within ranges"] * bool(stack or len(begun) > 1)
                else:
                    now.executed[name] += 1
            elif kind == "]":
                del begun[rest]
                if rest == profile:
                    captures.append(now)
                    wrong += ["a capture ends within ranges"] * bool(stack or begun)
                    profile, now = None, Capture()
    return captures, wrong + [f"never closed: {stack} {begun}"] * bool(stack or begun)


def kinds(counter):
    """Counts by kind of operation; their names begin with it."""
    of = collections.Counter()
    for name, count in counter.items():
        of[name.split()[0]] += count
    return of


def run(program, backend, profiles, **variables):
    os.environ.update(variables)
    deck = deck_file("record = none\n" + SETTINGS.format(backend) + "".join(map(str.format, CASES, profiles)))
    done = ranks(2, deck, program=program)
    for name in variables:
        del os.environ[name]
    return results(done) or [], done.stdout + done.stderr


def watch(tap, program, backend, folder):
    plain, said = run(program, backend, ("", ""))
    told, heard = run(program, backend, PROFILES, NVTX_INJECTION64_PATH=LISTENER, XGSW_RANGES=f"{folder}/{backend}")
    tap.ok(len(plain) == 2 and len(told) == 3, f"{backend}: runs", said + heard)
    for rank, steps in STEPS.items():
        captures, wrong = read(f"{folder}/{backend}.{rank}")
        tap.ok(not wrong, f"{backend}, rank {rank}: ranges are nested and closed, captures lie between them, and no name "
               "is registered in one", "\n".join(wrong[:9]))
        tap.ok([c.steps for c in captures] == list(steps), f"{backend}, rank {rank}: captured are the steps asked for",
               [c.steps for c in captures])
        tap.ok(all(c.executed == (c.submitted if backend == "host" else {}) for c in captures),
               f"{backend}, rank {rank}: the host shows each execution, a GPU's tool sees kernels by itself")
        if rank == 0:
            recorded = {name: row["count"] for name, row in told[0]["operations"].items() if row["count"]}
            tap.ok(kinds(captures[0].submitted) == recorded and sum(recorded.values()) > 100
                   and captures[0].submitted["all_gather qkv"],
                   f"{backend}: as many ranges as the record has operations", f"{captures[0].submitted} {recorded}")
    bits = [(case["weights_digest"], case["losses"], case["gradient_norms"]) for case in plain + told]
    tap.ok(bits[2] == bits[3] == bits[0] and bits[4] == bits[1], f"{backend}: no bit changes", bits)


def judge(tap):
    """The reasons of a run that is watched, traced or neither."""
    for variables, begins in (({}, None), ({"NVTX_INJECTION64_PATH": "/a.so"}, "NVTX_INJECTION64_PATH=/a.so attaches"),
                              ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL"}, "NCCL_DEBUG_SUBSYS=COLL on rank 0")):
        told, said = run(PROGRAM, "host", ("", ""), **variables)
        reasons = [reason for reason in told[0]["invalid_reasons"] if reason.startswith("profiled")] if told else None
        tap.ok(reasons == [] if not begins else len(reasons) == 1 and reasons[0].startswith(f"profiled: {begins}"),
               f"NOT VALID because of {begins}" if begins else "nobody watches", said)


def summary(report):
    """(style, name) -> count, as nsys has it."""
    importer = os.path.join(os.path.dirname(shutil.which("nsys")), "../lib/nsight-systems/host-linux-x64/QdstrmImporter")
    if not os.path.exists(report + ".nsys-rep"):    # Debian's nsys does not find it
        subprocess.run([importer, "-i", report + ".qdstrm"], check=False, capture_output=True)
    for name in "nvtx_sum", "nvtxsum":
        text = subprocess.run(["nsys", "stats", "--report", name, "--format", "csv", report + ".nsys-rep"], check=False,
                              capture_output=True, text=True).stdout
        if "Time (%)" in text:
            rows = csv.DictReader(text[text.index("Time (%)"):].splitlines())
            return {(row["Style"], row["Range"].removeprefix("xgsw:")): int(row["Instances"]) for row in rows}
    return {}


def real_tool(tap, folder):
    deck = f"{folder}/nsight.dat"
    with open(deck, "w", encoding="utf-8") as file:
        file.write("a deck\nfor nsys\n" + SETTINGS.format("host") + CASES[0].format(PROFILES[0].replace("1-5 ", "")))
    done = subprocess.run(["run/launch", "--start", "mpirun", deck], capture_output=True, text=True, check=False,
                          env={**os.environ, "XGSW": os.path.abspath(PROGRAM), "ENABLE_PROFILE": "true",
                               "JOB_TOTAL_GPUS": "2", "SLURM_LOG_DIR": folder, "OMP_NUM_THREADS": "1"})
    reports = sorted({os.path.splitext(path)[0] for path in glob.glob(f"{folder}/results/*/nsight/2/nsys/*")})
    tap.ok(done.returncode == 0 and [re.search(r"nsight_2g_[-\d]+_0_[01]$", path) is not None for path in reports]
           == [True, True], "run/launch leaves a report of each rank", f"{reports}\n{done.stdout}{done.stderr}")
    for report in reports:
        found = summary(report)
        styles = [{name: count for (style, name), count in found.items() if style == which and letter(name) == "o"}
                  for which in ("PushPop", "StartEnd")]
        tap.ok(found.get(("PushPop", "step")) == 2 and styles[1].pop("profile", 0) == 1 and styles[0] == styles[1]
               and sum(styles[0].values()) > 50, f"{os.path.basename(report)}: 2 steps, each operation submitted and "
               f"executed: {sum(styles[0].values())} ranges", found)


def main():
    tap = Tap()
    with open(PROGRAM, "rb") as file:
        if b"InitializeInjectionNvtx2" not in file.read():
            print("1..0 # SKIP built without NVTX")
            return
    with tempfile.TemporaryDirectory() as folder:
        watch(tap, PROGRAM, "host", folder)
        watch(tap, EMULATOR, "cuda", folder)
        judge(tap)
        if shutil.which("nsys"):
            real_tool(tap, folder)
        else:
            tap.ok(True, "nsys is not here # SKIP")
    tap.done()


main()
