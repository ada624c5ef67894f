"""Pictures of a case over time: its steps, the parts of a step, and the ranks that are slow always or once."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from validate import slow, views
from validate.findings import count
from validate.html import BLUE, DARK, GREEN, ORANGE, RED, SKY, drawing, number, percent, picture, seconds
from validate.page.maps import COLOURS, SCALE, scale_bar

WIDTH = 5.2         # inches; half a page
STALL = 3           # times the median; an arrow marks a longer step
POINTS = 600        # points of a curve, at most
AXIS_COLOURS = {"computing": BLUE, "tensor": SKY, "pipeline": ORANGE, "gradient": GREEN, "shard": RED,
                "expert": "#cc79a7", "context": "#f0e442", "all": DARK, "rest": "#c9ccd1"}


def blocks(table, most, join):
    """Joins the rows of a table to `most` rows or fewer. Returns them and the number of rows in a block."""
    size = -(-len(table) // most)
    starts = np.arange(0, len(table), size)
    return (table if size == 1 else join.reduceat(table, starts)), size


def expected_seconds(case):
    """Returns the expected seconds of a step and the source: `expect`, else the deck's sheet, else published."""
    tokens, sums = case.settings["sequence"] * case.settings["global_batch"], np.nan
    if case.by_rank:
        parts = [case.values[f"{group}/expected_seconds"] for group in ("phases", "transfers")]
        sums = np.sum(np.concatenate(parts)) / case.case.timed
    for value, whose in ((tokens / case.expected, "expected"), (sums, "by the sheet"),
                         (tokens / case.published, "published")):
        if value > 0:
            return value, whose
    return np.nan, ""


def apart(places, least):
    """Returns the same heights, moved so that labels there do not overlap."""
    order, moved = np.argsort(places), np.array(places, float)
    for low, high in zip(order, order[1:]):
        moved[high] = max(moved[high], moved[low] + least)
    return moved


def draw_band(axes, case, x, size):
    """Draws the own computing of ranks: 10 to 90 % dark, all ranks light. Returns the median of the timed steps."""
    own = views.own_computing(case.case)[: case.case["results/completed"]]
    bands = np.percentile(own, (0, 10, 90, 100), axis=1).T
    starts = np.arange(0, len(own), size)
    low, high = (join.reduceat(bands, starts) for join in (np.minimum, np.maximum))
    axes.fill_between(x, low[:, 0], high[:, 3], color=SKY, alpha=0.25, linewidth=0)
    axes.fill_between(x, low[:, 1], high[:, 2], color=BLUE, alpha=0.7, linewidth=0)
    return np.median(own[case.settings["warmup"] :])


def mark_stalls(axes, x, shown, whole, top):
    """Draws arrows at steps beyond the picture. Prints the values of the three longest."""
    beyond = np.flatnonzero(whole > top)
    axes.plot(x[beyond], shown[beyond], linestyle="none", marker="^", color=RED, markersize=6, clip_on=False)
    named = []
    for n in sorted(beyond, key=lambda n: -whole[n]):
        late = x[n] > 0.8 * x[-1]
        if len(named) == 3 or any(abs(x[n] - other) < 0.25 * x[-1] for other in named):
            continue
        named.append(x[n])
        axes.text(x[n], 1.05 * top, seconds(whole[n]), color="#a83200", weight="bold",
                  ha="right" if late else "center" if x[n] > 0.2 * x[-1] else "left")


def steps(case):
    """Draws the step times in order, and marks slow steps."""
    whole = case.case["steps/step_seconds"][: case.case["results/completed"]]
    median, (expected, whose) = np.median(views.measured(case.case)), expected_seconds(case)
    lines, size = blocks(whole, POINTS, np.maximum)
    x = np.arange(len(lines)) * size
    top = max(min(lines.max(), STALL * median), median, np.nan_to_num(expected)) * 1.15
    figure, axes = drawing(WIDTH, 2.1, left=0.45, right=1.25, top=0.2, bottom=0.25)
    if case.settings["warmup"]:
        axes.axvspan(x[0] - 0.5, min(case.settings["warmup"], len(whole)) - 0.5, color="#e4e6ea", linewidth=0)
    labels = [(median, f"median {seconds(median)}", DARK)]
    if case.by_rank:
        middle = draw_band(axes, case, x, size)
        labels.append((middle, f"computing {seconds(middle)}", BLUE))
    if whose:
        axes.axhline(expected, color=GREEN, linestyle="--", linewidth=1.2)
        labels.append((expected, f"{whose} {seconds(expected)}", "#006b4f"))
    axes.plot(x, np.minimum(lines, top), color=DARK, linewidth=1, clip_on=False)
    mark_stalls(axes, x, np.minimum(lines, top), lines, top * (1 if lines.max() > STALL * median else 9))
    for (_, text, colour), y in zip(labels, apart([place for place, *_ in labels], top / 10)):
        axes.text(1.01, y / top, text, color=colour, transform=axes.transAxes, va="center")
    axes.set(xlim=(x[0] - 0.5, max(x[-1], 1) + 0.5), ylim=(0, top))
    axes.set_xticks([x[0], x[-1]] if len(x) > 1 else [x[0]], [f"step {n}" for n in (x[0], x[-1])[: len(x)]])
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y", color="#e4e6ea", linewidth=0.6)
    return picture(figure, f"Seconds of {count(len(whole), 'step')} on the slowest rank: median {seconds(median)}, "
                           f"longest {seconds(whole.max())}.")


def culprit(case, step):
    """Describes which rank made a slow step long, according to the record."""
    if not case.by_rank:
        return "which rank was slow is not known: the run was killed"
    rank = slow.slow_rank(slow.beyond_mean(case.case), step)
    return "all ranks waited" if rank < 0 else f"{case.rank(rank)} was slow"


def step_sentences(case):
    """Describes the three slowest steps (with culprits if the record calls them slow), spread, drift, and speeds."""
    measured, whole, warmup = views.measured(case.case), case.case["steps/step_seconds"], case.settings["warmup"]
    median, timed = np.median(measured), whole[case.case.window]
    slowest = [warmup + n for n in np.argsort(-timed, kind="stable")[:3]]
    who = lambda n: f"; {culprit(case, n)}" if whole[n] > slow.SLOW * median else ""
    found = [f"step {n}: {seconds(whole[n])}, {number(whole[n] / median)} × the median{who(n)}"
             for n in slowest if whole[n] > 1.02 * median]
    mean, middle = views.speed(case.case)
    if case.by_rank:
        found.append(f"spread p90/p10 {number(case.case['results/spread'])} (limit 1.2), drift "
                     f"{number(case.case['results/drift'])} (1/1.1 to 1.1)")
    return found + [f"{number(mean)} tokens/s by the mean, {number(middle)} by the median: the mean is "
                    f"{percent(abs(mean / middle - 1), 2)} {'lower' if mean < middle else 'higher'}"]


def bar(axes, y, parts, whole):
    """Draws a bar of parts in seconds. Prints names on the parts that are long enough, and the total at the end."""
    left, total = 0, sum(parts.values())
    for name, part in parts.items():
        axes.barh(y, part, left=left, height=0.42, color=AXIS_COLOURS[name], linewidth=0)
        share = f"{100 * part / total:.0f} %"
        inches = part / whole * (WIDTH - 0.7)
        text = next((text for text in (f"{name} {share}", share) if len(text) * 0.075 < inches), "")
        axes.text(left + part / 2, y, text, ha="center", va="center", fontsize=8,
                  color="white" if name in ("computing", "all") else "black")
        left += part
    axes.text(left + whole * 0.015, y, seconds(total), va="center")


def where(case):
    """Draws the expected step, and the parts of a step on the mean rank, the busiest and the one that waits most."""
    spent, (expected, whose) = views.spent(case.case), expected_seconds(case)
    spent = {name: table for name, table in spent.items() if table.any()}
    waiting = sum((table for name, table in spent.items() if name not in ("computing", "rest")),
                  np.zeros(case.settings["ranks"]))
    busiest, idlest = int(np.argmax(spent["computing"])), int(np.argmax(waiting))
    bars = [("mean of all ranks", {name: table.mean() for name, table in spent.items()})]
    bars += [(f"{what}: {case.rank(rank)}", {name: table[rank] for name, table in spent.items()})
             for what, rank in (("computes most", busiest), ("waits most", idlest)) if case.settings["ranks"] > 1]
    whole = max([sum(parts.values()) for _, parts in bars] + [np.nan_to_num(expected)])
    figure, axes = drawing(WIDTH, 0.45 * (len(bars) + bool(whose)) + 0.05, right=0.7)
    if whose:
        axes.barh(0, expected, height=0.42, color="none", edgecolor=GREEN, linewidth=1.2)
        axes.text(expected + whole * 0.015, 0, seconds(expected), va="center")
        axes.text(0, -0.27, f"{whose} step", va="bottom", fontsize=8)
    for y, (title, parts) in enumerate(bars, bool(whose)):
        axes.text(0, y - 0.27, title, va="bottom", fontsize=8)
        bar(axes, y, parts, whole)
    axes.set(xlim=(0, whole), ylim=(len(bars) + bool(whose) - 0.7, -0.7))
    axes.axis("off")
    mean = bars[0][1]
    said = ", ".join(f"{name} {percent(part / sum(mean.values()), 2)}" for name, part in mean.items())
    return picture(figure, f"Mean of all ranks: {said} of a step."), [(name, AXIS_COLOURS[name]) for name in mean]


def always(case, relative):
    """Draws the seven ranks that compute longest and the five with the slowest single step, against their peers."""
    first = case.settings["warmup"]
    timed = relative[case.case.window]
    order, peak = np.argsort(-case.excess, kind="stable")[:7].tolist(), np.nanmax(timed, axis=0, initial=-1)
    rows = list(dict.fromkeys(order + np.argsort(-peak, kind="stable")[:5].tolist()))
    shown, size = blocks(timed[:, rows], 120, np.maximum)
    figure, axes = drawing(WIDTH, 0.2 * len(rows) + 0.65, left=2.1, right=0.25, bottom=0.6, top=0.02)
    axes.imshow(shown.T, cmap=COLOURS, norm=SCALE, aspect="auto", interpolation="none").set_clip_path(None)
    axes.set_yticks(range(len(rows)), [case.rank(rank) for rank in rows], fontsize=8)
    axes.set_xticks([0, len(shown) - 1], [f"step {first}", f"step {first + len(timed) - 1}"], fontsize=8)
    axes.tick_params(length=0)
    scale_bar(figure, 2.1)
    return picture(figure, "Own computing of the slowest ranks in each step, against their peers: the slowest is "
                           f"{case.rank(rows[0])}.")
