"""The ratio of two speeds with its 95 % interval, and the word for it. A launch is one observation, because steps and
repeats of one launch share nodes, clocks and neighbours: their spread says little about the next launch."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtri, stdtrit

WORDS = ("FASTER", "AS FAST", "UNDECIDED", "SLOWER")    # from good to bad
# Weight of --between: that of a deviation seen with this many degrees of freedom, in five earlier runs.
DEGREES = 4
# A deviation is unusual if it exceeds that of this part of the sides that truly have the assumed deviation. With 3 + 3
# runs, in 94.5 % of cases the interval holds the true ratio or the deviation is unusual, at any true deviation.
USUAL = 0.8
MOST_RUNS = 200


@dataclass(frozen=True)
class Prior:
    """The deviation of log speed between runs that was known before these runs."""

    deviation: float
    degrees: int = DEGREES
    seen: bool = False      # in earlier runs; False: assumed


def prior_of(between, earlier=()):
    """Returns the deviation of earlier runs (log speeds) if there are two or more, otherwise that of --between."""
    return Prior(float(np.std(earlier, ddof=1)), len(earlier) - 1, True) if len(earlier) > 1 else Prior(between)


@dataclass(frozen=True)
class Interval:
    """The logarithm of a ratio of speeds. s is the deviation of runs on both sides. unusual is the deviation that they
    show if the prior makes it improbable, otherwise 0."""

    difference: float
    s: float
    runs: tuple
    prior: Prior
    unusual: float

    def half(self, first, second):
        """Returns half the width of the interval for these numbers of runs.

        The prior stands for f0 squares of earlier runs, b^2 each; n1 + n2 runs about two means add n1 + n2 - 2 squares.
        For normal log speeds with the deviation sigma, (f0 b^2 + sum of squares) / sigma^2 = f s^2 / sigma^2 is
        chi-square of f = f0 + n1 + n2 - 2 degrees, if b was found in f0 + 1 runs. The difference of the means has the
        variance sigma^2 (1/n1 + 1/n2), so its error over s sqrt(1/n1 + 1/n2) is Student's t of f degrees.
        --between has f0 = 4, hence f = n1 + n2 + 2; --history of n runs of the case has f0 = n - 1."""
        degrees = self.prior.degrees + first + second - 2
        return float(stdtrit(degrees, 0.975)) * self.s * math.sqrt(1 / first + 1 / second)

    @property
    def ratios(self):
        """Ratio, lower end and upper end of its interval."""
        return tuple(math.exp(self.difference + sign * self.half(*self.runs)) for sign in (0, -1, 1))

    def word(self, tolerance, runs=None):
        """Returns the word, or the word that other numbers of runs would get with the same ratio and deviation."""
        half, allowed = self.half(*(runs or self.runs)), math.log(1 - tolerance)
        low, high = self.difference - half, self.difference + half
        return "FASTER" if low > 0 else "AS FAST" if low > allowed else "SLOWER" if high < allowed else "UNDECIDED"


def interval(first, second, prior):
    """Returns the interval. first, second: log speeds of the launches of each side."""
    degrees = len(first) + len(second) - 2
    squares = float(np.var(first) * len(first) + np.var(second) * len(second))
    s = math.sqrt((prior.degrees * prior.deviation**2 + squares) / (prior.degrees + degrees))
    shown = math.sqrt(squares / degrees) if degrees else 0.0
    most = math.inf
    if degrees:
        most = fdtri(degrees, prior.degrees, USUAL) if prior.seen else chdtri(degrees, 1 - USUAL) / degrees
    unusual = shown if shown > math.sqrt(most) * prior.deviation else 0.0
    return Interval(float(np.mean(second) - np.mean(first)), s, (len(first), len(second)), prior, unusual)


def worst(words):
    return max(words, key=WORDS.index)


def runs_that_decide(intervals, tolerance):
    """Returns the least number of runs a side that would decide with the same results; None if it is too large."""
    return next((runs for runs in range(max(intervals[0].runs), MOST_RUNS + 1)
                 if worst(i.word(tolerance, (runs, runs)) for i in intervals) != "UNDECIDED"), None)
