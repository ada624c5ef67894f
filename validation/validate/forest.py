"""The page of a comparison: a table a candidate, with a picture of each case's interval."""

import math

from matplotlib.figure import Figure

from validate import html, ratios

LOOKS = {"FASTER": ("good", "\u25b2", "#006b4f"), "AS FAST": ("fact", "\u2713", "#0068a3"),
         "UNDECIDED": ("doubt", "?", "#7a5600"), "SLOWER": ("bad", "\u25bc", "#a83200"),
         "NOT COMPARABLE": ("soft", "\u2013", "#555b63")}
INCHES = (4.2, 0.28)
TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 10)


def limits(rows, tolerance):
    """Of the axis of one candidate: all intervals and runs, the allowed part, and a little more."""
    ends = [row[name] for row in rows if row["ratio"] for name in ("low", "high", "ratio_by_mean")]
    ends += [1.02, 1 - 1.5 * tolerance, *(ratio for row in rows for ratio in row["launches"])]
    margin = 1.03 * (max(ends) / min(ends)) ** 0.03
    return min(ends) / margin, max(ends) * margin


def axes_of(ends, tolerance, height):
    """An empty picture with the axis; what is allowed is grey."""
    figure = Figure(figsize=(INCHES[0], height))
    axes = figure.add_axes((0, 0, 1, 1), xscale="log", xlim=ends, ylim=(-1, 1))
    axes.axis("off")
    return figure, axes


def picture(row, ends, tolerance):
    """Square and line: ratio by the median and its interval; circles: runs; diamond: by the mean, if that decides."""
    figure, axes = axes_of(ends, tolerance, INCHES[1])
    axes.axvspan(1 - tolerance, 1, color="#e3e6ea", lw=0)
    axes.axvline(1, color=html.DARK, lw=1)
    if row["ratio"] is None:
        return html.picture(figure, f"{row['case']}: no ratio")
    colour = LOOKS[row["word"]][2]
    by_mean = abs(row["ratio_by_mean"] / row["ratio"] - 1) > tolerance / 5
    if by_mean:
        axes.plot((row["low_by_mean"], row["high_by_mean"]), (-0.6, -0.6), color=colour, lw=1)
        axes.plot(row["ratio_by_mean"], -0.6, "D", color=colour, ms=4)
    height = 0.3 * by_mean
    axes.plot((row["low"], row["high"]), (height, height), color=colour, lw=2, solid_capstyle="butt")
    axes.plot(row["ratio"], height, "s", color=colour, ms=6.5)
    axes.plot(row["launches"], [height] * len(row["launches"]), "o", mfc="white", mec=colour, ms=3, mew=0.7, lw=0)
    return html.picture(figure, f"{row['case']}: {row['ratio']:.3f}, from {row['low']:.3f} to {row['high']:.3f}")


def scale(ends, tolerance):
    """The numbers below the pictures of a candidate."""
    figure, axes = axes_of(ends, tolerance, 0.2)
    width = math.log(ends[1] / ends[0])
    ticks, last = [], -math.inf
    for tick in sorted(TICKS, key=lambda t: (t != 1, abs(math.log(t)))):
        near = min((abs(math.log(tick / other)) for other in ticks), default=math.inf)
        at = math.log(tick / ends[0]) / width
        if 0.03 < at < 0.97 and near > 0.1 * width:
            ticks.append(tick)
    for tick in ticks:
        axes.text(tick, 0, f"{tick:g}", ha="center", va="center", color="#555b63", fontsize=8)
    return html.picture(figure, "scale of the ratio: " + ", ".join(f"{tick:g}" for tick in sorted(ticks)))


def page(every, options):
    for found in every:
        ends = limits(found["cases"], options.tolerance)
        found = found
    parts = []
    for found in every:
        ends = limits(found["cases"], options.tolerance)
        pictures = [picture(row, ends, options.tolerance) for row in found["cases"]]
        parts.append({**found, "rows": list(zip(found["cases"], pictures)), "scale": scale(ends, options.tolerance)})
    names = list(dict.fromkeys(row["case"] for found in every for row in found["cases"]))
    table = [(found, [next((row for row in found["cases"] if row["case"] == name), None) for name in names])
             for found in every]
    title = f"Compare: {', '.join(found['candidate'] for found in every)} against {every[0]['baseline']}"
    return html.render("compare.html", title=title, parts=parts, names=names, table=table, looks=LOOKS, options=options,
                       words=ratios.WORDS)
