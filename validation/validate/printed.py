"""Compares what a run printed with its record: its step lines, its XGSW_RESULT lines, the record's SHA-256."""

import hashlib
import json
import math
import re
from dataclasses import dataclass, field

from validate.findings import count

PREFIX = "XGSW_RESULT "
# The line prints enough digits to restore each number.
DIGITS = 1e-15
# Every XGSW_RESULT line has these.
NEEDED = {"case", "mean_seconds", "tokens_per_second", "recipe_mfu", "residual", "verdict", "valid"}

# The line that sha256sum prints for the record.
DIGEST = re.compile(r"([0-9a-f]{64})  \S")
# The line before it, and the last line of a run that finished.
RECORD = re.compile(r"Record     \S")
END = re.compile(r"(PASSED|FAILED|ACCEPTED|NOT ACCEPTED|INTERRUPTED|NOTHING TRAINED)[:,] ")
CASE = re.compile(r"Case (\d+) ")
STEP = re.compile(r"(?:completed step: |global_step: +|global_step=)(\d+)")
# Numbers of a step line, in any of its three forms: name in the record, position, print format.
STEP_NUMBERS = (
    ("losses", re.compile(r"\b(?:reduced_train_)?loss[:=] ?([-+.\w]+)"), "%.6f"),
    ("step_seconds", re.compile(r"(?:\bseconds: |\btrain_step_timing in s[:=] ?)([-+.\w]+)"), "%.4f"),
)


@dataclass
class Output:
    """results: case number -> object of its XGSW_RESULT line; steps: case number -> {step: printed numbers}; sha256 of
    the record, empty if the run did not print it; ended: whether the run printed its last line."""

    path: str
    sha256: str = ""
    ended: bool = False
    results: dict = field(default_factory=dict)
    steps: dict = field(default_factory=dict)


def step_numbers(line):
    found = {name: pattern.search(line) for name, pattern, _ in STEP_NUMBERS}
    return {name: match[1] for name, match in found.items()} if all(found.values()) else None


def read_result(text):
    """Returns the object of an XGSW_RESULT line."""
    item = json.loads(text)
    absent = sorted(NEEDED - item.keys()) if isinstance(item, dict) else sorted(NEEDED)
    if absent:
        raise ValueError("an XGSW_RESULT line has no " + ", ".join(absent))
    return item


def read_line(output, line, before, case):
    """Adds a line to the output unless a kill cut it. Returns the number of its case. before: the previous line."""
    begins, step, digest = CASE.match(line), STEP.search(line), RECORD.match(before) and DIGEST.match(line)
    output.sha256 = digest[1] if digest else output.sha256
    output.ended = output.ended or bool(END.match(line))
    if line.startswith(PREFIX) and line.endswith("\n"):
        item = read_result(line[len(PREFIX) :])
        output.results[item["case"]] = item
    elif step and line.endswith("\n") and step_numbers(line):
        output.steps.setdefault(case, {})[int(step[1])] = step_numbers(line)
    return int(begins[1]) if begins else case


def read_output(path):
    output, before, case = Output(path), "", 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            before, case = line, read_line(output, line, before, case)
    return output


def recorded(case):
    """Returns name -> value of what the line may have: settings, results, the residual of a checked case. Omits the
    setting `record`: the line names the file that was written, the setting the one that the deck asks for."""
    results = {path.split("/")[1]: value for path, value in case.values.items() if path.startswith("results/")}
    settings = {name: value for name, value in case.settings.items() if name != "record"}
    return {"residual": case.values.get("check_model/residual", math.nan), **results, **settings}


def compare(item, known, f):
    """Compares each printed value with the recorded one of the same name. NaN and infinity are printed as null."""
    for name in sorted(item.keys() & known.keys()):
        if isinstance(known[name], str):
            f.demand(item[name] == known[name], f"printed {name} {item[name]}, recorded {known[name]}")
        else:
            found = float(known[name])
            f.same("printed " + name, math.nan if item[name] is None else float(item[name]),
                   found if math.isfinite(found) else math.nan, DIGITS)


def seconds_of_rank_0(case):
    """Returns the seconds that step lines show. A case made from a journal has no others."""
    return case["ranks/rank_seconds"][:, 0] if "ranks/rank_seconds" in case.values else case["steps/step_seconds"]


def steps_of(case, output):
    """Returns step -> printed numbers. Printed steps count on from a checkpoint, which no journal has."""
    steps = output.steps.get(case.settings["case"], {})
    unknown = min(steps, default=0) if case.settings["load"] != "none" else 0
    return {step - int(case.values.get("checkpoints/loaded_step", unknown)): found for step, found in steps.items()}


def as_printed(case, name, form, step):
    return form % (seconds_of_rank_0(case) if name == "step_seconds" else case["steps/" + name])[step]


def check_steps(case, steps, f):
    """Compares the step lines of a case."""
    completed = case["results/completed"]
    ended_apart = case.interrupted and case.settings["copies"] > 1      # then only steps of all copies count
    for step, found in sorted(steps.items()):
        if step >= completed and ended_apart:
            break
        if not 0 <= step < completed:
            f.add(f"step {step} is printed, and the record has {count(completed, 'step')}")
            break
        for name, _, form in STEP_NUMBERS:
            known = as_printed(case, name, form, step)
            f.demand(found[name].replace("-nan", "nan") == known,
                     f"printed {name} {found[name]} of step {step}, recorded {known}")
    f.demand(steps or completed < 2, f"the output has no step of this case, the record {count(completed, 'step')}")
    f.numbers += len(STEP_NUMBERS) * len(steps)


def check_printed(case, output, recovered, f):
    """Compares all printed values of a case. recovered: the record was made from a journal. Returns a note if a killed
    or stopped run printed no XGSW_RESULT line, otherwise an empty string."""
    steps = steps_of(case, output)
    check_steps(case, steps, f)
    item = output.results.get(case.settings["case"])
    if item is not None:
        compare(item, recorded(case), f)
        return ""
    if recovered or case.settings["verdict"] == "INTERRUPTED":
        return f"the output ends before its XGSW_RESULT line: {count(len(steps), 'step line')} compared"
    f.add("the output has no XGSW_RESULT line for this case")
    return ""


def check_sha256(path, output, recovered, f):
    """Compares the file's SHA-256 with the printed one, and returns whether they are equal. A finished run must have
    printed it, unless the record was made from a journal."""
    f.demand(output.sha256 or recovered or not output.ended, "the output ends with a verdict, and has no SHA-256 of "
             "the record after the line Record")
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    f.demand(output.sha256 in ("", found), f"the file's SHA-256 is {found}, the run printed {output.sha256}: it is "
             "another record, or was changed since")
    return output.sha256 == found


def times(case, output):
    """Returns (printed, recorded) times of the steps that both have."""
    return [(found["step_seconds"], as_printed(case, "step_seconds", "%.4f", step))
            for step, found in steps_of(case, output).items() if 0 <= step < case["results/completed"]]


def check_same_run(output, record, f):
    """Returns False, and adds a finding, if at least half of the steps took another time than the output says."""
    pairs = [pair for case in record.cases if case.ran for pair in times(case, output)]
    apart = sum(a != b for a, b in pairs)
    if len(pairs) < 2 or 2 * apart < len(pairs):
        return True
    f.sentences.insert(0, f"{output.path} is the output of another run, or the record's step times were changed: "
                       f"{apart} of {len(pairs)} steps took another time than it prints")
    return False
