#!/usr/bin/env python3
"""The dry run: parameters, bytes per parameter of the recipe's anchor, and bytes equal to what a run lays out."""
import re

from program import Tap, alone, deck_file, ranks, results

PARAMETERS = {"llama3.1-8b": 8.030e9, "llama3.1-70b": 70.554e9, "llama3.1-405b": 405.853e9}
PROXIES = {32: 29.704e9, 64: 99.834e9, 128: 201.840e9, 512: 405.853e9}


def figure(name, text):
    return float(re.search(rf"{name} +([0-9.e+]+)", text).group(1))


tap = Tap()
for workload, parameters in PARAMETERS.items():
    run = alone("--dry-run", deck_file(f"[{workload}]\nsize = full\nprecision = bf16\n"), "--ranks", "2048")
    tap.ok(run.returncode == 0 and abs(figure("parameters", run.stdout) / parameters - 1) < 1e-4, f"{workload} has {parameters:.5g} parameters", run.stdout)
for count, parameters in PROXIES.items():
    run = alone("--dry-run", deck_file("[llama3.1-405b]\nsize = full\nprecision = bf16\n"), "--ranks", str(count))
    tap.ok(abs(figure("parameters", run.stdout) / parameters - 1) < 1e-4, f"llama3.1-405b at {count} ranks has {parameters:.5g} parameters", run.stdout)

run = alone("--dry-run", deck_file("[llama3.1-8b]\nsize = full\nprecision = bf16\ndata = 8\n"), "--ranks", "8")
per_parameter = figure("optimizer", run.stdout)
total = per_parameter * figure("parameters", run.stdout)
tap.say(f"8b on 8 data ranks: {per_parameter} bytes a parameter, {total / 1e9:.3f} GB; the recipe's 44.272 GB is {44.271689728e9 / total - 1:.2%} above")
tap.ok(abs(per_parameter - 5.5) < 1e-3 and "global 128" in run.stdout, "llama3.1-8b, 8 data ranks, BF16: 5.5 bytes a parameter", run.stdout)
tap.ok("not built" in alone("--dry-run", "llama31.dat", "--ranks", "512").stdout, "what is not built is described all the same")

for layout in ("tensor = 2\ndata = 2", "data = 4\nsharding = none", "tensor = 4\nrecompute = layer", "data = 2\ntensor = 2\nrecompute = mlp\nmicro_batch = 2",
               "tensor = 2\npipeline = 2\nchunks_per_stage = 2", "context = 2\npipeline = 2\ntensor = 1", "tensor = 2\ncontext = 2\noverlap = on"):
    deck = deck_file(f"backend = host\nprecision = fp32 bf16\nsteps = 1\ncheck = off\nrecord = none\n[llama3.1-8b]\nsize = small\nlayers = 4\n{layout}\n")
    told = [int(n) for n in re.findall(r"^ +0 +0 .* (\d+)$", alone("--dry-run", deck, "--ranks", "4").stdout, re.M)]
    laid = [r["arena_bytes"] for r in results(ranks(4, deck))]
    tap.ok(len(laid) == 2 and told == laid, f"bytes told are bytes laid out: {layout!r}", f"{told} {laid}")
tap.done()
