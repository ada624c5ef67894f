#!/usr/bin/env python3
"""A wrong router is found. Each mutant is the program with one place of it made wrong, built in a copy of the tree: on
emulated GPUs the check must say FAILED, since its references compute on the host; a host whose router is wrong has
wrong references too, so there operations_experts must, which has the rule written out in double."""
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

CUDA, HOST = "src/machine/cuda/kernels/router.cu", "src/machine/host/router.c"
PROGRAM, UNIT = "build/emulator/xgsw-emulator", "build/emulator/units/operations_experts"
# Half of an even share, so that much is dropped; logits of few bits, so that some are equal.
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
    ("the balance loss counts tokens after dropping", HOST, "of_sequence[ROUTED_CHOSEN * r->experts + e] += 1.0f;",
     "of_sequence[ROUTED_CHOSEN * r->experts + e] += choice < 0 ? 0.0f : 1.0f;"),
    ("the balance loss has no gradient", CUDA, "* (r.balance * chosen[e] - mean);", "* 0.0f;"),
    ("the balance loss has no gradient", HOST, "* (balance * chosen[e] - mean);", "* 0.0f;"),
]
# The two chosen ones' part of the sum of all e^logit.
SHARE = """
#define SHARE(experts, logit) ({ float two = 0.0f, all = 0.0f; for (int e = 0; e < experts; e++) { \\
    all += exp_shared(logit); if (choice_expert(choice[0]) == e || choice_expert(choice[1]) == e) \\
    two += exp_shared(logit); } two / all; })
"""
tap = Tap()


def copy_of_tree(to):
    """What building the emulated program and one unit test again needs."""
    for name in ("src", "validation", "run"):
        shutil.copytree(TOP / name, to / name)
    shutil.copy2(TOP / "Makefile", to)
    shutil.copytree(TOP / "build/emulator", to / "build/emulator", ignore=shutil.ignore_patterns("units"))


def run(command, folder, **variables):
    environment = dict(os.environ, OMP_NUM_THREADS="1", CMOCKA_MESSAGE_OUTPUT="TAP", **variables)
    environment.pop("XGSW_TEST_MACHINE", None)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300)


def judged(folder, file):
    """(are all tests passed, what they say) of the mutant that is built there."""
    target = PROGRAM if file == CUDA else UNIT
    built = run(["make", target], folder)
    if built.returncode:
        return None, built.stdout + built.stderr
    if file == HOST:
        units = run([target], folder)
        return units.returncode == 0, units.stdout
    said = run([target, deck_file(DECK)], folder).stdout
    lines = [line for line in said.splitlines() if line.startswith("XGSW_RESULT ")]
    if not lines:
        return None, said
    result = json.loads(lines[0].split(" ", 1)[1])
    return result["passed"], "\n".join(line for line in said.splitlines() if line.startswith("Check"))


with tempfile.TemporaryDirectory(prefix="xgsw-mutants-") as name:
    tree = Path(name)
    copy_of_tree(tree)
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
tap.done()
