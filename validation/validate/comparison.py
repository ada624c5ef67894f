"""Compares a candidate with a baseline: a word for each case, and one for the whole."""

import math
import re
from collections import Counter

from validate import ratios, sides
from validate.findings import count

STATUS = {"FASTER": 0, "AS FAST": 0, "UNDECIDED": 4, "NOT COMPARABLE": 3, "SLOWER": 1}      # from good to bad
SEVERITY = list(STATUS).index
NUMBERS = ("ratio", "low", "high", "ratio_by_mean", "low_by_mean", "high_by_mean")
TOO_FEW_RANKS = re.compile(r"SKIPPED: .*needs \d+ ranks, there are \d+")


def logs_of(launches):
    """Returns the log speeds of launches by the mean, and those by the median."""
    return list(zip(*(launch.logs for launch in launches))) or [(), ()]


def earlier_of(history, key, both):
    """Returns launches of the history with the baseline's layout and device, except launches of the two sides."""
    where = [(x.facts["layout"], x.facts["device"]) for x in both[0].cases[key]]
    return [x for x in history.cases.get(key, ()) if not (x.wrong or any(x.record in side.records for side in both))
            and (x.facts["layout"], x.facts["device"]) in where]


def notes_of(word, intervals, tolerance, earlier):
    """Yields what a reader must know about the word. earlier: launches of the history, or None without one."""
    if word in ("SLOWER", "UNDECIDED") and intervals[1].word(tolerance) != word:
        yield f"{word.lower()} by stalls: the mean, not the median"
    if word == "UNDECIDED":
        runs = ratios.runs_that_decide(intervals, tolerance)
        yield f"{runs} runs a side are needed" if runs else f"too near to the {100 * tolerance:g} % allowed"
    known = max((i.prior for i in intervals), key=lambda prior: prior.deviation)
    if known.seen:
        yield f"earlier runs deviate by {100 * known.deviation:.2g} %, with {known.degrees} degrees of freedom"
    elif earlier is not None:
        yield f"history not used: {count(len(earlier), 'run')} of this case"
    if not known.seen and intervals[0].runs == (1, 1):
        yield f"rests on --between {known.deviation:g} alone"
    unusual = max(i.unusual for i in intervals)
    if unusual:
        assumed = "that of the history" if known.seen else f"--between {known.deviation:g}"
        yield f"{assumed} is too small: these runs deviate by {100 * unusual:.2g} %"


def measured(here, there, intervals):
    """Returns the numbers of a row. here, there: log speeds by mean and median."""
    middle = sum(here[1]) / len(here[1])
    return {**dict(zip(NUMBERS, (*intervals[1].ratios, *intervals[0].ratios))),
            "baseline_tokens_per_second": math.exp(middle),
            "tokens_per_second": math.exp(middle + intervals[1].difference),
            "launches": [math.exp(x - middle) for x in there[1]]}


def compare_case(both, keys, options, history):
    """Returns one row of the comparison. Missing numbers are None."""
    key, wrong = keys[0] or keys[1], sides.fault(both, keys)
    runs = [len(side.cases.get(key, ())) for side, key in zip(both, keys)]
    row = {"case": sides.title(key), **dict(zip(("workload", "size", "precision"), key[0])),
           "runs_baseline": runs[0], "runs": runs[1], **dict.fromkeys(NUMBERS),
           "baseline_tokens_per_second": None, "tokens_per_second": None, "launches": []}
    if wrong:
        return {**row, "word": "NOT COMPARABLE", "notes": [wrong]}
    here, there = (logs_of(side.cases[key]) for side in both)
    earlier = earlier_of(history, key, both) if history else None
    intervals = [ratios.interval(*logs, ratios.prior_of(options.between, before))
                 for *logs, before in zip(here, there, logs_of(earlier or ()))]
    word = ratios.worst(i.word(options.tolerance) for i in intervals)
    return {**row, **measured(here, there, intervals), "word": word,
            "notes": list(notes_of(word, intervals, options.tolerance, earlier))}


def was_run(both, keys):
    """Returns False if every launch on both sides skipped the case because it needs more ranks."""
    launches = [launch for side, key in zip(both, keys) for launch in side.cases.get(key, ())]
    return not all(TOO_FEW_RANKS.fullmatch(launch.wrong) for launch in launches)


def geometric_mean(rows, name):
    logs = [math.log(row[name]) for row in rows if row["word"] != "NOT COMPARABLE"]
    return math.exp(sum(logs) / len(logs)) if logs else None


def word_of(rows):
    """Returns the worst word. If some cases cannot be compared, the whole is UNDECIDED or worse."""
    words = [row["word"] for row in rows]
    if set(words) <= {"NOT COMPARABLE"}:
        return "NOT COMPARABLE"
    return ratios.worst("UNDECIDED" if word == "NOT COMPARABLE" else word for word in words)


def summary(found):
    """Returns one sentence, with the first note on the worst case. It does not contain the word of the whole."""
    words, rows = Counter(row["word"] for row in found["cases"]), found["cases"]
    counts = ", ".join(f"{words[word]} {word}" for word in STATUS if words[word])
    text = f"{found['candidate']} against {found['baseline']}: {count(len(rows), 'case')}: {counts}"
    worst = max(rows, key=lambda row: SEVERITY(row["word"]), default=None)
    text += f"; {worst['case']}: {worst['notes'][0]}" if worst and worst["notes"] else ""
    if not found["geometric_mean"]:
        return text
    means = [f"{found[name]:.3f}" for name in ("geometric_mean", "geometric_mean_by_mean")]
    part = f" of {len(rows) - words['NOT COMPARABLE']}" if words["NOT COMPARABLE"] else ""
    return f"{text}; geometric mean {means[0]}{part}, by the mean {means[1]}"


def compare(baseline, candidate, options, history=None):
    """Returns all results of one candidate, as --json writes them."""
    both, every = (baseline, candidate), list(sides.pairs(baseline, candidate))
    rows = [compare_case(both, keys, options, history) for keys in every if was_run(both, keys)]
    found = {"baseline": baseline.name, "candidate": candidate.name, "word": word_of(rows), "cases": rows,
             "left_out": len(every) - len(rows), "differs": sides.differences(*both),
             "geometric_mean": geometric_mean(rows, "ratio"),
             "geometric_mean_by_mean": geometric_mean(rows, "ratio_by_mean")}
    return {**found, "summary": summary(found)}
