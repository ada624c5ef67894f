"""What a run printed, held against its record: its XGSW_RESULT lines; of a case that a kill left without one its step
lines."""

import hashlib
import json
import math
import re
from dataclasses import dataclass, field

import numpy as np

from validate.findings import count

PREFIX = "XGSW_RESULT "
# Numbers are printed with nine significant digits or more.
DIGITS = 1e-8

# Groups of the record whose fields the line has side by side, and those that it has as objects.
FLAT = ("results", "steps")
OBJECTS = ("check_model",)
# What a viewer of the record needs and the line does not have.
RECORD_ONLY = {"NX_class", "default", "step"}

# The line that says what sha256sum prints of the record.
DIGEST = re.compile(r"([0-9a-f]{64})  \S")
CASE = re.compile(r"Case (\d+) ")
STEP = re.compile(r"(?:completed step: |global_step: +|global_step=)(\d+)")
# Of a step line, in any of its three forms: the number's name in the record, where it stands, how it is printed.
STEP_NUMBERS = (
    ("losses", re.compile(r"\b(?:reduced_train_)?loss[:=] ?([-+.\w]+)"), "%.6f"),
    ("gradient_norms", re.compile(r"\bgrad_norm[:=] ?([-+.\w]+)"), "%.6f"),
    ("learning_rates", re.compile(r"\blr[:=] ?([-+.\w]+)"), "%.3e"),
    ("step_seconds", re.compile(r"(?:\bseconds: |\btrain_step_timing in s[:=] ?)([-+.\w]+)"), "%.4f"),
)


@dataclass
class Output:
    """results: case number -> the object of its XGSW_RESULT line; steps: case number -> {step: its line's numbers, as
    they are printed}; sha256: of the record, empty if the run did not come to its last lines."""

    path: str
    sha256: str = ""
    results: dict = field(default_factory=dict)
    steps: dict = field(default_factory=dict)


def numbers(value):
    """A number or a list of numbers as floats, null as not a number; nothing for anything else."""
    values = value if isinstance(value, list) else [value]
    if not all(v is None or isinstance(v, (int, float)) for v in values):
        return None
    floats = [math.nan if v is None else float(v) for v in values]
    return floats if isinstance(value, list) else floats[0]


def step_numbers(line):
    found = {name: pattern.search(line) for name, pattern, _ in STEP_NUMBERS}
    return {name: match[1] for name, match in found.items()} if all(found.values()) else None


def read_result(text):
    """The object of an XGSW_RESULT line: it names its case and has the times of its steps."""
    item = json.loads(text)
    if not isinstance(item, dict) or not isinstance(numbers(item.get("step_seconds")), list) or "case" not in item:
        raise ValueError("an XGSW_RESULT line has no case, or no list step_seconds")
    return item


def read_line(output, line, case):
    """The case that the line is of. A line without its end is what a kill left of it."""
    begins, step, digest = CASE.match(line), STEP.search(line), DIGEST.match(line)
    output.sha256 = digest[1] if digest else output.sha256
    if line.startswith(PREFIX) and line.endswith("\n"):
        item = read_result(line[len(PREFIX) :])
        output.results[item["case"]] = item
    elif step and line.endswith("\n") and step_numbers(line):
        output.steps.setdefault(case, {})[int(step[1])] = step_numbers(line)
    return int(begins[1]) if begins else case


def read_output(path):
    output, case = Output(path), 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            case = read_line(output, line, case)
    return output


def group(case, names):
    return {path.split("/")[1]: value for path, value in case.values.items() if path.split("/")[0] in names}


def recorded(case):
    """name -> value of all that the line and the record both have side by side: settings, fields of the flat groups."""
    fields = {**group(case, FLAT), **case.settings}
    return {name: value for name, value in fields.items() if name not in RECORD_ONLY}


def compare(item, known, f):
    """What is printed, against what is recorded under the same names."""
    absent = sorted(known.keys() - item.keys())
    f.demand(not absent, "the XGSW_RESULT line is incomplete: no " + ", ".join(absent))
    for name in item.keys() & known.keys():
        printed = numbers(item[name])
        if printed is None or isinstance(known[name], (str, list)):
            f.demand(item[name] == known[name], f"printed {name} {item[name]}, recorded {known[name]}")
        else:
            found = np.asarray(known[name], dtype=float)        # infinity is printed as null, too
            f.same("printed " + name, printed, np.where(np.isfinite(found), found, np.nan), DIGITS)


def seconds_of_rank_0(case):
    """As step lines show them; a case made of a journal has no others."""
    return case["ranks/rank_seconds"][:, 0] if "ranks/rank_seconds" in case.values else case["steps/step_seconds"]


def as_printed(case, name, form, step):
    return form % (seconds_of_rank_0(case) if name == "step_seconds" else case["steps/" + name])[step]


def check_steps(case, steps, f):
    """The step lines of a case without an XGSW_RESULT line; in words what was compared."""
    completed = case["results/completed"]
    for step, found in sorted(steps.items()):
        if step >= completed:
            f.add(f"step {step} is printed, and the record has {count(completed, 'step')}")
            break
        for name, _, form in STEP_NUMBERS:
            known = as_printed(case, name, form, step)
            f.demand(found[name].replace("-nan", "nan") == known,
                     f"printed {name} {found[name]} of step {step}, recorded {known}")
    f.demand(steps or completed < 2, f"the output has no step of this case, the record {count(completed, 'step')}")
    f.numbers += len(STEP_NUMBERS) * len(steps)
    return f"the output ends before its XGSW_RESULT line: {count(len(steps), 'step line')} compared instead"


def check_printed(case, output, recovered, f):
    """Everything printed for this case that the record holds too; in words what stood in for it. recovered: the record
    was made of a journal. A stopped run, too, may be killed before it has printed what its record has."""
    item = output.results.get(case.settings["case"])
    if item is None and (recovered or case.settings["verdict"] == "INTERRUPTED"):
        return check_steps(case, output.steps.get(case.settings["case"], {}), f)
    if item is None:
        f.add("the output has no XGSW_RESULT line for this case")
        return ""
    compare(item, recorded(case), f)
    for name in OBJECTS:
        found = item.get(name)
        compare(found if isinstance(found, dict) else {}, group(case, (name,)), f)
    return ""


def check_sha256(path, output, f):
    """Compares the file's SHA-256 with the printed one. Returns whether they are equal."""
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    f.demand(output.sha256 in ("", found), f"the file's SHA-256 is {found}, the run printed {output.sha256}: it is "
             "another record, or was changed since")
    return output.sha256 == found


def times(case, output):
    """(printed, recorded) times of the steps that both have; from step lines where there is no XGSW_RESULT line."""
    item, completed = output.results.get(case.settings["case"]), case["results/completed"]
    if item is not None:
        pairs = zip(numbers(item["step_seconds"]), case["steps/step_seconds"])
        return [pair for pair in pairs if not np.isnan(pair).all()]
    lines = output.steps.get(case.settings["case"], {})
    return [(float(found["step_seconds"]), float(as_printed(case, "step_seconds", "%.4f", step)))
            for step, found in lines.items() if step < completed]


def other_run(output, record):
    """A sentence where most steps took another time than the output says; nothing where they agree."""
    pairs = [pair for case in record.cases if case.ran for pair in times(case, output)]
    apart = sum(not abs(a - b) <= DIGITS * abs(b) for a, b in pairs)
    if len(pairs) < 2 or 2 * apart < len(pairs):
        return ""
    return (f"{output.path} is the output of another run, or the record's step times were changed: {apart} of "
            f"{len(pairs)} steps took another time than it prints")
