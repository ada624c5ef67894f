"""Shared parts of pages: templates, readable numbers, and pictures as SVG within the page."""

import io
import math
import os
import re

import jinja2
import matplotlib
import matplotlib.figure
import matplotlib.pyplot
from markupsafe import Markup

matplotlib.use("svg")
matplotlib.rcParams.update({
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "image.interpolation": "none",
})
# The colours of Okabe and Ito, which colour-blind readers can distinguish.
BLUE, SKY, ORANGE, GREEN, RED, DARK = "#0072b2", "#56b4e9", "#e69f00", "#009e73", "#d55e00", "#1a1d21"
FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "templates")
NARROW = "\u202f"


def exponent(value, digits=3):
    """Returns the power of ten of a number, rounded to this many digits."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def number(value, digits=3):
    """Returns three significant digits, or all of a whole part, with narrow spaces between thousands: 3 524 030."""
    if value is None or not math.isfinite(value):
        return "n/a"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - exponent(value, digits))
    rounded = f"{value:,.{min(places, 9)}f}".replace(",", NARROW)
    return rounded if abs(value) >= 1e-6 else f"{value:.{digits - 1}e}"


def whole(value):
    """Returns all digits of a count."""
    return f"{int(value):,}".replace(",", NARROW)


def percent(part, digits=3):
    return f"{number(100 * part, digits)}{NARROW}%" if math.isfinite(part) else "n/a"


def seconds(value):
    """Returns a time with a suitable unit."""
    for limit, unit, scale in ((1e-3, "µs", 1e6), (1, "ms", 1e3), (120, "s", 1), (7200, "min", 1 / 60)):
        if not math.isfinite(value):
            return "n/a"
        if float(f"{value:.2e}") < limit:
            return f"{number(value * scale)}{NARROW}{unit}"
    return f"{number(value / 3600)}{NARROW}h"


def drawing(width, height, **axes):
    """Returns a figure of this size in inches and its axes. axes: margins in inches (left, right, top, bottom)."""
    left, right, top, bottom = (axes.get(side, 0) for side in ("left", "right", "top", "bottom"))
    figure = matplotlib.figure.Figure((width, height))
    return figure, figure.add_axes((left / width, bottom / height, 1 - (left + right) / width,
                                    1 - (top + bottom) / height))


def scaled(value, unit):
    """Returns a quantity with a suitable decimal prefix: 37.3 MJ."""
    power = min(5, max(-1, exponent(value) // 3)) if value and math.isfinite(value) else 0
    return f"{number(value / 1000.0**power)}{NARROW}{'m kMGTP'[power + 1].strip()}{unit}"


def picture(figure, sentence):
    """Returns the figure as SVG text. The sentence describes it for screen readers."""
    matplotlib.rcParams["svg.hashsalt"] = sentence    # makes ids of a picture unique on the page
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    matplotlib.pyplot.close(figure)
    svg = re.sub(r'^.*?(?=<svg)| xmlns(:xlink)?="[^"]*"|<metadata>.*?</metadata>| id="[\w.]+_\d+"', "", text.getvalue(),
                 flags=re.S)
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{Markup.escape(sentence)}"', 1))


def render(template, **values):
    """Returns a page from a template of the folder. Escapes every value that is not Markup."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters.update(number=number, whole=whole, percent=percent, seconds=seconds, scaled=scaled)
    return environment.get_template(template).render(**values)
