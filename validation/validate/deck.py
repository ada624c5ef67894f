"""The deck in a record, read once more: which cases it has, in which order, and every setting of each.

Its grammar: src/plan/deck/deck.h. Two lines of free text; `key = value  # remark`; sections `[workload]`. Keys before
the first section hold for all. A list of values sweeps, the later key of the table faster; of the cases of a section
that do the same run, the first stands for all."""

import hashlib
import itertools
import os
import re
from dataclasses import dataclass

from validate import resolve

KEYS_TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference", "keys.txt")
SINGLE = ("record", "fault")              # whose value is no list
OF_RUN = ("record",)                                    # one for the whole run, in whichever section
REALS = ("learning_rate",)                              # whose bounds look like integers


class BadDeck(Exception):
    """Text that is no deck."""


@dataclass
class Section:
    workload: str
    line: int
    given: dict


def read_keys(path=KEYS_TABLE):
    """name -> (values, default), in the order of the tables of `xgsw --keys` and `xgsw --keys developer`."""
    with open(path, encoding="utf-8") as file:
        rows = [re.split(r" {2,}", line, maxsplit=3) for line in file]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 4 and row[0] != "key"}


KEYS = read_keys()


def typed(key, text):
    """As a record has it: integers and reals as numbers, a real that may be none as text."""
    values = KEYS[key][0]
    if values.endswith(", a word"):     # whose SHA-256 begins with the number
        return int(text) if re.fullmatch(r"[0-9.+-]+", text) else int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    if re.fullmatch(r"\S+ to \S+", values):
        return float(text) if key in REALS or re.search(r"[.e]", values) else int(text)
    return f"{float(text):.15g}" if re.match(r"\S+ to \S+, none", values) and text[0] in "0123456789." else text


FALLBACKS = {key: typed(key, default) for key, (_, default) in KEYS.items() if key not in resolve.RULED}


def read_line(line, number, sections):
    name, equals, value = line.partition("=")
    if line.startswith("[") and line.endswith("]"):
        sections.append(Section(line[1:-1].strip(), number, {}))
    elif not equals or name.strip() not in KEYS or not value.strip():
        raise BadDeck(f"line {number} is no setting: {line}")
    elif name.strip() in sections[-1].given:
        raise BadDeck(f"line {number} repeats {name.strip()}")
    else:
        sections[-1].given[name.strip()] = value.split()


def read_sections(text):
    """The sections, each with all that is given for it."""
    sections = [Section("", 0, {})]
    for number, line in enumerate(text.decode("utf-8", "replace").split("\n"), 1):
        line = line.partition("#")[0].strip()
        if number > 2 and line:
            read_line(line, number, sections)
    whole, *own = sections
    of_run = {key: section.given[key] for section in sections for key in OF_RUN if key in section.given}
    for section in own:
        if section.workload not in resolve.WORKLOADS:
            raise BadDeck(f"line {section.line}: [{section.workload}] is no workload")
        section.given = {**whole.given, **of_run, **section.given}
    return own


def combinations(section):
    """What each case of a section is given, before the rules fill the rest."""
    lists = [[" ".join(section.given[key])] if key in SINGLE else section.given[key] for key in KEYS
             if key in section.given]
    names = [key for key in KEYS if key in section.given]
    for values in itertools.product(*lists):
        yield {name: typed(name, value) for name, value in zip(names, values)}


def used(key, case):
    """Does anything of the case depend on the key? (src/plan/deck/same_run.c)"""
    on_cuda, tensor, context = case["backend"] == "cuda", case["tensor"] > 1, case["context"] > 1
    return {
        "fp8_scale": case["precision"] == "fp8",
        "fp8_scaling": case["precision"] == "fp8",
        "peak_fp8": case["precision"] == "fp8",
        "order_seed": case["order"] == "hostile",
        "tolerance": case["expect"] != "none",
        "capacity": case["experts"] > 0,
        "strips": tensor,
        "sharding": case["data"] * case["context"] > 1,
        "context_gradients": context and case["precision"] != "fp32",
        **dict.fromkeys(("share_devices", "deterministic", "attention", "transfer_sms"), on_cuda),
    }.get(key, True)


def same_run(a, b):
    return all(a[key] == b[key] for key in KEYS if key not in SINGLE and (used(key, a) or used(key, b)))


def cases_of(section, ranks, recorded, first):
    """Settings of the section's cases from number `first` on, of each so many as it is repeated. What auto took is what
    the recorded case says."""
    cases = []
    for given in combinations(section):
        draft = lambda number: resolve.settings(section, given, FALLBACKS, ranks, recorded(number))
        number = first + sum(case["repeats"] for case in cases)
        last = draft(number - 1) if cases else None
        if last and any(same_run(case, last) for case in cases):
            continue
        cases.append(draft(number))
        if any(same_run(case, cases[-1]) for case in cases[:-1]):
            cases.pop()
    return [{**case, "repeat": repeat} for case in cases for repeat in range(1, case["repeats"] + 1)]


def cases(text, ranks, recorded):
    """All settings of all cases that the deck makes on so many ranks; recorded(number): those that the record has."""
    found = []
    for section in read_sections(text):
        found += cases_of(section, ranks, recorded, len(found) + 1)
    return [{**case, "case": number} for number, case in enumerate(found, 1)]


def check_settings(case, expected, f):
    """Every setting of a recorded case, against those that deck and rules give it; None: it is not the deck's."""
    if expected is None:
        f.add(f"the deck has no case {case.settings.get('case')}")
        return
    f.numbers += len(expected)
    for name, value in expected.items():
        found = case.settings.get(name)
        # What the machine lacks is not in the deck.
        free = not value and (name == "backend_reason" or name == "skipped" and not case.ran)
        same = type(found) is type(value) and found == value
        f.demand(free or same, f"{name} is {found!r}, the deck makes it {value!r}")


def check(record, f):
    """The deck's cases by their numbers; a record has the first of them, in their order."""
    recorded = {case.settings.get("case"): case.settings for case in record.cases}
    try:
        expected = cases(record.deck, len(record.provenance["hosts"]), lambda number: recorded.get(number, {}))
    except (BadDeck, KeyError, ValueError, TypeError, ArithmeticError) as error:
        f.add(f"the deck cannot be read: {error}")
        return {}
    names = [case.name for case in record.cases]
    f.same("cases_planned", record.root.get("cases_planned", 0), len(expected))
    f.demand(names == [f"case_{n:04d}" for n in range(1, len(names) + 1)],
             f"the cases are {' '.join(names)}, not the first {len(names)} of {len(expected)}")
    return {case["case"]: case for case in expected}
