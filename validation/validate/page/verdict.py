"""The top of a page: the word in its box, its reasons, four tiles, and the tables of cases and of sizes."""

import numpy as np

from validate import checks, views
from validate.findings import count
from validate.html import number, percent, seconds
from validate.outcome import CHECK, THRESHOLD

# Colour and symbol of each word: none stands without its symbol.
BAD, DOUBT, GOOD, FACT = ("bad", "✕"), ("doubt", "!"), ("good", "✓"), ("fact", "–")
WORDS = {"RECORD CONTRADICTS ITSELF": BAD, "FAILED": BAD, "INCOMPLETE": DOUBT, "NOT ACCEPTED": BAD, "ACCEPTED": GOOD,
         "NOTHING TRAINED": DOUBT, "NOT VALID": DOUBT, "VALID": GOOD, "PASSED": GOOD, "INTERRUPTED": DOUBT,
         "SKIPPED": FACT, "judged with the last repeat": FACT}
WORST = ("RECORD CONTRADICTS ITSELF", "FAILED", "INCOMPLETE", "NOT ACCEPTED", "NOT VALID", "VALID", "NOTHING TRAINED")
REASONS = 3


def by_severity(cases):
    """The worst first, of equal ones the first; those that trained nothing at the end."""
    return sorted(cases, key=lambda case: WORST.index(case.word))


def word_of(runs, cases):
    """The word of the whole, by precedence."""
    words = {case.word for case in cases}
    words |= {"RECORD CONTRADICTS ITSELF"} if any(run.whole for run in runs) else set()
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


def box_reasons(runs, cases, word):
    """At most three that decide, each with its case."""
    found = [f"the record as a whole: {sentence}" for run in runs for sentence in run.whole]
    if word == "INCOMPLETE":
        found += [sentence for run in runs for sentence in checks.missing(run.record)]
    skipped = word == "NOTHING TRAINED"
    for case in by_severity(cases):
        if case.reasons and (case.settings["verdict"] != "SKIPPED" or skipped):
            found.append(shortened(f"{case.label}: " + "; ".join(case.reasons[:2])))
    more = [f"and {count(len(found) - REASONS, 'more reason')} below"] if len(found) > REASONS else []
    return found[:REASONS] + more


def counts(cases):
    ran = [case for case in cases if case.case.ran]
    passed, valid = (sum(case.settings[key] == word for case in ran)
                     for key, word in (("verdict", "PASSED"), ("validity", "VALID")))
    asked = [group[-1] for group in views.repeats([case for case in cases if case.settings["acceptance"]])]
    accepted = sum(case.settings["acceptance"] == "ACCEPTED" for case in asked)
    skipped = f", {len(cases) - len(ran)} SKIPPED" if len(ran) < len(cases) else ""
    more = f", {accepted} of {len(asked)} ACCEPTED" if asked else "; nothing was expected (give `expect`)"
    return f"{count(len(ran), 'case')} ran: {passed} PASSED, {valid} VALID{skipped}{more}."


def origin(run):
    """One line on where a record comes from."""
    p, hosts = run.record.provenance, list(dict.fromkeys(run.record.provenance["hosts"]))
    title = " ".join(line.strip() for line in p["deck"].splitlines()[:2])
    named = hosts[0] if len(hosts) == 1 else f"{hosts[0]} … {hosts[-1]}"
    device = " and ".join(sorted(set(p["device_name"]))) or f"no GPU, {p['processor']}"
    rules = run.record.cases[0].settings["rules"] if run.record.cases else "unknown"
    return (f"{title} · {count(len(p['hosts']), 'rank')} on {count(len(hosts), 'host')} ({named}) · {device} · "
            f"{p['written']} · rules {rules} · SHA-256 of {run.name} {run.sha256}")


def speed_tile(cases, first):
    asked = [case for case in cases if case.tokens / case.expected > 0]
    if not asked:
        against = f"{percent(first.tokens / first.published)} of the published speed. " if first.published > 0 else ""
        return "fact", f"Speed, {first.label}", f"{number(first.tokens)} tokens/s", \
            f"{against}Nothing was expected: give `expect`."
    worst = min(asked, key=lambda case: case.tokens / case.expected)
    allowed = 1 - worst.settings["tolerance"]
    good = worst.tokens >= allowed * worst.expected
    return "good" if good else "bad", "Speed against expected", percent(worst.tokens / worst.expected), \
        (f"{'worst of ' + str(len(asked)) + ': ' if len(asked) > 1 else ''}{worst.label}; {number(worst.tokens)} of "
         f"{number(worst.expected)} tokens/s; {100 * allowed:.4g} % asked")


def time_tile(first):
    title = f"Where the time went, {first.label}"
    if not first.by_rank:
        return "fact", title, "n/a", "No seconds of ranks: a case that ended has them."
    parts = {name: table.mean() for name, table in views.spent(first.case).items()}
    whole = sum(parts.values())
    waits = {name: part for name, part in parts.items() if name not in ("computing", "rest")}
    most = max(waits, key=waits.get)
    said = f"{percent(sum(waits.values()) / whole, 2)} waiting, most for {most}" if waits[most] else "no waiting"
    return "fact", title, f"{percent(parts['computing'] / whole, 2)} computing", \
        f"{said}; a step {seconds(first.case['results/median_seconds'])}"


def slow_tile(first):
    slow, units = first.outliers, "GPUs" if first.unit == "GPU" else "processes"
    title = f"Slow {units}, {first.label}"
    if not np.isfinite(first.excess).any():
        return "fact", title, "n/a", why_no_excess(first)
    if not slow:
        return "good", title, f"0 of {first.settings['ranks']}", "none computes 10 % longer than its peers"
    return "bad", title, f"{len(slow)} of {first.settings['ranks']}", \
        f"{first.rank(slow[0])}: +{percent(first.excess[slow[0]])}"


def why_no_excess(case):
    """Why no rank was compared with its peers, and what to do."""
    s = case.settings
    if not case.by_rank:
        return "No seconds of ranks: let the case come to its end."
    if s["ranks"] == 1:
        return "One rank has no peers: use more ranks."
    if not np.any(case.values["ranks/peers"]):
        return "Each rank was given other work than the others: no peers to compare with."
    few = len(views.measured(case.case)) < 10
    return "Fewer than 10 timed steps: raise `steps`." if few else "Ranks shared cores: use fewer ranks or threads."


def residual_tile(cases):
    done = [case for case in cases if case.values.get(CHECK + "/done")]
    if not done:
        return "doubt", "Arithmetic", "not checked", "No case was checked: leave `check = off` out."
    worst = max(done, key=lambda case: case.case[CHECK + "/residual"])
    residual, passed = worst.case[CHECK + "/residual"], all(case.case[CHECK + "/passed"] for case in done)
    sign = "<" if residual < THRESHOLD else "≥"
    return "good" if passed else "bad", "Arithmetic", f"{number(residual)} {sign} {THRESHOLD:.0f}", \
        f"largest residual of all checks, {worst.label}"


def row(group):
    """A line of the table of cases; repeats are one."""
    first, s = group[-1], group[-1].settings
    value = lambda name: np.median([case.values.get("results/" + name, np.nan) for case in group])
    tokens, residuals = value("tokens_per_second"), [case.values.get(CHECK + "/residual", np.nan) for case in group
                                                     if case.values.get(CHECK + "/done")]
    worst = by_severity(group)[0]
    return {"cases": group, "settings": s, "layout": views.layout(first.case), "badges": worst.badges,
            "step": value("mean_seconds"), "per_rank": value("tokens_per_second_per_gpu"),
            "mfu": value("model_mfu"), "residual": max(residuals, default=np.nan),
            "of_expected": tokens / first.expected, "of_published": tokens / first.published,
            "spread": first.values.get("results/repeated_spread", np.nan)}


def sizes(runs_cases):
    """One workload at several sizes, as the recipes' tables have it: rows by ranks, with the efficiency per rank."""
    groups = {}
    for case in (case for case in runs_cases if case.tokens > 0):
        s = case.settings
        groups.setdefault((s["workload"], s["size"], s["precision"]), []).append(case)
    for name, group in groups.items():
        group.sort(key=lambda case: case.settings["ranks"])
        least = group[0].tokens / group[0].settings["ranks"]
        yield " ".join(name), [{
            "case": case, "ranks": case.settings["ranks"], "step": case.case["results/mean_seconds"],
            "tokens": case.tokens, "mfu": case.case["results/recipe_mfu"], "published": case.published,
            "days": case.case["results/days_per_trillion_tokens"],
            "efficiency": case.tokens / case.settings["ranks"] / least} for case in group]
