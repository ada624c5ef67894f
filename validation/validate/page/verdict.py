"""The top of a page: the word in its box, its reasons, four tiles, and the tables of cases and sizes."""

import re

import numpy as np

from validate import checks, views
from validate.findings import count
from validate.html import number, percent, seconds
from validate.outcome import CHECK, THRESHOLD

# Colour and symbol of each word. The page shows no word without its symbol.
BAD, DOUBT, GOOD, FACT = ("bad", "✕"), ("doubt", "!"), ("good", "✓"), ("fact", "–")
WORDS = {"RECORD CONTRADICTS ITSELF": BAD, "FAILED": BAD, "INCOMPLETE": DOUBT, "NOT ACCEPTED": BAD, "ACCEPTED": GOOD,
         "NOTHING TRAINED": DOUBT, "NOT VALID": DOUBT, "VALID": GOOD, "PASSED": GOOD, "INTERRUPTED": DOUBT,
         "SKIPPED": FACT, "judged with the last repeat": FACT}
WORST = ("RECORD CONTRADICTS ITSELF", "FAILED", "INCOMPLETE", "NOT ACCEPTED", "NOT VALID", "VALID", "NOTHING TRAINED")
REASONS = 3
NUMBER = re.compile(r"\d+\.?\d*(?=\W{0,3}%|\))|\d+\.\d+")    # percentages: cases that differ only there are alike


def by_severity(cases):
    """Sorts the worst case first, keeps the order of equal ones, and puts cases that trained nothing last."""
    return sorted(cases, key=lambda case: WORST.index(case.word))


def word_of(runs, cases):
    """Returns the word of the whole page: the most severe word comes first."""
    words = {case.word for case in cases}
    contradicted = any(run.whole or any(run.of_case.values()) for run in runs)
    words |= {"RECORD CONTRADICTS ITSELF"} if contradicted else set()
    words |= {"INCOMPLETE"} if any(checks.missing(run.record) for run in runs) else set()
    for word in WORST[:4]:
        if word in words:
            return word
    if words <= {"NOTHING TRAINED"}:
        return "NOTHING TRAINED"
    accepted = any(case.settings["acceptance"] == "ACCEPTED" for case in cases)
    return "ACCEPTED" if accepted else "NOT VALID" if "NOT VALID" in words else "VALID"


def shortened(sentence):
    return sentence if len(sentence) < 240 else sentence[:240] + " …"


def box_reasons(runs, cases, word, left_out):
    """Returns at most three reasons that decide, each with its case, and the number of the others."""
    found = [f"the record as a whole: {sentence}" for run in runs for sentence in run.whole]
    found += [shortened(f"{label}: " + "; ".join(sentences[:2])) for label, sentences in left_out if sentences]
    if word == "INCOMPLETE":
        found += [sentence for run in runs for sentence in checks.missing(run.record)]
    alike = {}
    for case in by_severity(cases):
        if case.reasons and (case.word != "NOTHING TRAINED" or word == "NOTHING TRAINED"):
            alike.setdefault(NUMBER.sub("", " ".join(case.reasons[:2])), []).append(case)
    for first, *others in alike.values():
        label = first.label + (f" (and {count(len(others), 'case')} like it)" if others else "")
        found.append(shortened(f"{label}: " + "; ".join(first.reasons[:2])))
    more = [f"and {count(len(found) - REASONS, 'more reason')} below"] if len(found) > REASONS else []
    return found[:REASONS] + more


def counts(cases):
    ran = [case for case in cases if case.case.ran]
    passed, valid = (sum(case.settings[key] == word for case in ran)
                     for key, word in (("verdict", "PASSED"), ("validity", "VALID")))
    asked = [group[-1] for group in views.repeats([case for case in cases if case.settings["acceptance"]])]
    accepted = sum(case.settings["acceptance"] == "ACCEPTED" for case in asked)
    skipped = f", {len(cases) - len(ran)} SKIPPED" if len(ran) < len(cases) else ""
    more = f", {accepted} of {len(asked)} ACCEPTED" if asked else "; no speed was expected: the deck has no expect"
    return f"{count(len(ran), 'case')} ran: {passed} PASSED, {valid} VALID{skipped}{more}."


def origin(run):
    """Returns one line on where a record comes from."""
    p, hosts = run.record.provenance, list(dict.fromkeys(run.record.provenance["hosts"]))
    title = [" ".join(line.strip() for line in p["deck"].splitlines()[:2])] if p["deck"] else []
    digest = [f"SHA-256 of {run.name} {run.sha256}"] if run.sha256 else []
    named = hosts[0] if len(hosts) == 1 else f"{hosts[0]} … {hosts[-1]}"
    device = " and ".join(sorted(set(p["device_name"]))) or f"no GPU, {p['processor']}"
    rules = run.record.cases[0].settings["rules"] if run.record.cases else "unknown"
    where = f"{count(len(p['hosts']), 'rank')} on {count(len(hosts), 'host')} ({named})"
    return " · ".join((*title, where, device, p["written"], f"rules {rules}", *digest))


def speed_tile(cases, first):
    asked = [case for case in cases if case.tokens / case.expected > 0]
    if not asked:
        against = f"{percent(first.tokens / first.published)} of the published speed. " if first.published > 0 else ""
        return "fact", f"Speed, {first.label}", f"{number(first.tokens)} tokens/s", \
            f"{against}No speed was expected: the deck has no expect."
    worst = min(asked, key=lambda case: case.tokens / case.expected)
    allowed = 1 - worst.settings["tolerance"]
    good = worst.tokens >= allowed * worst.expected
    return "good" if good else "bad", "Speed against expected", percent(worst.tokens / worst.expected), \
        (f"{'worst of ' + str(len(asked)) + ': ' if len(asked) > 1 else ''}{worst.label}; {number(worst.tokens)} of "
         f"{number(worst.expected)} tokens/s; {100 * allowed:.4g} % asked")


def time_tile(first):
    title = f"Where the time went, {first.label}"
    if not first.by_rank:
        return "fact", title, "n/a", "Not known: the case did not come to its end."
    parts = {name: table.mean() for name, table in views.spent(first.case).items()}
    whole = sum(parts.values())
    waits = {name: part for name, part in parts.items() if name not in ("computing", "rest")}
    most = max(waits, key=waits.get)
    said = f"{percent(sum(waits.values()) / whole, 2)} waiting, most for {most}" if waits[most] else "no waiting"
    return "fact", title, f"{percent(parts['computing'] / whole, 2)} computing", \
        f"{said}; median step {seconds(first.case['results/median_seconds'])}"


def slow_tile(first):
    slow, units = first.outliers, "GPUs" if first.unit == "GPU" else "processes"
    title = f"Slow {units}, {first.label}"
    if not np.isfinite(first.excess).any():
        return "fact", title, "n/a", why_no_excess(first)
    if not slow:
        return "good", title, f"0 of {first.settings['ranks']}", "none computes 10 % longer than its peers"
    return "bad", title, f"{len(slow)} of {first.settings['ranks']}", \
        f"rank {slow[0]}, {first.run.places[slow[0]][0]} {first.device(slow[0])}: +{percent(first.excess[slow[0]])}"


def why_no_excess(case):
    """Explains why no rank was compared with its peers, and what to do about it."""
    s = case.settings
    if not case.by_rank:
        return "The record has no seconds of ranks, because the case did not come to its end. Run the deck again."
    if s["ranks"] == 1:
        return "One rank has no peers to compare with. Run the case on two ranks or more."
    if not np.any(case.values["ranks/peers"]):
        return "No two ranks have the same work, so none has peers. A layout with data = 2 or more gives them peers."
    few = len(views.measured(case.case)) < 10
    return ("Fewer than 10 steps were timed, too few to compare ranks. Set steps to 10 or more in the deck." if few else
            "Ranks shared cores, so their seconds cannot be compared. Run fewer ranks on a node, or fewer threads.")


def residual_tile(cases):
    done = [case for case in cases if case.values.get(CHECK + "/done")]
    if not done:
        return "doubt", "Arithmetic", "not checked", "No case was checked. Remove the line check = off from the deck."
    worst = max(done, key=lambda case: case.case[CHECK + "/residual"])
    residual, passed = worst.case[CHECK + "/residual"], all(case.case[CHECK + "/passed"] for case in done)
    sign = "<" if residual < THRESHOLD else "≥"
    return "good" if passed else "bad", "Arithmetic", f"{number(residual)} {sign} {THRESHOLD:.0f}", \
        f"largest residual of all checks, {worst.label}"


def row(group):
    """Returns a line of the table of cases. Repeats share a line."""
    first, s = group[-1], group[-1].settings
    value = lambda name: np.nanmedian([case.values.get("results/" + name, np.nan) for case in group])
    residuals = [case.values.get(CHECK + "/residual", np.nan) for case in group if case.values.get(CHECK + "/done")]
    worst, tokens = by_severity(group)[0], np.nanmedian([case.tokens for case in group])
    return {"cases": group, "settings": s, "tokens": tokens, "published": first.published,
            "days": value("days_per_trillion_tokens"), "layout": views.layout(first.case), "badges": worst.badges,
            "step": value("mean_seconds"), "per_rank": value("tokens_per_second_per_gpu"),
            "mfu": value("recipe_mfu"), "residual": max(residuals, default=np.nan),
            "of_expected": tokens / first.expected, "of_published": tokens / first.published,
            "spread": first.values.get("results/repeated_spread", np.nan)}


def sizes(cases):
    """Yields a table for each workload with several sizes, like the recipes: rows by ranks, with their efficiency."""
    groups = {}
    for group in views.repeats(cases):
        s = group[-1].settings
        if any(case.tokens > 0 for case in group):
            work = {**views.work(group[-1]), "global_batch": 0, "backend": s["backend"]}
            groups.setdefault(tuple(work.values()), []).append(row(group))
    for rows in (rows for rows in groups.values() if len(rows) > 1):
        rows.sort(key=lambda line: line["settings"]["ranks"])
        speeds = [line["tokens"] / line["settings"]["ranks"] if all(
            case.settings["verdict"] == "PASSED" for case in line["cases"]) else np.nan for line in rows]
        least = next((speed for speed in speeds if speed > 0), np.nan)
        s, first = rows[0]["settings"], rows[0]["cases"][-1]
        yield f"{s['workload']} {s['size']} {s['precision']}", "GPUs" if first.unit == "GPU" else "ranks", [
            {**line, "efficiency": speed / least} for line, speed in zip(rows, speeds)]
