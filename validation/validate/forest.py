"""The HTML page of a comparison: a table for each candidate, with a picture of each case's interval."""

import math

from matplotlib import pyplot

from validate import html

LOOKS = {"FASTER": ("good", "\u25b2", "#006b4f"), "AS FAST": ("fact", "\u2713", "#0068a3"),
         "UNDECIDED": ("doubt", "?", "#7a5600"), "SLOWER": ("bad", "\u25bc", "#a83200"),
         "NOT COMPARABLE": ("soft", "\u2013", "#555b63")}
ALIKE = 0.01    # The picture shows both ratios only if they differ by more.


def axes_of(rows, tolerance, height):
    """Returns a figure and its axes, whose logarithmic scale is the same for all rows of a candidate."""
    ends = [1 - 1.5 * tolerance, 1 + tolerance / 2, *(ratio for row in rows for ratio in row["launches"])]
    ends += [row[name] for row in rows if row["ratio"] for name in ("low", "high", "low_by_mean", "high_by_mean")]
    margin = (max(ends) / min(ends)) ** 0.04
    figure = pyplot.figure(figsize=(2.7, height))
    axes = figure.add_axes((0, 0, 1, 1), xscale="log", xlim=(min(ends) / margin, max(ends) * margin), ylim=(-1, 1))
    axes.axis("off")
    return figure, axes


def picture(row, rows, tolerance):
    """Draws the interval and ratio by the median (bar, square) and the runs (circles). If the mean gives another ratio,
    adds it (thin bar, diamond). The grey area is the allowed loss."""
    if row["ratio"] is None:
        return ""
    figure, axes = axes_of(rows, tolerance, 0.3)
    axes.axvspan(1 - tolerance, 1, color="#e3e6ea", lw=0)
    axes.axvline(1, color=html.DARK, lw=1)
    colour = LOOKS[row["word"]][2]
    apart = 0.35 * (abs(row["ratio_by_mean"] / row["ratio"] - 1) > ALIKE)
    for low, middle, high, y, width, form in (("low", "ratio", "high", apart, 2, "s"),
                                              ("low_by_mean", "ratio_by_mean", "high_by_mean", -apart, 1, "D")):
        if y >= 0 or apart:
            axes.plot((row[low], row[high]), (y, y), color=colour, lw=width)
            axes.plot(row[middle], y, form, color=colour, ms=3 + 1.5 * width)
    axes.plot(row["launches"], [apart] * len(row["launches"]), "o", mfc="white", mec=colour, ms=3, mew=0.7)
    return html.picture(figure, f"{row['case']}: {row['ratio']:.3f}, from {row['low']:.3f} to {row['high']:.3f}")


def scale(rows, tolerance):
    """Draws the scale below the pictures of a candidate: 1, and the ends unless they are too near to 1."""
    figure, axes = axes_of(rows, tolerance, 0.2)
    low, high = axes.get_xlim()
    axes.text(1, 0, "1", ha="center", va="center", color="#555b63")
    for end, side in ((low, "left"), (high, "right")):
        if abs(math.log(end)) > 0.1 * math.log(high / low):
            axes.text(end, 0, f"{end:.2f}", ha=side, va="center", color="#555b63")
    return html.picture(figure, f"scale from {low:.2f} to {high:.2f}")


def page(every, options):
    """Returns the comparisons of all candidates as HTML."""
    parts = [{**found, "scale": scale(found["cases"], options.tolerance),
              "rows": [(row, picture(row, found["cases"], options.tolerance)) for row in found["cases"]]}
             for found in every]
    names = list(dict.fromkeys(row["case"] for found in every for row in found["cases"]))
    title = f"Compare: {', '.join(found['candidate'] for found in every)} against {every[0]['baseline']}"
    return html.render("compare.html", title=title, parts=parts, names=names, looks=LOOKS, options=options)
