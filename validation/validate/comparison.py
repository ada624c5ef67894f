"""A candidate against a baseline: a word for each case, and one for the whole."""

import math
from collections import Counter

from validate import ratios, sides
from validate.findings import count

STATUS = {"FASTER": 0, "AS FAST": 0, "UNDECIDED": 4, "NOT COMPARABLE": 3, "SLOWER": 1}      # from good to bad
NUMBERS = ("ratio", "low", "high", "ratio_by_mean", "low_by_mean", "high_by_mean")


def logs_of(side, key, which):
    """Log speeds of a side's launches of a case: 0 by the mean, 1 by the median."""
    return [launch.logs[which] for launch in side.cases.get(key, ()) if launch.logs]


def prior(which, key, baseline, history, between):
    """From the earlier runs that can be compared and are not the baseline's own."""
    earlier = [x.logs[which] for x in history.cases.get(key, ()) if not x.wrong and x.digest not in baseline.digests] \
        if history else []
    return ratios.prior_of(between, earlier)


def notes_of(word, intervals, tolerance):
    """What a reader must know of the word."""
    mean, median = intervals
    if word in ("SLOWER", "UNDECIDED") and median.word(tolerance) != word:
        yield f"{word.lower()} by stalls: the mean, not the median"
    if word == "UNDECIDED":
        runs = ratios.runs_that_decide(intervals, tolerance)
        yield f"{runs} runs a side would decide" if runs else f"too near to the {tolerance:.3g} allowed"
    known = max(intervals, key=lambda x: x.prior.deviation).prior
    if known.seen:
        yield f"earlier runs deviate by {known.deviation:.2%}, {known.degrees} degrees of freedom"
    unusual = max(mean.unusual, median.unusual)
    if unusual:
        assumed = "that of --history" if known.seen else f"--between {known.deviation:g}"
        yield f"{assumed} is too small: these runs deviate by {unusual:.2%}"


def compare_case(baseline, candidate, keys, options, history):
    """One row of the comparison; numbers that are not there are None."""
    key, wrong = keys[0] or keys[1], sides.unlike(baseline, candidate, keys)
    row = {"case": sides.title(key), **dict(zip(("workload", "size", "precision"), key[0])), **dict.fromkeys(NUMBERS)}
    row.update(runs_baseline=0, runs=0, baseline_tokens_per_second=None, tokens_per_second=None, launches=[])
    here, there = ([logs_of(side, key, which) for which in (0, 1)] for side in (baseline, candidate))
    intervals = []
    if not wrong and here[0] and there[0]:
        intervals = [ratios.interval(here[i], there[i], prior(i, key, baseline, history, options.between))
                     for i in (0, 1)]
        row.update(zip(NUMBERS, (*intervals[1].ratios, *intervals[0].ratios)))
        middle = sum(here[1]) / len(here[1])
        row.update(runs_baseline=len(here[1]), runs=len(there[1]), launches=[math.exp(x - middle) for x in there[1]],
                   baseline_tokens_per_second=math.exp(middle),
                   tokens_per_second=math.exp(middle + intervals[1].difference))
    wrong = wrong or sides.fault(baseline, key) or sides.fault(candidate, key)
    word = "NOT COMPARABLE" if wrong else ratios.worst(i.word(options.tolerance) for i in intervals)
    notes = [wrong] if wrong else list(notes_of(word, intervals, options.tolerance))
    return {**row, "word": word, "notes": notes}


def is_left_out(baseline, candidate, keys):
    """A case that no launch of either side ran, because it needs more ranks or other devices."""
    launches = [x for side, key in zip((baseline, candidate), keys) for x in side.cases.get(key, ())]
    return None not in keys and all(launch.skipped for launch in launches)


def geometric_mean(rows, name):
    logs = [math.log(row[name]) for row in rows if row["word"] != "NOT COMPARABLE"]
    return math.exp(sum(logs) / len(logs)) if logs else None


def word_of(rows):
    """The worst case's word. A case that cannot be compared leaves the whole undecided at best."""
    words = {row["word"] for row in rows}
    comparable = words - {"NOT COMPARABLE"}
    if not comparable:
        return "NOT COMPARABLE"
    return ratios.worst(comparable | ({"UNDECIDED"} if words - comparable else set()))


def compare(baseline, candidate, options, history=None):
    """All that is known of one candidate, as --json has it."""
    every = [keys for keys in sides.pairs(baseline, candidate)]
    rows = [compare_case(baseline, candidate, keys, options, history) for keys in every
            if not is_left_out(baseline, candidate, keys)]
    found = {"baseline": baseline.name, "candidate": candidate.name, "word": word_of(rows), "cases": rows,
             "left_out": len(every) - len(rows), "differs": sides.differences(baseline, candidate),
             "geometric_mean": geometric_mean(rows, "ratio"),
             "geometric_mean_by_mean": geometric_mean(rows, "ratio_by_mean")}
    return {**found, "summary": summary(found)}


def summary(found):
    """One sentence, without the word of the whole."""
    words, rows = Counter(row["word"] for row in found["cases"]), found["cases"]
    counts = ", ".join(f"{words[word]} {word}" for word in STATUS if words[word])
    text = f"{found['candidate']} against {found['baseline']}: {count(len(rows), 'case')}: {counts}"
    if not found["geometric_mean"]:
        return text
    part = f" of {len(rows) - words['NOT COMPARABLE']}" if words["NOT COMPARABLE"] else ""
    return f"{text}; geometric mean {found['geometric_mean']:.3f}{part}, by the mean {found['geometric_mean_by_mean']:.3f}"
