"""Writes results.jsonl and summary.txt of run/gpu-acceptance from the logs, decks and GPU samples of its parts."""
import collections
import json
import re
import statistics
import time

Machine = collections.namedtuple("Machine", "name")


def lines_of(run, part, ending=".log"):
    try:
        with open(run.path(part.name + ending), encoding="utf-8", errors="replace") as f:
            return f.read().splitlines()
    except OSError:
        return []


def result_lines(run, part):
    """Returns one dictionary a case: of a deck from its file of --json, of the peer from its log. A line that was cut
    off is left out."""
    texts = lines_of(run, part, ".json") if part.kind == "deck" else [
        line.split(" ", 1)[1] for line in lines_of(run, part) if line.startswith("PEER_RESULT ")]
    told = []
    for text in texts:
        try:
            told.append(json.loads(text))
        except ValueError:
            continue
    return told


def layers(run, part, told):
    """As the deck has it, or the peer says."""
    if part.kind == "deck":
        return next((line.split("=")[1].split("#")[0].strip() for line in lines_of(run, part, ".dat")
                     if line.split("=")[0].strip() == "layers"), "")
    return str(told.get("layers", ""))


def samples(run, part):
    """Clock in MHz and power in W while the part kept the GPU busy: medians of the looks at no less than 90 % load."""
    busy = []
    for line in lines_of(run, part, ".smi"):
        row = [word.strip() for word in line.split(",")]
        try:
            if float(row[4]) >= 90.0:
                busy.append((float(row[1]), float(row[2])))
        except (ValueError, IndexError):
            continue
    return tuple(statistics.median(column) for column in zip(*busy)) if busy else None


def steps_seen(run, part):
    """Of a case that did not end: what its step lines say."""
    found = (re.search(r"train_step_timing in s: ([0-9.]+)", line) for line in lines_of(run, part))
    seen = [float(match.group(1)) for match in found if match]
    return [f"{part.name}: {len(seen)} steps before it ended, median {statistics.median(seen):.4f} s, least "
            f"{min(seen):.4f} s"] if seen else []


def percent(value):
    return f"{100.0 * value:6.2f}" if isinstance(value, (int, float)) else "   n/a"


def timed_row(run, part, told):
    """One line of the table of timed cases."""
    clock = samples(run, part)
    name = told.get("workload", "torch") if told.get("compiled", True) else "torch, eager"
    reasons = told.get("fail_reasons", []) + told.get("invalid_reasons", [])
    invalid = "" if told.get("valid", True) else "NOT VALID: " + "; ".join(reasons)
    return (f"{part.name:14} {name:14} {layers(run, part, told):>6} "
            f"{told['mean_seconds']:9.4f} {told['minimum_seconds']:9.4f} {told['tokens_per_second']:10.1f}  "
            f"{percent(told.get('recipe_mfu'))}  {percent(told.get('model_mfu'))}  "
            f"{'%5.0f %6.0f' % clock if clock else '  n/a    n/a'}  {told.get('verdict', '')} {invalid}")


def shares(told):
    """What of the measured window each operation took, the largest first."""
    window = told["steps"] * told["mean_seconds"]
    operations = told.get("operations", {})
    spent = {name: entry["seconds"] / window for name, entry in operations.items() if entry.get("seconds")}
    waits = {axis: entry["exposed_seconds"] for axis, entry in told.get("transfers", {}).items()}
    spent.update({f"exposed {axis} transfers": seconds / window for axis, seconds in waits.items() if seconds})
    if told.get("dispatch_seconds"):
        spent["dispatch"] = told["dispatch_seconds"] / window
    return sorted(spent.items(), key=lambda item: -item[1])


def marginal(run, timed):
    """Seconds of a layer for one sequence: the difference of two depths."""
    depth = {float(layers(run, part, told)): told for part, told in timed if part.name in ("timed", "half")}
    if len(depth) != 2:
        return []
    (few, a), (many, b) = sorted(depth.items())
    seconds = (b["mean_seconds"] - a["mean_seconds"]) / (many - few) / b["global_batch"]
    flops = (b["model_flops_per_sequence"] - a["model_flops_per_sequence"]) / (many - few)
    return [f"A layer and sequence: {1e3 * seconds:.3f} ms, optimizer's part included; {1e-12 * flops / seconds:.1f} "
            f"TFLOP/s of model flops"]


def beside(timed):
    """The peer's step over ours before and after it, of the same layers."""
    mean = {part.name: told["mean_seconds"] for part, told in timed}
    if not {"peer", "ours-before", "ours-after"} <= mean.keys():
        return []
    ours = 0.5 * (mean["ours-before"] + mean["ours-after"])
    return [f"PyTorch's step takes {mean['peer'] / ours:.3f} of ours; ours before and after it are apart by "
            f"{100.0 * abs(mean['ours-before'] - mean['ours-after']) / ours:.2f} %"]


def profile(part, line):
    """What attention and products ran with, memory in bytes, what was compared, and the operations' shares."""
    names = ("arena_bytes", "device_outside_bytes", "communicator_bytes", "shadowed_operations", "shadowed_worst")
    engines = str(line.get("engines")).split("\n", maxsplit=1)[0]      # then one line for each product
    return ["", f"{part.name} {line.get('workload')}, {line.get('precision')}: {engines}",
            *(f"  {name:28} {line.get(name)}" for name in names),
            *(f"  {name:28} {100.0 * share:6.2f} %" for name, share in shares(line)[:12])]


def failures(run, part, found):
    """Returns the telling lines of a part that did not pass."""
    noise = r"ok |XGSW_RESULT|-{20}|mpirun detected|.*job to be terminated|  Process name|  Exit code" \
            r"|.*was detected to have exited|--- Primary job"
    words = [line[:220] for line in lines_of(run, part) if line.strip()
             and not re.match(noise, line.replace("    ", "  "))]
    telling = r"not ok|# |FAILED|Check .*FAIL|.*[Ee]rror|No PyTorch|.*\.dat:\d+: "
    marked = [line for line in words if re.match(telling, line)]
    return ["", f"{part.name}: {found['outcome']}, status {found['status']}",
            *("  " + line for line in dict.fromkeys(marked[:6] + words[-4:]))]


def verdict(parts, outcomes):
    """One line for all: how many parts ended how, and which."""
    names = {}
    for part in parts:
        names.setdefault(outcomes[part.name]["outcome"] if part.name in outcomes else "not run", []).append(part.name)
    counts = [f"{len(names.get('passed', []))} of {len(parts)} parts passed"]
    counts += [f"{len(names[kind])} {kind} ({', '.join(names[kind])})"
               for kind in ("failed", "no time", "skipped", "not run") if kind in names]
    whole = "FAILED" if "failed" in names else "UNFINISHED" if "no time" in names or "not run" in names else "PASSED"
    return f"{whole}: {'; '.join(counts)}"


def guarded(make, *arguments):
    """Lines of one part of the page, or why it has none."""
    try:
        return make(*arguments)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as wrong:
        return [f"{make.__name__}: {type(wrong).__name__}: {wrong}"]


def table(run, timed):
    rows = [line for part, told in timed for line in guarded(lambda p=part, t=told: [timed_row(run, p, t)])]
    return ["", f"{'Case':14} {'workload':14} layers   step s, least s      tokens/s  recipe %  model %   MHz      W",
            *rows,
            "MHz and W: medians of looks, one a second, while the GPU was busy", *guarded(marginal, run, timed),
            *guarded(beside, timed)]


def about(run):
    """What it ran on: of machine.txt the program's, the GPU's and the driver's line."""
    machine = lines_of(run, Machine("machine"), ".txt")
    latest = max((i for i, line in enumerate(machine) if line.startswith("== ")), default=0)
    found = (next((line for line in machine[latest:] if re.search(words, line)), "")
             for words in ("^xgsw commit", "^CUDA  ", "Product Name", "^Driver Version"))
    return [re.sub(" +", " ", line) for line in found if line]


def write(run, parts, outcomes, why):
    """Writes both files; returns the page: what is longest first, the verdict last."""
    told = [(part, line) for part in parts if part.name in outcomes for line in result_lines(run, part)]
    timed = [(part, line) for part, line in told if line.get("mean_seconds")]
    ended = {part.name for part, _ in told}
    out = [f"xgsw on GPUs, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}", *about(run)]
    out += [text for part, line in timed if line.get("operations") for text in guarded(profile, part, line)]
    out += [text for part in parts if outcomes.get(part.name, {}).get("outcome") not in (None, "passed")
            for text in failures(run, part, outcomes[part.name])]
    out += [f"{part.name}: {lines_of(run, part)[-1]}" for part in parts
            if part.kind == "slice" and outcomes.get(part.name, {}).get("outcome") == "passed" and lines_of(run, part)]
    out += ["", "Part            outcome   seconds"]
    for part in parts:
        found = outcomes.get(part.name)
        out.append(f"{part.name:15} {found['outcome']:9} {found['seconds']:7.1f}"
                   if found else f"{part.name:15} not run")
    if timed:
        out += table(run, timed)
    out += [line for part in parts if part.kind == "deck" and part.name in outcomes and part.name not in ended
            for line in guarded(steps_seen, run, part)]
    out += ["", *([why] if why else []), verdict(parts, outcomes)]
    with open(run.path("results.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"part": part.name, **line}) + "\n" for part, line in told)
    with open(run.path("summary.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")
    return "\n".join(out)
