#!/usr/bin/env python3
"""The command line: what it prints, what it refuses, and the status."""
import fcntl
import json
import os
import re
import tempfile

from program import Tap, alone, deck_file, ranks, results

KEYS = """size precision fp8_scale fp8_scaling backend record output sheet steps warmup minutes repeats seed tokens
    tensor pipeline context expert data shard chunks_per_stage copies capacity microbatch global_batch sequence
    layers hidden ffn heads kv_heads vocabulary recompute sharding schedule strips context_gradients overlap
    deterministic transfer_sms peak_bf16 peak_fp8 learning_rate learning_rate_warmup check expect tolerance
    power_limit checkpoint checkpoint_every checkpoint_keep checkpoint_read load stall_seconds time_limit profile
    profile_ranks""".split()
DEVELOPER_KEYS = "weight_gradient_queue order order_seed share_devices attention fault".split()

tap = Tap()
for option, keys in ("--keys", KEYS), ("--keys developer", DEVELOPER_KEYS):
    run = alone(*option.split())
    listed = [line.split()[0] for line in run.stdout.split("\n\n")[0].splitlines()[1:]]
    tap.ok(run.returncode == 0 and listed == keys, f"{option} lists {len(keys)} keys", run.stdout)
for arguments, lines, word in ((["--keys", "tensor"], 2, "tensor-parallel"), (["--keys", "fault"], 3, "all_reduce"),
                               (["--list", "gpt3-52k"], 10, "[gpt3-52k]")):
    run = alone(*arguments)
    tap.ok(run.returncode == 0 and run.stdout.count("\n") <= lines and word in run.stdout,
           f"{' '.join(arguments)} answers for one", run.stdout + run.stderr)
for arguments, line in ((["--keys", "tensr"], "tensr is not a key; the nearest is tensor"),
                        (["--keys", "Ns"], "Ns is not a key; --keys lists them"),
                        (["--list", "grok"], "grok is not a workload; the nearest is grok1-314b"),
                        (["--list", "gpt5"], "gpt5 is not a workload; --list names them")):
    run = alone(*arguments)
    tap.ok(run.returncode == 2 and run.stderr == line + "\n" and run.stdout == "", line, run.stdout + run.stderr)
run = alone("--fields")
FIELDS = [line.split()[:2] for line in run.stdout.split("\n\n")[0].splitlines()[1:]]
tap.ok(run.returncode == 0 and ["results", "median_seconds"] in FIELDS and ["spans", "begin"] in FIELDS,
       "--fields names what is known of a case", run.stdout)
run = alone("--list")
tap.ok(run.returncode == 0 and all(w in run.stdout for w in ("llama3.1-8b", "llama3.1-70b", "llama3.1-405b")),
       "--list names the workloads")
tap.ok("embedding fp32, master none" in run.stdout
       and "fp32 sums of bf16 reductions (as in the recipe) with shard > 1, otherwise bf16" in run.stdout,
       "--list tells of Nemotron's FP32 embedding and of Llama 2's gradients", run.stdout)
run = alone("--version")
tap.ok(run.returncode == 0 and all(w in run.stdout for w in ("xgsw", "MPI", "HDF5", "oneDNN", "CUDA")),
       "--version names what it was built with", run.stdout)
run = alone("--help")
tap.ok(run.returncode == 0 and "--dry-run" in run.stdout and run.stderr == "", "--help explains")
run = alone("--dry-run", "--on-host")
tap.ok(run.returncode == 0 and run.stdout.startswith("xgsw reads inputs/gsw.dat, because no deck was given\n"),
       "without a deck it reads gsw.dat, and says so first", run.stdout[:200] + run.stderr)
for arguments, words in ((["--nonsense"], "--nonsense is not an option"),
                         (["--ranks", "0", "--dry-run", "gsw.dat"], "--ranks 0"),
                         (["--ranks"], "--ranks needs a count"), (["gsw.dat", "ramp.dat"], "two decks"),
                         (["--step-seconds", "0", "--dry-run", "gsw.dat"], "--step-seconds 0"),
                         (["--step-seconds", "2", "gsw.dat"], "--step-seconds goes with --dry-run"),
                         (["--on-host", "gsw.dat"], "--on-host goes with --dry-run"),
                         (["--json", "-", "--keys"], "nothing else has a JSON form"),
                         (["--json", "-", "--fields", "--list"], "nothing else has a JSON form"),
                         (["--json", "/nowhere/x", "--fields"], "cannot write /nowhere/x: No such file"),
                         (["--timeline", "x", "--dry-run", "gsw.dat"], "--timeline goes with a run or --project"),
                         (["--strict", "--dry-run", "gsw.dat"], "--strict goes with a run"),
                         (["--device-memory", "big", "--dry-run", "gsw.dat"], "--device-memory big: give"),
                         (["--device", "B20", "--dry-run", "gsw.dat"], "--device B20: the known GPUs are H100-PCIe "),
                         (["--device", "B200", "gsw.dat"], "--device goes with --dry-run"),
                         (["--device-memory", "141", "gsw.dat"], "--device-memory goes with --dry-run"),
                         (["--node-ranks", "8", "gsw.dat"], "--node-ranks goes with --dry-run"),
                         (["--keys", "tensor", "pipeline"], "take one name or none"),
                         (["--ranks", "8", "gsw.dat"], "--ranks goes with --dry-run"),
                         (["--slice", "gsw.dat"], "--slice needs --ranks N"),
                         (["--slice", "gsw.dat", "--ranks", "8", "--rank", "0", "--stages"], "give one of them"),
                         (["--slice", "gsw.dat", "--ranks", "8", "--rank", "-1"], "--rank -1: give a rank"),
                         (["--slice", "gsw.dat", "--ranks", "8", "--seconds", "0"], "--seconds 0: give how long"),
                         (["--rank", "1", "gsw.dat"], "go with --slice"),
                         (["/nowhere.dat"], "cannot be read"), (["inputs"], "it is a folder")):
    run = alone(*arguments)
    tap.ok(run.returncode == 2 and words in run.stderr and run.stdout == "", f"refused: xgsw {' '.join(arguments)}",
           run.stdout + run.stderr)
run = alone("--replay", "inputs")
tap.ok(run.returncode == 2 and run.stderr == "inputs: it is not a regular file\n", "refused: a replay of a folder",
       run.stdout + run.stderr)
run = alone("gsw.dat", threads=100000)
tap.ok(run.returncode == 2 and run.stderr == "xgsw: OMP_NUM_THREADS asks for 100000 threads a rank; at most 1024\n"
       and run.stdout == "", "refused: more threads than a rank can have", run.stdout + run.stderr)
run = alone("gsw.dat", variables={"MPI_LOCALNRANKS": "4"})
tap.ok(run.returncode == 2 and "4 ranks were started, but each is alone" in run.stderr and run.stdout == "",
       "refused: ranks that the launcher of another MPI starts", run.stdout + run.stderr)
run = alone(deck_file("record = none\ncheck = off\nsteps = 1\n[llama3.1-8b]\nsize = check\n"),
            variables={"OMPI_COMM_WORLD_SIZE": "1", "SLURM_STEP_NUM_TASKS": "4"})
tap.ok(run.returncode == 0 and ", 1 not checked" in run.stdout,
       "one rank within another launcher's many runs", run.stdout
       + run.stderr)
run = ranks(2, deck_file("record = /tmp\n[llama3.1-8b]\n"))
tap.ok(run.returncode == 2 and "record: /tmp is not a regular file" in run.stderr and run.stdout == "",
       "refused: a record that cannot be written", run.stdout + run.stderr)
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/a.h5"
    text = f"record = {path}\ncheck = off\nsteps = 1\n[llama3.1-8b]\nsize = check\n"
    deck = deck_file(text)
    for name, words in (("/nowhere/x.json", "cannot write /nowhere/x.json"), (deck, "is the deck: name another file"),
                        (path, "is the record: name another file")):
        run = alone(deck, "--json", name)
        tap.ok(run.returncode == 2 and words in run.stderr and not run.stdout and not os.listdir(folder),
               f"refused: --json {name}, without a file left", run.stdout + run.stderr)
    copy = f"{folder}/copy"
    for name, words in (("/nowhere/x", "cannot write /nowhere/x"), (path, "is the record"), (copy, "file of --json")):
        run = alone(deck_file(f"{text}output = {name}\n"), "--json", copy)
        tap.ok(run.returncode == 2 and words in run.stderr and not run.stdout and os.listdir(folder) == ["copy"],
               f"refused: output = {name}, without a file left", run.stdout + run.stderr)
    for arguments in [], ["--progress"]:
        run = alone(deck_file(f"{text}output = {copy}\n"), *arguments)
        with open(copy, encoding="utf-8") as file:
            said = file.read()
        passing = r"(case . of [^\n]*)?\n\033\[K|^{.*\n"     # the progress, and what --json writes
        tap.ok(run.returncode == 0 and said == re.sub(passing, "", run.stdout, flags=re.M),
               "output has a copy of the report, without progress, and replaces the earlier one", said)
    for name in os.listdir(folder):
        os.remove(f"{folder}/{name}")
    with open(f"{path}.journal", "wb") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)     # like another running program
        run = alone(deck)
    brief = json.loads(run.stdout.split("XGSW_RESULT ")[-1].splitlines()[0])
    tap.ok(run.returncode == 0 and brief["record"] == f"{folder}/a-1.h5" and os.path.exists(brief["record"]),
           "XGSW_RESULT names the record that was written", brief)
run = ranks(2, deck_file("record = none\ncheck = off\nsteps = 1\n[llama3.1-8b]\nsize = check\ntensor = 4\n"))
tap.ok(run.returncode == 3 and "\nNOTHING TRAINED: case 1: " in run.stdout and '"verdict":"SKIPPED"' in run.stdout,
       "a case that needs more ranks is SKIPPED; a run of nothing else ends with status 3", run.stdout)
run = ranks(2, deck_file("record = none\ncheck = off\nsteps = 1\n[llama3.1-8b]\nsize = full\ndata = 2\n"
                       "layers = 1\nvocabulary = 800000000\n"))
tap.ok(run.returncode == 3 and "of memory" in run.stdout,
       "a case that does not fit is SKIPPED before allocation, with the figure", run.stdout)
run = ranks(2, deck_file("record = none\ncheck = off\nsteps = 1\nwarmup = 0\n[llama3.1-8b]\nsequence = 130\n"
                       "layers = 1\nglobal_batch = 2\n"))
case = (results(run) or [{}])[0]
tap.ok(run.returncode == 0 and case.get("passed") and case["size"] == "small" and case["sequence"] == 130,
       "what only the size of GPUs would have refused runs on the host", run.stdout + run.stderr)
flat = {*KEYS, *DEVELOPER_KEYS, *(name for group, name in FIELDS if group in ("-", "results", "steps"))} - {"step"}
own = {group for group, _ in FIELDS} - {"-", "results", "steps", "ranks", "devices", "spans", "fp8_tensors",
                                     "samples", "rank_sums"}
tap.ok(set(case) == flat | own, "a result line has every key and every field of --fields that is not the record's only",
       set(case) ^ (flat | own))
of_check, of_operations = ({name for of, name in FIELDS if of == group} for group in ("check_model", "operations"))
tap.ok(set(case.get("check_model", [])) == of_check
       and set(case.get("operations", {}).get("matmul", [])) == of_operations - {"name"}, "so have its objects", case)
tap.done()
