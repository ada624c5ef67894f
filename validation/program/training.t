#!/usr/bin/env python3
"""Whole runs: the default deck passes on two ranks and leaves a record that validates. The short test takes its cases
at the smallest size."""
import os
import re
import subprocess
import tempfile

from program import FULL, Tap, alone, deck_file, ranks, results

STEP = "completed step:", "Training epoch", "Epoch 0:"
REASON = "NOT VALID ", "FAILED "
SMALLER = ("warmup = 0\nsteps = 2\nsequence = 64\nlayers = 4\nhidden = 64\nffn = 128\nheads = 4\nkv_heads = 4\n"
           "vocabulary = 512\n")


def readable(text):
    """Returns the errors: a case has at most 12 lines besides steps, reasons and lines for programs, and no line is
    above 110 columns. A reason has names of hosts and devices, so it may be longer."""
    cases, table = text[: text.rindex("\n\n====")].split("\ncase  ")
    lines = [line for line in cases.splitlines() if not line.startswith((*STEP, "{"))]
    wrong = [line for line in lines if len(line) > (600 if line.startswith(("XGSW_RESULT {", *REASON)) else 110)]
    begins = [i for i, line in enumerate(lines) if line.startswith("Case ")]
    for i, end in zip(begins, [*begins[1:], len(lines)]):
        own = [line for line in lines[i:end] if line and not line.startswith((*REASON, "FOM ", "XGSW_RESULT {"))]
        wrong += own if len(own) > 12 else []
    return wrong + [line for line in table.splitlines() if len(line) > 110 and not re.match(r" {6}\S", line)]


tap = Tap()
with tempfile.TemporaryDirectory() as folder:
    record = os.path.join(folder, "gsw.h5")
    with open("inputs/gsw.dat", encoding="utf-8") as f:
        text = f.read()
    body = text.split("\n", 2)[2]
    if not FULL:
        body = re.sub(r"^(warmup|steps) .*\n", "", body, flags=re.M).replace("[", SMALLER + "[", 1)
    deck = deck_file(f"record = {record}\n" + body)
    run = ranks(2, deck, timeout=580)
    cases = results(run)
    tap.ok(run.returncode == 0 and len(cases) == 14 and all(c["passed"] for c in cases),
           "the default deck: 14 cases PASSED on 2 ranks", run.stdout[-3000:] + run.stderr)
    date = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    tap.ok(re.search(rf"(?ms)^Start      {date}\nDuration   unknown .*^End        {date}, .* after the", run.stdout),
           "the report has the date and time of start and end, and what is known of the duration", run.stdout)
    last = run.stdout.splitlines()[-1]
    tap.ok(re.match("PASSED(, but no result is VALID: .*;|:) 14 of 14 cases computed correctly, ", last),
           "the last line is the verdict", last)
    tap.ok(not readable(run.stdout), "a case has at most 12 lines of at most 110 columns", readable(run.stdout))
    degrees = ("tensor", "pipeline", "chunks_per_stage", "context", "shard", "expert", "data")
    layouts = [(c["workload"], c["precision"], *(c[k] for k in degrees)) for c in cases]
    small = [("llama2-70b", 1, 1, 1, 1, 2, 1, 1), ("llama3.1-8b", 1, 1, 1, 2, 1, 1, 1),
             ("llama3.1-70b", 1, 2, 2, 1, 1, 1, 1), ("llama3.1-405b", 2, 1, 1, 1, 1, 1, 1),
             ("nemotron4-340b", 2, 1, 1, 1, 1, 1, 1), ("grok1-314b", 1, 1, 1, 1, 1, 2, 2),
             ("gpt3-175b", 1, 2, 1, 1, 1, 1, 1)]
    tap.ok(layouts == [(name, p, *layout) for name, *layout in small for p in ("bf16", "fp8")],
           "every family, over tensor, pipeline, context, shard, expert and data", layouts)
    tap.ok(all(c["check_model"]["residual"] < 16 and c["check_model"]["transfers"] > 0 for c in cases),
           "residuals are below 16, transfers are proven")
    for families, words in ((("llama2", "gpt3"), "completed step:"), ("llama3.1", "train_step_timing in s:"),
                            (("nemotron4", "grok1"), "train_step_timing in s=")):
        steps = sum(c["warmup"] + c["steps"] for c in cases if c["workload"].startswith(families))
        tap.ok(sum(words in line for line in run.stdout.splitlines()) == steps > 0,
               f"one line a step with the words of its recipe: {words}")
    merits = re.findall(r"^FOM (\S+) \w+ (\w+) 2 ranks: ([\d.]+) tokens/s", run.stdout, re.M)
    tap.ok(merits == [(c["workload"], c["precision"], f"{c['tokens_per_second']:.1f}") for c in cases],
           "a line FOM for each case", merits)
    checked = subprocess.run(["validation/validate.py", record], capture_output=True, text=True, check=False)
    tap.ok(checked.returncode == 0, "validate.py accepts the record", checked.stdout + checked.stderr)

    whole = ("size=full\ntensor=1\nshard=1\nlayers=2\nhidden=64\nffn=128\nheads=4\nkv_heads=2\nvocabulary=256\n"
             "sequence=64\nmicrobatch=1\nglobal_batch=4\nwarmup=2\nsteps=20\ncheck=off\n")
    other = whole.replace('shard=1', 'data=1')
    run = alone(deck_file(f"record = {record}\n[llama2-70b]\n{whole}[llama3.1-8b]\n{other}"))
    checked = subprocess.run(["validation/validate.py", record], capture_output=True, text=True, check=False)
    tap.ok(run.returncode == 0 and checked.returncode == 0,
           "learning rates of full size, from zero and not, are validated",
           run.stdout[-2000:] + run.stderr + checked.stdout + checked.stderr)

for count in (1, 3, 5, 8) if FULL else (3,):        # 2 is above
    body = re.sub(r"^(warmup|steps) .*\n", "", text.split("\n", 2)[2], flags=re.M)
    run = ranks(count, deck_file("record = none\n" + body.replace("[", SMALLER + "[", 1)), timeout=580)
    tap.ok(run.returncode == 0 and [c["ranks"] for c in results(run) if c["passed"]] == 14 * [count],
           f"the default deck: 14 cases PASSED on {count} ranks, none idle", run.stdout[-3000:] + run.stderr)

unchecked = "record = none\ncheck = off\nsteps = 10\nwarmup = 1\n"
extreme = ("[llama3.1-8b]\nsize = small\nprecision = fp32\nsteps = 2\nwarmup = 0\nlayers = 2\nhidden = 64\nffn = 80\n"
           "heads = 4\nkv_heads = 2\nvocabulary = 125\nsequence = 64\nglobal_batch = 4\nlearning_rate = 10\n")
rate = "[llama3.1-8b]\nsize = check\nlearning_rate = "
run = alone(deck_file(f"{unchecked}{rate}0\n{rate}100\nsteps = 4\nwarmup = 0\n{extreme}"), threads=2)
constant, diverged, overflowed = results(run)
tap.ok(constant["passed"] and not constant["valid"]
       and "learning rate 0: nothing is learned" in constant["invalid_reasons"],
       "a rate of 0 is not valid", constant["invalid_reasons"])
lines = run.stdout.splitlines()
told = [i for i, line in enumerate(lines) if re.match("Estimate   about .* for the rest of this case; ", line)]
tap.ok(len(told) == 1 and "iteration  0/10" in lines[told[0] - 1] and "iteration  1/10" in lines[told[0] + 1]
       and "\033" not in run.stdout,
       "before the first timed step a run says how long it takes; no file has its progress", run.stdout)
tap.ok(diverged["passed"] and not diverged["valid"]
       and any("training diverged" in reason for reason in diverged["invalid_reasons"]),
       "a rate of 100 passes, but is not valid: training diverged", run.stdout)
tap.ok(max(diverged["losses"]) > 2 * diverged["losses"][0] and "NOT VALID  the loss rose to" in run.stdout,
       "and the report says how far the loss rose", diverged["losses"])
# Computed in double, the second norm of the last case is 2e18.
tap.ok(not overflowed["passed"] and overflowed["gradient_norms"][1] is None
       and "step 1 is above 1.6e7" in overflowed["fail_reasons"][0]
       and "the exact sum's limit" in overflowed["fail_reasons"][0],
       "a gradient norm that the exact sum cannot hold is called that", overflowed["fail_reasons"])
run = alone(deck_file("record = none\ncheck = off\nsteps = 1\n[llama3.1-8b]\nsize = check\nprecision = fp32 fp32 bf16\n"
                      "order = submitted hostile\norder_seed = 1 2\n"), "--progress")
table = [line.split() for line in run.stdout.splitlines() if re.match(r" +\d+  llama3.1-8b ", line)]
tap.ok([(row[0], row[3], row[5], row[6]) for row in table] ==
       [(str(i + 1), p, *o) for i, (p, o) in enumerate((p, o) for p in ("fp32", "bf16") for o in (
           ("submitted", "-"), ("hostile", "1"), ("hostile", "2")))] and len(results(run)) == 6
       and "Case 1     stands for 4 combinations of its section" in run.stdout,
       "the same runs of a sweep run once; the last table has a column for each key swept", run.stdout[-2000:])
tap.ok("\033[K" in run.stdout and "case 6 of 6, step 1 of 1: about " in run.stdout,
       "a terminal is told the progress", run.stdout[-2000:])
tap.done()
