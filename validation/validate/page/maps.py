"""Maps of node x GPU with a cell for each rank and 64 nodes in a band, and the names of remarkable ranks and nodes."""

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import BoundaryNorm
from matplotlib.patches import Rectangle

from validate import views
from validate.html import DARK, drawing, number, percent, picture

WIDTH, BAND, NAMED = 5.2, 64, 3
LEVELS = (-10, -7.5, -5, -2.5, -1, 1, 2.5, 5, 7.5, 10)     # percent; up to 1 % is noise
COLOURS = colormaps["RdBu_r"].resampled(11)
COLOURS.set_bad((0, 0, 0, 0))
SCALE = BoundaryNorm([level / 100 for level in LEVELS], 11, extend="both")
NODE_EXCESS, NODE_DEVIATIONS = 0.02, 6
HEIGHT, LETTER = 0.16, 0.071                               # inches of a line and of a letter in labels


class Grid:
    """The position of each rank on a map. A cell has space for a number if there are few nodes."""

    def __init__(self, places, nodes):
        first, self.node = np.unique(nodes, return_inverse=True)    # the lowest rank of a node identifies it
        self.hosts, self.columns = [places[rank][0] for rank in first], min(BAND, len(first))
        place = np.array([place for _, place in places])
        self.most, self.bands = place.max() + 1, -(-len(first) // BAND)
        gap = self.bands > 1
        self.x, self.y = self.node % BAND, self.node // BAND * (self.most + gap) + place
        self.rows = self.bands * (self.most + gap) - gap
        self.large = self.columns <= 8
        self.cell = (0.58, 0.22) if self.large else (4.7 / max(32, self.columns), max(4.7 / 64, 0.6 / self.most))

    def image(self, values):
        found = np.ma.masked_all((self.rows, self.columns))
        found[self.y, self.x] = np.ma.masked_invalid(values)
        return found

    def draw(self, values, scale, width=WIDTH, left=0.4, top=0.2, bottom=0.0, **how):
        """Returns a figure and its axes with the map. how: arguments of imshow, such as colours."""
        wide, tall = self.columns * self.cell[0] * scale, self.rows * self.cell[1] * scale
        figure, axes = drawing(width, tall + top + bottom + 0.08, left=left, right=width - left - wide, top=top,
                               bottom=bottom + 0.08)
        axes.imshow(self.image(values), aspect="auto", interpolation="none", **how).set_clip_path(None)
        axes.tick_params(length=0, labelsize=8)
        axes.set(xticks=[], yticks=[])
        for side in axes.spines.values():
            side.set(visible=True, color="#c9ccd1", linewidth=0.5)
        return figure, axes

    def number_nodes(self, axes):
        axes.xaxis.tick_top()
        axes.set_xticks(range(0, self.columns, 1 if self.large else 8))
        axes.set_yticks([band * (self.most + 1) + (self.most - 1) / 2 for band in range(self.bands)] if self.bands > 1
                        else range(0, self.most, 1 if self.large else max(1, self.most - 1)))
        if self.bands > 1:
            axes.set_yticklabels([f"{band * BAND}" for band in range(self.bands)])


def scale_bar(figure, left):
    """Draws the colour scale, with its percents, at the lower edge of a figure."""
    wide, tall = figure.get_size_inches()
    axes = figure.add_axes((left / wide, 0.2 / tall, 2.2 / wide, 0.1 / tall))
    middles = [-0.11, *[(low + high) / 200 for low, high in zip(LEVELS, LEVELS[1:])], 0.11]
    axes.imshow([middles], cmap=COLOURS, norm=SCALE, aspect="auto", interpolation="none").set_clip_path(None)
    axes.set_xticks([0.5, 3.5, 5, 6.5, 9.5], ["−10 %", "−2.5", "0", "+2.5", "+10 %"], fontsize=8)
    axes.tick_params(length=0)
    axes.set_yticks([])


def nodes_off(case, grid):
    """Returns (node, part, deviations) of nodes with a median excess beyond 2 % and beyond six deviations of nodes."""
    if len(grid.hosts) < BAND // 8 or grid.most < 2:
        return []
    middle = np.array([np.nanmedian(case.excess[np.flatnonzero(grid.node == n)]) for n in range(len(grid.hosts))])
    deviation = 1.4826 * np.nanmedian(abs(middle - np.nanmedian(middle)))
    far = np.flatnonzero((abs(middle) > NODE_EXCESS) & (abs(middle) > NODE_DEVIATIONS * deviation))
    return sorted(((int(n), middle[n], abs(middle[n]) / deviation) for n in far), key=lambda found: -abs(found[1]))


class Labels:
    """Words next to spots of a map. They do not overlap."""

    def __init__(self, axes, grid):
        self.axes, self.taken = axes, []
        self.cell, self.right = grid.cell, max(grid.columns, 4.8 / grid.cell[0])

    def overlaps(self, box):
        return any(box[0] <= other[1] and other[0] <= box[1] and box[2] < other[3] and other[2] < box[3]
                   for other in self.taken)

    def add(self, x, y, text):
        wide, tall = len(text) * LETTER / self.cell[0], HEIGHT / self.cell[1]
        for line in (0, -1, 1, -2, 2, -3, 3, -4, 4):
            at = y + line * tall
            for start, edge, side in ((x + 1.5, x + 1.5, "left"), (x - 1.5 - wide, x - 1.5, "right")):
                box = (start, start + wide, at - tall / 2, at + tall / 2)
                if start < -0.5 or box[1] > self.right or self.overlaps(box):
                    continue
                self.taken.append(box)
                self.axes.text(edge, at, text, weight="bold", va="center", ha=side, fontsize=8, clip_on=False,
                               bbox={"facecolor": "white", "alpha": 0.75, "pad": 0.5, "linewidth": 0})
                return


def circle(axes, grid, rank):
    axes.plot(grid.x[rank], grid.y[rank], "o", markersize=10, markerfacecolor="none", markeredgecolor=DARK,
              markeredgewidth=1.4, clip_on=False)


def excess(case, grid):
    """Maps the own computing time compared with peers. Returns the picture, and sentences on nodes that differ."""
    figure, axes = grid.draw(case.excess, 1, bottom=0.4, cmap=COLOURS, norm=SCALE)
    grid.number_nodes(axes)
    scale_bar(figure, 0.4)
    labels, off = Labels(axes, grid), nodes_off(case, grid)
    for node, _, _ in off:
        axes.add_patch(Rectangle((node % BAND - 0.5, node // BAND * (grid.most + 1) - 0.5), 1, grid.most, fill=False,
                                 edgecolor=DARK, linewidth=1.6, clip_on=False))
    for rank in case.outliers[:20]:
        circle(axes, grid, rank)
    if grid.large:
        for x, y, value in zip(grid.x, grid.y, case.excess):
            axes.text(x, y, f"{100 * value:+.1f} %", ha="center", va="center", fontsize=8,
                      color="white" if abs(value) > 0.075 else "black")
    for rank in case.outliers[:NAMED]:
        labels.add(grid.x[rank], grid.y[rank], f"{case.rank(rank)}: +{percent(case.excess[rank])}")
    for node, part, _ in off[:NAMED]:
        labels.add(node % BAND, node // BAND * (grid.most + 1) + (grid.most - 1) / 2,
                   f"node {grid.hosts[node]}: {'+' if part > 0 else '−'}{percent(abs(part), 2)}, no verdict")
    named = "; ".join(f"{case.rank(rank)} +{percent(case.excess[rank])}" for rank in case.outliers[:NAMED])
    said = [f"{grid.hosts[node]}: its {np.sum(grid.node == node)} ranks compute {percent(abs(part), 2)} "
            f"{'longer' if part > 0 else 'shorter'} (median); nodes usually differ by {percent(abs(part) / far, 2)}. "
            "This is below the limit of 10 %, so no verdict" for node, part, far in off[:NAMED]]
    return picture(figure, f"Map of {len(grid.x)} ranks by node; {named or 'no rank is slow'}."), said


def last_of_rank(case, name, join, start):
    """Returns a number for each rank, joined from its samples; NaN if it has none."""
    found = np.full(case.settings["ranks"], start)
    join.at(found, case.values["samples/rank"], np.nan_to_num(case.values["samples/" + name], nan=start))
    return np.where(np.isfinite(found), found, np.nan)


def of_samples(case, names, join, start):
    """Joins the first of these columns that the record has: extremes, or else samples."""
    name = next(name for name in names if "samples/" + name in case.values)
    return last_of_rank(case, name, join, start)


def further_tables(case):
    """Yields (title, values of ranks, unit, remarkable end, least width of the scale)."""
    steps, kinds = case.case.window, views.peers(case.case)
    median = case.case["results/median_seconds"]
    waits = sum(views.waits(case.case).values())[steps].mean(axis=0)
    late = case.case["ranks/late_seconds"][steps].mean(axis=0)
    for title, table, end in (("waits", waits, "low"), ("late to collectives", late, "high")):
        beyond = np.zeros(len(table))
        for kind in kinds:
            beyond[kind] = table[kind] - np.median(table[kind])
        yield f"{title}, ms a step beyond its peers", 1e3 * beyond, "ms", end, 1e3 * 0.02 * median
    clock = 1e-6 * of_samples(case, ("clock_least", "clock"), np.minimum, np.inf)
    warm = of_samples(case, ("temperature_most", "temperature"), np.maximum, -np.inf)
    total = last_of_rank(case, "power", np.add, 0.0)
    power = total / np.maximum(np.bincount(case.values["samples/rank"], minlength=len(total)), 1)
    yield "lowest clock", clock, "MHz", "low", 0.05 * np.nanmedian(clock)
    yield "highest temperature", warm, "°C", "high", 10
    yield "mean power", np.where(power > 0, power, np.nan), "W", "low", 0.2 * np.nanmedian(power)


def further(case, grid):
    """Yields figures with captions. A table without numbers gets only a sentence."""
    for title, values, unit, end, floor in further_tables(case):
        if not np.isfinite(values).any():
            yield None, f"{title}: the record has no values of it."
            continue
        middle, spread = np.nanmedian(values), max(floor, 6 * 1.4826 * np.nanmedian(abs(values - np.nanmedian(values))))
        low, high = (middle - spread, middle) if end == "low" else (middle, middle + spread)
        rank = int(np.nanargmin(values) if end == "low" else np.nanargmax(values))
        figure, axes = grid.draw(values, 0.68, 3.6, 0.05, 0.05, vmin=low, vmax=high,
                                 cmap="Blues_r" if end == "low" else "Blues")
        if not low <= values[rank] <= high:
            circle(axes, grid, rank)
        caption = (f"{title}, dark: {end}. Scale {number(low)} to {number(high)} {unit}; {end}est "
                   f"{number(values[rank])} {unit}: {case.rank(rank)}.")
        yield picture(figure, caption), caption
