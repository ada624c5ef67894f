#!/usr/bin/env python3
"""Tests that a wrong router and wrong FP8 are found. Each mutant is the program with one wrong place, built in a copy
of the tree. On emulated GPUs the check must say FAILED, because its references compute on the host. A host with a wrong
router has wrong references, too: there operations_experts must find it, which has the rule in double. FP8 is mutated on
the host: the check must find what only several ranks do wrong, and float64/fp8.t what the references do wrong, too."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "validation/program"))
from program import Tap, deck_file  # noqa: E402

CUDA, HOST = "src/machine/cuda/kernels/router.cu", "src/machine/host/network/router.c"
PROGRAM, UNIT = "build/emulator/xgsw-emulator", "build/emulator/units/operations_experts"
# Half of an even share, so that many choices are dropped. Logits have few bits, so that some are equal.
DECK = """record = none
steps = 1
warmup = 0
size = check
backend = cuda
precision = bf16
[grok1-314b]
capacity = 0.5
"""

# (what, file, right, wrong)
MUTANTS = [
    ("weights are the two's probabilities among all experts", CUDA, "r.weight[CHOICES * token + k] = w.of[k];",
     "r.weight[CHOICES * token + k] = w.of[k] * SHARE(r.experts, get(r.logits, token * r.experts + e));"),
    ("weights are the two's probabilities among all experts", HOST, "r->weight[CHOICES * token + k] = w.of[k];",
     "r->weight[CHOICES * token + k] = w.of[k] * SHARE(r->experts, logit(r->logits, token, e));"),
    ("of equal logits the higher expert is chosen", CUDA, "for (int64_t e = 0; e < experts; e++) t = top_two_with",
     "for (int64_t e = experts - 1; e >= 0; e--) t = top_two_with"),
    ("of equal logits the higher expert is chosen", HOST,
     "for (int64_t e = 0; e < tensor_columns(logits); e++) t = top_two_with",
     "for (int64_t e = tensor_columns(logits) - 1; e >= 0; e--) t = top_two_with"),
    ("the heaviest choices are dropped, not the lightest", CUDA, "body(at + k, float_bits(r.weight[at + k]))",
     "body(at + k, float_bits(1.0f - r.weight[at + k]))"),
    ("the heaviest choices are dropped, not the lightest", HOST, "float_bits(r->weight[CHOICES * token + k]) >= least",
     "float_bits(1.0f - r->weight[CHOICES * token + k]) >= least"),
    ("a token's other weight becomes 1 where one is dropped", CUDA, "r.choice[i] = choice_dropped(r.choice[i]);",
     "{ r.choice[i] = choice_dropped(r.choice[i]); r.weight[i ^ 1] = 1.0f; }"),
    ("a token's other weight becomes 1 where one is dropped", HOST, "r->choice[i] = choice_dropped(r->choice[i]);",
     "{ r->choice[i] = choice_dropped(r->choice[i]); r->weight[i ^ 1] = 1.0f; }"),
    ("the balance loss counts tokens after dropping", CUDA, "+= choice_expert(choice) == e;", "+= choice == e;"),
    ("the balance loss counts tokens after dropping", HOST, "statistics[ROUTED_CHOSEN * r->experts + e] += 1.0f;",
     "statistics[ROUTED_CHOSEN * r->experts + e] += choice < 0 ? 0.0f : 1.0f;"),
    ("the balance loss has no gradient", CUDA, "* (r.balance * chosen[e] - mean);", "* 0.0f;"),
    ("the balance loss has no gradient", HOST, "* (balance * chosen[e] - mean);", "* 0.0f;"),
]
# The fraction of the two chosen experts in the sum of all e^logit.
SHARE = """
#define SHARE(experts, logit) ({ float two = 0.0f, all = 0.0f; for (int e = 0; e < experts; e++) { \\
    all += exp_shared(logit); if (choice_expert(choice[0]) == e || choice_expert(choice[1]) == e) \\
    two += exp_shared(logit); } two / all; })
"""
CHECK, FLOAT64 = "the check", "validation/float64/fp8.t"
FP8_DECK = """record = none
steps = 1
warmup = 0
size = check
backend = host
precision = fp8
[llama3.1-8b]
tensor = 2
data = 2
sharding = optimizer
"""
GATHERS = "    if (b->owners && b->owners->size > 1) done = b->gathered"
# (what, who must find it, [(file, right, wrong)])
FP8_MUTANTS = [
    ("gradients are E4M3", FLOAT64,
     [("src/model/fp8.c", "E5M2", "E4M3"),
      ("src/base/fp8.h", "FP8_GRADIENT ? E5M2 : E4M3", "FP8_KINDS ? E5M2 : E4M3")]),
    ("gradients are E4M3, their scales those of E5M2", FLOAT64, [("src/model/fp8.c", "E5M2", "E4M3")]),
    ("amaxes are each rank's own", CHECK,
     [("src/train/scales.c", 'queues_all_reduce(&t->queues, t->queues.gradient, "amax", &t->mesh->all, '
                             "fp8_of(t)->amax);", "(void)t;")]),
    ("weights are transposed before they are gathered", CHECK,
     [("src/train/optimizer.c", "b->gathered = transpose_weights(t, b, gathered ? t->queues.gradient : "
                                "t->queues.compute);", "(void)gathered;"),
      ("src/train/optimizer.c", GATHERS,
       "    if (tensor_present(&b->transposed)) transpose_weights(t, b, t->queues.compute);\n" + GATHERS)]),
]
tap = Tap()


def copy_of_tree(to, build):
    """Copies what make needs to build the program of that build and one unit test again."""
    for name in ("src", "validation", "run"):
        shutil.copytree(TOP / name, to / name)
    shutil.copy2(TOP / "Makefile", to)
    shutil.copytree(TOP / build, to / build, ignore=shutil.ignore_patterns("units"))


def run(command, folder, **variables):
    environment = dict(os.environ, OMP_NUM_THREADS="1", CMOCKA_MESSAGE_OUTPUT="TAP", **variables)
    environment.pop("XGSW_TEST_MACHINE", None)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False,
                          timeout=300)


def passed_of(said):
    """Returns (whether the case of a run passed, the lines of its check)."""
    lines = [line for line in said.splitlines() if line.startswith("XGSW_RESULT ")]
    if not lines:
        return None, said
    result = json.loads(lines[0].split(" ", 1)[1])
    return result["verdict"] == "PASSED", "\n".join(line for line in said.splitlines() if line.startswith("Check"))


def judged(folder, file):
    """Builds the mutant. Returns (whether all tests passed, their output)."""
    target = PROGRAM if file == CUDA else UNIT
    built = run(["make", target], folder)
    if built.returncode:
        return None, built.stdout + built.stderr
    if file == HOST:
        units = run([target], folder)
        return units.returncode == 0, units.stdout
    return passed_of(run([target, deck_file(DECK)], folder).stdout)


def fp8_judged(folder, who):
    """Builds the host's program. Returns (whether all tests passed, their output)."""
    built = run(["make", "xgsw"], folder)
    if built.returncode:
        return None, built.stdout + built.stderr
    if who == FLOAT64:
        test = run([FLOAT64], folder, XGSW="./xgsw")
        return test.returncode == 0, test.stdout
    said = run(["run/local", "-q", "-n", "4", "-x", "./xgsw", deck_file(FP8_DECK)], folder).stdout
    return passed_of(said)


def router_mutants(tree):
    copy_of_tree(tree, "build/emulator")
    for file in (CUDA, HOST):
        passed, said = judged(tree, file)
        tap.ok(passed, f"{file}: passes as it is", said)
    for what, file, right, wrong in MUTANTS:
        text = (TOP / file).read_text(encoding="utf-8")
        (tree / file).write_text(SHARE + text.replace(right, wrong), encoding="utf-8")
        passed, said = judged(tree, file)
        tap.ok(text.count(right) == 1 and passed is False, f"{file}: {what}: is found", said)
        tap.say(" ".join(said.splitlines()[-1:]))
        (tree / file).write_text(text, encoding="utf-8")


def mutate(tree, changes):
    """Makes the changes. Returns whether each place exists."""
    found = True
    for file, right, wrong in changes:
        text = (tree / file).read_text(encoding="utf-8")
        found = found and right in text
        (tree / file).write_text(text.replace(right, wrong), encoding="utf-8")
    return found


def fp8_mutants(tree):
    copy_of_tree(tree, os.environ.get("BUILD", "build/mpicc"))
    for who in (FLOAT64, CHECK):
        passed, said = fp8_judged(tree, who)
        tap.ok(passed, f"FP8: {who} passes as it is", said)
    for what, who, changes in FP8_MUTANTS:
        found = mutate(tree, changes)
        passed, said = fp8_judged(tree, who)
        tap.ok(found and passed is False, f"FP8: {what}: {who} finds it", said)
        tap.say(" ".join(said.splitlines()[-1:]))
        for file, _, _ in changes:
            (tree / file).write_text((TOP / file).read_text(encoding="utf-8"), encoding="utf-8")


for mutants in (router_mutants, fp8_mutants):
    with tempfile.TemporaryDirectory(prefix="xgsw-mutants-") as name:
        mutants(Path(name))
tap.done()
