"""Planted faults in cases of the check model's size on four ranks. Each must end FAILED, or leave losses, norms and
final weights bit for bit unchanged.

Final weights are compared by the digests of the check model and of the timed steps."""
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "program"))
from program import deck_file, ranks, results  # noqa: E402

RANKS, STEPS, BLOCK = 4, 3, 100
NEVER = "the planted fault never struck"
PRECISIONS = ["precision = fp32", "precision = bf16", "precision = fp8", "precision = fp8\nfp8_scaling = current"]
LAYOUTS = [
    ("llama3.1-8b", "tensor = 2\nsharding = optimizer\nstrips = 2"), ("llama3.1-8b", "tensor = 4\noverlap = off"),
    ("llama3.1-8b", "context = 2\nsharding = optimizer\ncontext_gradients = bf16"),
    ("llama3.1-70b", "pipeline = 2\nchunks_per_stage = 2\ntensor = 2"), ("llama3.1-70b", "pipeline = 4"),
    ("llama2-70b", "shard = 2\ndata = 2\nsharding = optimizer"), ("llama2-70b", "data = 4\nrecompute = layer"),
    ("nemotron4-340b", "tensor = 2\ndata = 2\nsharding = optimizer"), ("gpt3-175b", "pipeline = 2\ndata = 2"),
    ("gpt3-175b", "data = 2\ntensor = 2\nsharding = optimizer"), ("grok1-314b", "expert = 2\ntensor = 2"),
    ("grok1-314b", "expert = 2\ncontext = 2\nsharding = optimizer"), ("grok1-314b", "expert = 4\nsharding = none"),
]


def run(cases):
    """Returns the results of cases (workload, layout, precision, fault or "")."""
    found = []
    for at in range(0, len(cases), BLOCK):
        text = f"size = check\nsteps = {STEPS}\nwarmup = 0\nbackend = host\nrecord = none\n"
        for workload, layout, precision, fault in cases[at:at + BLOCK]:
            text += f"[{workload}]\n{precision}\n{layout}\n" + (f"fault = {fault}\n" if fault else "")
        done = ranks(RANKS, deck_file(text), timeout=3000)
        found += results(done)
        if len(found) != min(at + BLOCK, len(cases)):
            sys.exit(f"Bail out! {len(found)} results\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return found


def operations(result):
    """Returns the operations of a step that a fault can name, without the totals that only prove sums of gradients."""
    return [name for name in result["operations"] if name != "signed_sums"]


def executions(result, operation):
    """Returns how often a step executes the operation on rank 0."""
    return max(1, result["operations"][operation]["count"] // STEPS)


def numbers(result):
    return result["check_model"]["digest"], result["weights_digest"], result["losses"], result["gradient_norms"]


def found_by(result):
    check = result["check_model"]
    twice = check["difference"].startswith("run twice")
    large = check["residual"] is None or check["residual"] >= 16      # None: not finite
    by = [("shadow", result["shadowed_mismatches"]), ("transfers", check["differences"] and not twice),
          ("second run", twice), ("hazards", result["hazards"]), ("residual", large)]
    return next((name for name, finds in by if finds), "timed steps")


def verdict(result, healthy, struck):
    if result["valid"]:
        return "WRONG: VALID"
    if any(NEVER in reason for reason in result["fail_reasons"]):
        return "struck nothing" if result["verdict"] == "FAILED" else "WRONG: passed, and struck nothing"
    if any(rule == "shadow" and rank != struck for rule, rank in zip(result["fail_rules"], result["fail_ranks"])):
        return f"WRONG: the shadow found it on the ranks {result['fail_ranks']}"
    if result["verdict"] == "FAILED":
        return "FAILED by " + found_by(result)
    return "harmless" if numbers(result) == numbers(healthy) else "WRONG: passed, with other numbers"


def judge(faults, healthy):
    """Returns the verdicts of faults. healthy: results without a fault by (workload, layout, precision)."""
    return [verdict(result, healthy[case[:3]], int(case[3].split()[3])) for case, result in zip(faults, run(faults))]


def wrong(faults, words):
    return "\n".join(f"{case}: {word}" for case, word in zip(faults, words) if "WRONG" in word)
