#!/usr/bin/env python3
"""Cases on devices, run by the program for the emulated GPU: which are refused, which use the host, and what the report
and the record say about devices. (All ways to choose a backend: units/plan/shapes.c.)"""
import os
import re
import subprocess
import tempfile

from program import Tap, alone, deck_file, ranks, results, two_nodes

PROGRAM = os.path.abspath("build/emulator/xgsw-emulator")


def run_on(deck, variables=(), **emulated):
    """Runs the deck on two ranks of an emulated node."""
    emulated = {f"EMULATOR_{name}": str(value) for name, value in emulated.items()}
    return ranks(2, deck_file(deck), "--verbose", program=PROGRAM, variables={**emulated, **dict(variables)})


def body(settings, record="none"):
    return (f"record = {record}\ncheck = off\nwarmup = 0\nsteps = 1\n[llama3.1-8b]\nsize = check\nlayers = 1\n"
            f"global_batch = 1\nprecision = fp32\ntensor = 2\n{settings}\n")


tap = Tap()
if not os.access(PROGRAM, os.X_OK):
    print(f"Bail out! no {PROGRAM}: make emulator")
    raise SystemExit(1)

run = run_on(body("backend = cuda"), DEVICES=0)
tap.ok(run.returncode == 2
       and re.search(r":\d+: backend: cuda cannot run here: rank 0 on \S+: no GPU is visible to this process; auto",
                     run.stderr),
       "refused: cuda where a rank has no GPU", run.stdout + run.stderr)
run = run_on(body("backend = auto"), DEVICES=0)
tap.ok(run.returncode == 0 and re.search(r"\nBackend    host: rank 0 on \S+: no GPU is visible to this process\n",
                                         run.stdout)
       and results(run)[0]["backend"] == "host", "there auto takes the host and says why", run.stdout + run.stderr)
run = run_on(body("backend = cuda"), CONTEXT=0)
tap.ok(run.returncode == 2
       and re.search(r": backend: cuda cannot run here: rank 0 on \S+: GPU 0 gives no context: "
                     r"cudaErrorDevicesUnavailable", run.stderr),
       "refused: cuda where a GPU is seen and cannot be used", run.stdout + run.stderr)
run = run_on(body("backend = cuda"), SHARED_DEVICE=1)
tap.ok(run.returncode == 2
       and re.search(r"cannot run here: ranks 0 and 1 share the device GPU-\S+; share_devices = yes allows it\n",
                     run.stderr),
       "refused: two ranks on one GPU", run.stdout + run.stderr)

with tempfile.TemporaryDirectory() as folder:
    record = os.path.join(folder, "devices.h5")
    run = run_on(body("backend = cuda\nshare_devices = yes", record), SHARED_DEVICE=1)
    told = (results(run) or [{}])[0]
    tap.ok(run.returncode == 0 and told.get("passed")
           and "share_devices = yes: a key for developers" in told["invalid_reasons"],
           "two ranks on one GPU that the deck lets them share: PASSED, not valid", run.stdout[-3000:] + run.stderr)
    checked = subprocess.run(["validation/validate.py", record], capture_output=True, text=True, check=False)
    tap.ok(checked.returncode == 0, "validate.py accepts its record", checked.stdout + checked.stderr)

run = run_on(body("backend = auto"), DEVICES=2, CLOCKS_EVENTS=4)      # a power cap
told = (results(run) or [{}])[0]
tap.ok(run.returncode == 0 and told.get("backend") == "cuda"
       and "\nBackend    cuda: every rank has a GPU\n" in run.stdout,
       "auto takes the GPUs where every rank has one", run.stdout[-3000:] + run.stderr)
table = re.findall(r"\nRank (\d) +Emulated H100 on \S+, (GPU-[0-9a-f-]{36}), driver .+, 132 multiprocessors, 85\.9 GB, "
                   r"ECC(?=\n)", run.stdout)
tap.ok([rank for rank, _ in table] == ["0", "1"] and len({identity for _, identity in table}) == 2,
       "the report lists every rank's device", run.stdout)
tap.ok(told["throttled"] == told["clocks_unknown"] == "" and told["device"] == "Emulated H100"
       and told["recipe_mfu"] is None and "own kernels" in told["engines"]
       and not any("share" in reason or "oversubscribed" in reason for reason in told["invalid_reasons"])
       and 0 < told["communicator_bytes"] <= told["device_outside_bytes"]
       and re.search(r"\n  device_outside_bytes +[0-9.e+]+ bytes\n", run.stdout),
       "clocks and memory are reported; a power cap holds nothing back, nothing is shared", run.stdout)
printed = set(re.findall(r"^  ([a-z0-9_]+)[ .]", run.stdout, re.M))
known = {name for name, value in told.items() if value not in (None, "") and not isinstance(value, list)
         and not (isinstance(value, dict) and not any(value.values()))}
tap.ok(len(known) > 100 and known <= printed, "--verbose prints what --json has, but for steps",
       sorted(known - printed))
tap.ok("attention own kernels (FP32): built without cuDNN; products" in run.stdout,
       "why own kernels compute attention is said", run.stdout)
tap.ok(re.search(r"\nTransfers  NCCL 2.28.9, copy engines in \d windows?; 0 SMs left free; copy engines move "
                 r"tensor/expert\n", run.stdout), "how transfers are made is said", run.stdout)
with tempfile.TemporaryDirectory() as folder:
    record = os.path.join(folder, "devices.h5")
    whole = "check = off\nbackend = cuda\n" \
            "[llama3.1-70b]\nsize = full\ntensor = 2\nlayers = 40\nglobal_batch = 1\n"
    run = run_on(f"record = none\n{whole}".replace("layers = 40", "layers = 7"), NCCL_MEGABYTES=5000)
    tap.ok(re.search(r"SKIPPED: needs [0-9.]+ GB of memory on a device of 1 rank, [0-9.]+ GB more than is available "
                     r"in addition to communicators of [0-9.]+ GB a rank", run.stdout),
           "communicators that take more than was left for them: SKIPPED with what they took", run.stdout)
    run = run_on(f"record = {record}\n{whole}")
    needs = re.search(r"SKIPPED: needs ([0-9.]+) GB of memory on a device of 1 rank", run.stdout)
    dry = alone("--dry-run", "--ranks", "2", deck_file(whole), program=PROGRAM).stdout
    paper = re.search(r"\((\d+\.\d+) GB\) on rank 0", dry)
    room = 1.5 + 0.3 * (1 + 2)          # one communicator of tensor, two of all ranks
    tap.ok(needs and paper and abs(float(needs[1]) - float(paper[1]) - room) < 0.06,
           "memory outside the arena is left room for", run.stdout)

run = run_on(body("backend = cuda"), {"NCCL_MAX_CTAS": "4"})
tap.ok(run.returncode == 2 and re.search(r"xgsw: rank 0 on \S+: the environment changes how transfers share a GPU with "
                                         r"computation, but the deck decides that: unset NCCL_MAX_CTAS\n", run.stderr),
       "refused: an environment that lays out transfers in another way", run.stdout + run.stderr)
with tempfile.TemporaryDirectory() as folder:
    record = os.path.join(folder, "site.h5")
    site = os.path.join(folder, "nccl.conf")
    with open(site, "w", encoding="utf-8") as f:
        f.write("NCCL_MAX_CTAS=4\nNCCL_IB_HCA=mlx5\n")
    run = run_on(body("backend = cuda", record), {"NCCL_CUMEM_ENABLE": "0", "NCCL_CONF_FILE": site}, NVML=0)
    with open(record, "rb") as f:
        told = f.read()
    tap.ok(run.returncode == 0 and b"NCCL_IB_HCA=mlx5" in told and b"NCCL_MAX_CTAS=4" not in told,
           "of a site's nccl.conf what only tunes is recorded, the rest does not get in", run.stdout + run.stderr)
    tap.ok("\nTransfers  NCCL 2.28.9, its kernels: rank 0: NCCL_CUMEM_ENABLE is set; 8 SMs left free: tensor/expert 8\n"
           in run.stdout, "the environment can turn windows off", run.stdout)
    told = (results(run) or [{}])[0]
    tap.ok(told.get("passed") and any(reason.startswith("clocks not known: NVML does not tell rank 0")
                                      for reason in told["invalid_reasons"]),
           "without NVML a result is not valid", told)

for fabric, told in (("0", "tensor across"), ("5", "tensor across; tensor within an NVLink domain")):
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "domains.h5")
        command, launcher = two_nodes(1, PROGRAM, deck_file(body("backend = cuda", record)), "--verbose")
        run = subprocess.run(command, env={**os.environ, **launcher, "EMULATOR_FABRIC": fabric}, capture_output=True,
                             text=True, check=False)
        checked = subprocess.run(["validation/validate.py", record], capture_output=True, text=True, check=False)
        tap.ok(re.search(rf"\n  placement +2 nodes of 1 rank; {told}\n", run.stdout) and checked.returncode == 0
               and ("Warning    tensor groups span nodes" in run.stdout) == (fabric == "0"),
               f"two nodes, fabric {fabric}: {told}", run.stdout[-2000:] + run.stderr + checked.stdout)

with open("inputs/gsw.dat", encoding="utf-8") as f:
    default = re.sub(r"(?m)^steps .*|^warmup .*", "", f.read().split("\n", 2)[2])
idle = {"EMULATOR_IDLE": "1", "EMULATOR_GIGABYTES": "4"}    # computes nothing; no model of full width fits
for count in 1, 2, 4:
    run = ranks(count, deck_file("record = none\ncheck = off\nwarmup = 0\nsteps = 1\n" + default), program=PROGRAM,
                variables={**idle, "EMULATOR_DEVICES": str(count)})
    tap.ok(run.returncode == 0 and run.stdout.count(f"backend cuda, {count} of {count} rank") == 14
           and run.stdout.count("PASSED, NOT VALID") == 14, f"the default deck runs on {count} GPUs",
           run.stdout[-2000:] + run.stderr)


def sampled():
    """Judges the energy of a run of both boards: one or three of them would deviate more. Energy is known if the steps
    take longer than the second between two samples."""
    for steps in (6, 36, 216):
        deck = body("backend = cuda", record).replace("steps = 1\n", f"steps = {steps}\n")
        run = run_on(deck, SAMPLED_EVENTS=0x48, NCCL_VERSION=22605)
        told.update((results(run) or [{}])[0], output=run.stdout + run.stderr)
        if sum(told.get("step_seconds", [2.0])) > 1.5:
            break
    watts = (told.get("energy") or 0) / sum(told.get("step_seconds", [1]))
    return 2**-0.5 < watts / (2 * 612.5) < 2**0.5, f"{watts} W\n{run.stdout[-3000:]}"


with tempfile.TemporaryDirectory() as folder:
    record, told = os.path.join(folder, "samples.h5"), {}
    tap.timed(sampled, "energy by NVML's counters of both boards")
    held = "rank 0: hardware slowdown, hardware temperature, 0 s after the timed steps began"
    tap.ok(told.get("passed") and told["throttled"] == held and f"throttled device: {held}" in told["invalid_reasons"]
           and re.search(r"\n  energy_per_token +[0-9.e-]+ J\n  energy_method +NVML's counters of whole boards\n",
                         told["output"]),
           "a device that is held back between the window's ends: not valid", told["output"])
    tap.ok("\nTransfers  NCCL 2.26.5, its kernels: rank 0: NCCL is older than 2.28.3; 8 SMs left free" in
           told["output"], "an older NCCL has no windows", told["output"])
    checked = subprocess.run(["validation/validate.py", record], capture_output=True, text=True, check=False)
    tap.ok(checked.returncode == 0, "and validate.py finds it so", checked.stdout + checked.stderr)
tap.done()
