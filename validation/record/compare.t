#!/usr/bin/env python3
"""Tests compare.py (words and statuses of invented launches, how often intervals contain the true ratio, scaled
records) and validate.py --csv. The long test compares launches of one deck on all cores and on half of them. TAP."""

import argparse
import csv
import io
import itertools
import json
import math
import os
import shutil
import tempfile

import runs
import compare
import h5py
import numpy as np
from program import QUIET, OtherPrograms, Tap
from validate import comparison, formulas, ratios, sides, tables, views
from validate.record import read_case

VALIDATE = runs.script("validate")
DRAWS = 1000
FACTS = dict.fromkeys((*sides.OF_CASE, "hosts", "program", *sides.WHERE), "one")
NUMBER = itertools.count()


def options(**more):
    return argparse.Namespace(**{"tolerance": 0.05, "between": 0.02, **more})


def launch(work, speed, stall=1.0, wrong=""):
    return sides.Launch(work, [math.log(speed / stall), math.log(speed)], wrong, FACTS, next(NUMBER))


def side(name, **cases):
    """Returns a side. cases: for each workload the speeds of its launches, or the arguments of launch()."""
    works = {workload: {name: 1 for name in views.WORK} | {"workload": workload} for workload in cases}
    return sides.Side(name, {}, {(tuple(work.values()), 0): [
        launch(work, *(value if isinstance(value, tuple) else (value,))) for value in cases[workload]]
        for workload, work in works.items()})


REFERENCE = (99.5, 100, 100.5)
FASTER, AS_FAST, UNDECIDED, SLOWER = ([factor * x for x in REFERENCE] for factor in (1.1, 1, 0.95, 0.85))
# Launches of the candidate, the expected word, and a note.
WORDS = (
    (FASTER, "FASTER", ""), (AS_FAST, "AS FAST", ""), (SLOWER, "SLOWER", ""),
    (UNDECIDED, "UNDECIDED", "too near to the 5 % allowed"), ([97, 96, 98], "UNDECIDED", "runs a side are needed"),
    ([(x, 1.2) for x in AS_FAST], "SLOWER", "slower by stalls: the mean, not the median"),
    ([110, 100, 91], "UNDECIDED", "--between 0.02 is too small: these runs deviate by 6.7 %"),
    ([(100,), (100, 1, "NOT VALID: spread 2"), (101,)], "NOT COMPARABLE", "offer: 1 of 3 NOT VALID: spread 2"),
)
# Cases of the candidate, the expected word of the whole, and the status.
WHOLES = (
    ({"a": FASTER, "b": FASTER}, "FASTER", 0), ({"a": FASTER, "b": AS_FAST}, "AS FAST", 0),
    ({"a": FASTER, "b": UNDECIDED}, "UNDECIDED", 4), ({"a": SLOWER, "b": UNDECIDED}, "SLOWER", 1),
    ({"a": FASTER}, "UNDECIDED", 4), ({"a": SLOWER}, "SLOWER", 1), ({"c": FASTER}, "NOT COMPARABLE", 3),
)


def words(tap):
    for launches, word, note in WORDS:
        row = comparison.compare(side("base", a=REFERENCE), side("offer", a=launches), options())["cases"][0]
        tap.ok(row["word"] == word and note in "; ".join(row["notes"]) and bool(note) == bool(row["notes"])
               and (word == "NOT COMPARABLE") == (row["ratio"] is None) == (not row["launches"]),
               f"{word}: {note or launches}", row)
    for cases, word, status in WHOLES:
        found = comparison.compare(side("base", a=REFERENCE, b=REFERENCE), side("offer", **cases), options())
        tap.ok(found["word"] == word and comparison.STATUS[word] == status,
               f"{word}: {', '.join(row['word'] for row in found['cases'])}", found)
    both = [ratios.interval(np.log(REFERENCE), np.log([97, 96, 98]), ratios.prior_of(0.02))] * 2
    runs_needed = ratios.runs_that_decide(both, 0.05)
    tap.ok([both[0].word(0.05, (n, n)) for n in (runs_needed - 1, runs_needed)] == ["UNDECIDED", "AS FAST"],
           f"{runs_needed} runs decide, one less does not")
    skipped = {case: [(1, 1, "SKIPPED: " + why)] for case, why in (
        ("a", "the recipe's smallest layout needs 8 ranks, there are 4"), ("b", "needs 9.1 GB of memory"))}
    found = comparison.compare(side("base", **skipped), side("offer", **skipped), options())
    tap.ok(found["left_out"] == 1 and [row["workload"] for row in found["cases"]] == ["b"],
           "only a case that needs more ranks than there are is left out", found)


def history(tap):
    """Computed by hand: earlier logs 0, 0.1 and 0.2 deviate by 0.1 with 2 degrees. Runs 0 and 0.1 against 0.3 add 1
    degree and squares of 0.005: s^2 = (2 x 0.01 + 0.005) / 3. Student's t of 3 degrees is 3.182446 at 97.5 %."""
    base, earlier = (side(name, a=np.exp(logs)) for name, logs in (("base", [0, 0.1]), ("history", [0, 0.1, 0.2])))
    (key, launches), = base.cases.items()
    base.records[launches[0].record] = "a.h5"
    offer = side("offer", a=np.exp([0.3]))
    offer.records[offer.cases[key][0].record] = "b.h5"
    other = [launch(launches[0].work, 9, 1, wrong) for wrong in ("NOT VALID", "", "")]
    for x, name in zip(other[1:], ("layout", "device")):
        x.facts = {**FACTS, name: "other"}
    earlier.cases[key] += [launches[0], offer.cases[key][0], *other]      # none of them counts
    row, = comparison.compare(base, offer, options(), earlier)["cases"]
    half = 3.182446 * math.sqrt(0.025 / 3 * 1.5)
    tap.ok(math.isclose(math.log(row["high"]), 0.25 + half, rel_tol=1e-6), "the history's deviation replaces --between",
           row)
    del earlier.cases[key][1:3], base.cases[key][1:]
    row, = comparison.compare(base, offer, options(), earlier)["cases"]
    tap.ok(row["notes"][-2:] == ["history not used: 1 run of this case", "rests on --between 0.02 alone"],
           "a history of one run is not used, and 1 + 1 runs rest on --between", row)


def simulate(deviation, ratio, seed):
    """Returns intervals of 3 + 3 launches with this true ratio and deviation between runs."""
    draws = np.random.default_rng(seed).normal(0, deviation, (DRAWS, 2, 3))
    return [ratios.interval(first, second + math.log(ratio), ratios.prior_of(0.02)) for first, second in draws]


def coverage(tap):
    least = 0.95 - 2 * math.sqrt(0.95 * 0.05 / DRAWS)
    for percent in (0.5, 1, 2, 4):
        found = simulate(percent / 100, 0.97, seed=1)
        holds = [x.ratios[1] <= 0.97 <= x.ratios[2] for x in found]
        honest = np.mean([h or x.unusual > 0 for h, x in zip(holds, found)])
        tap.ok(honest >= least and (percent > 2 or np.mean(holds) >= least),
               f"deviation {percent} %: {np.mean(holds):.1%} of the intervals hold the ratio; {honest:.1%} do or say "
               f"that --between is too small, as {np.mean([x.unusual > 0 for x in found]):.1%} do")
    slower = np.mean([x.word(0.05) == "SLOWER" for x in simulate(0.01, 0.9, seed=1)])
    tap.ok(slower >= 0.95, f"a ratio of 0.90 at 1 %: {slower:.1%} SLOWER")


def scale_case(group, factor):
    """Scales times by their units. Recomputes the numbers that follow from a peak, and the numbers of days."""
    def visit(_, item):
        units = item.attrs.get("units", b"-") if isinstance(item, h5py.Dataset) else b"-"
        power = {b"s": 1, b"d": 1}.get(units.encode() if isinstance(units, str) else units, 0)
        power = power or -(str(units).rstrip("'").endswith("/s") or item.name.endswith("/mean_power"))
        if power:
            item[...] = item[...] * factor**power

    group.visititems(visit)
    case = read_case(group.name[1:], group)
    if case.ran and len(case.measured):
        for name, value in vars(formulas.speed(case.settings, case["results/device"], case.measured)).items():
            group["results/" + name][...] = value


def keep(file, numbers):
    """Removes all other cases; the rest are numbered from 1."""
    for name in [name for name in file if name.startswith("case_") and int(name[5:]) not in numbers]:
        del file[name]
    kept = [name for name in file if name.startswith("case_")]
    for number, name in enumerate(kept, 1):
        file.move(name, f"case_{number:04d}")
        file[f"case_{number:04d}"].attrs["case"] = number
    verdicts = [file[name].attrs["verdict"] for name in file if name.startswith("case_")]
    for word in ("passed", "failed", "skipped", "interrupted"):
        count = sum(str(verdict).strip("b'").lower() == word for verdict in verdicts)
        if word in file.attrs:
            file.attrs[word] = count
    file.attrs["cases_planned"] = len(kept)


def scaled(old, new, factor, numbers):
    """Writes a copy in which these cases take this factor longer. The copy is sound if the old record is sound."""
    shutil.copy(old, new)
    with h5py.File(new, "r+") as file:
        keep(file, numbers)
        for name in [name for name in file if name.startswith("case_")]:
            scale_case(file[name], factor)
    return new


def run(*arguments):
    """Returns compare.py's status and output."""
    return runs.call(compare, *arguments)


# Arguments after the folder base, the expected status, and the expected output.
SIDES = (
    (["same"], 0, "AS FAST: same against base: 2 cases: 2 AS FAST; geometric mean 1.0"),
    (["same", "slow"], 1, "SLOWER: slow against base: 2 cases: 2 SLOWER; geometric mean 0.8"),
    (["far"], 4, "--between 0.02 is too small"),
    (["one.h5"], 4, "UNDECIDED: one against base: 2 cases: 1 FASTER, 1 NOT COMPARABLE"),
    (["spoilt.h5"], 3, "spoilt: 1 of 1 contradicts itself: mean_seconds is 0.01"),
    (["other.h5"], 3, "other work: global_batch 8, other 4"),
    (["other.h5"], 3, "Differs: no case in common\nLeft out: 1 of the cases"),
    (["same", "--markdown"], 0, "| llama3.1-8b fp8 full | 1.000 | "),
    (["empty"], 2, "it has no records (*.h5)"), (["none.h5"], 2, "none.h5 cannot be used"),
    (["twice"], 2, "is a copy of"),
)


def records(tap, sample):
    """Tests invented launches of two cases, in which everything takes a factor longer."""
    for path, factor, *cases in (("base/0", 1, 1, 7), ("base/1", 1.001, 1, 7), ("same/0", 1.0005, 1, 7),
                                 ("same/1", 1.0006, 1, 7), ("slow/0", 1.2, 1, 7), ("far/0", 0.951, 1, 7),
                                 ("far/1", 1.149, 1, 7), ("twice/0", 1, 1, 7), ("one", 0.8, 7),
                                 ("spoilt", 0.8, 1, 7), ("other", 0.8, 4, 5)):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        scaled(sample, path + ".h5", factor, cases)
    shutil.copy("twice/0.h5", "twice/1.h5")
    os.mkdir("empty")
    found = runs.call(VALIDATE, "far/1.h5")[1]
    tap.ok("PASSED: 2 cases recomputed, 2 of them VALID" in found, "a record with other speeds is sound", found)
    with h5py.File("spoilt.h5", "r+") as file:
        file["case_0001/results/mean_seconds"][...] = 0.01
        file["provenance/processor"][...] = b"Other"
    processor = runs.read_once(sample).provenance["processor"]
    differs = ["spoilt.h5"], 3, f"Differs: processor {processor} -> Other\n"
    for arguments, status, said in (*SIDES, differs):
        found = run("base", *arguments)
        tap.ok(found[0] == status and said in found[1], f"status {status}: {said}", found)
    tap.ok("other: 1 of 1 NOT VALID: check off\n" in run("other.h5", "other.h5")[1], "a rule is named once")


def files(tap):
    run("base", "slow", "one.h5", "--html", "x.html", "--json", "x.json", "--csv", "x.csv")
    page, text, table = (open("x." + kind, encoding="utf-8").read() for kind in ("html", "json", "csv"))
    rows = [row for found in json.loads(text)["comparisons"] for row in found["cases"] if row["ratio"]]
    golden = [f"{row[name]:.3f}" for row in rows for name in comparison.NUMBERS[:4]] + ["SLOWER: slow"]
    tap.ok(len(rows) == 3 and all(number in page for number in golden) and "default-src 'none'" in page
           and page.count("<svg") == 5, "the page has the numbers of --json, and pictures", golden)
    found = [float(row["ratio"]) for row in csv.DictReader(io.StringIO(table)) if row["ratio"]]
    tap.ok(found == [row["ratio"] for row in rows], "--csv has them, too", table)


def spreadsheets(tap, sample):
    found = {}
    for name in tables.TABLES:
        text = runs.call(VALIDATE, sample, "--csv", name)[1]
        found[name] = list(csv.DictReader(io.StringIO(text)))
    column = lambda table, name: [float(row[name]) for row in found[table] if row[name]]
    cases = [case for case in runs.read_once(sample).cases if case.ran]
    spent = [case["ranks/rank_seconds"][case.settings["warmup"]:].sum(axis=0) for case in cases]
    forward, shard = (np.concatenate([case["rank_sums/" + table][:, column] for case in cases]).tolist()
                      for table, column in (("phase_seconds", 2), ("transfer_bytes", 3)))
    tap.ok(len(found["cases"]) == len(cases) + 1        # one case was skipped
           and column("cases", "mean_seconds") == [case["results/mean_seconds"] for case in cases]
           and column("steps", "step_seconds") == [x for case in cases for x in case["steps/step_seconds"]]
           and column("ranks", "rank_seconds") == np.concatenate(spent).tolist()
           and column("ranks", "phase_forward_seconds") == forward and column("ranks", "transfer_shard_bytes") == shard
           and column("ranks", "node") and found["ranks"][-1]["device_serial"] == "165",
           "--csv cases, steps and ranks", found)


SHAPE = runs.SHAPE.format(128).replace("check = off\n", "").replace("global_batch = 4", "global_batch = 16")
DECK = ("a test\nof comparisons\n" + SHAPE + "[llama3.1-8b]\nwarmup = 5\nsteps = 20\n")


def launches(count, ranks):
    """Returns a folder with this many VALID launches, or fewer if too many are NOT VALID. disturbed: how much other
    programs took of a processor during one of those."""
    place = runs.Place(DECK)
    place.disturbed = 0.0
    for number in range(10 * count):
        others = OtherPrograms()
        place.run(ranks)
        path = place.file("gsw.h5")
        if runs.read_record(path).cases[0].settings["validity"] == "VALID":
            os.rename(path, place.file(f"launch-{number}.h5"))
        else:
            place.disturbed = max(place.disturbed, others.share())
            os.remove(path)
        if len(place.names(".h5")) == count:
            break
    return place


def real(tap):
    with launches(5, 2) as whole, launches(3, 1) as half:
        for other, statuses, said in ((whole, (0, 4), "geometric mean 1.000, by the mean 1.000"),
                                      (half, (1,), "ranks 2 -> 1")):
            if len(whole.names(".h5")) < 5 or len(half.names(".h5")) < 3:
                share = max(whole.disturbed, half.disturbed)
                reason = f"9 of 10 launches are NOT VALID; other programs took at most {share:.2f} of a processor"
                tap.ok(share >= QUIET, f"{said}{' # SKIP' if share >= QUIET else ':'} {reason}")
                continue
            found = run(whole.path, other.path)
            tap.ok(found[0] in statuses and said in found[1], f"{said}: status {found[0]}", found[1])
            tap.say(found[1].strip().replace("\n", "\n# "))


def main():
    tap = Tap()
    sides.read_record = VALIDATE.read_record = runs.read_once
    if runs.LONG:
        real(tap)
        tap.done()
    for part in (words, history, coverage):
        part(tap)
    with tempfile.TemporaryDirectory() as folder:
        sample = runs.write_sample(os.path.join(folder, "sample.h5"))
        os.chdir(folder)
        records(tap, sample)
        files(tap)
        spreadsheets(tap, sample)
        os.chdir(runs.TOP)
    tap.done()


main()
