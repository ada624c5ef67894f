"""The ratio of two speeds with its 95 % interval, and the word for it. The unit is the launch: steps and repeats of one
launch share nodes, clocks and neighbours, so that their spread says little about the next launch."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtri, stdtrit

WORDS = ("FASTER", "AS FAST", "UNDECIDED", "SLOWER")    # from good to bad
# --between counts as much as a deviation that was seen with so many degrees of freedom: in five earlier runs.
DEGREES = 4
# The part of sides with the assumed deviation whose runs differ less than what is called more than assumed. With
# 3 + 3 runs an interval then holds the true ratio, or has that note, in 94.5 % of all cases at any deviation.
USUAL = 0.8
MOST_RUNS = 200


@dataclass(frozen=True)
class Prior:
    """What is known of the deviation of log speed between runs before these: its square, its degrees of freedom."""

    square: float
    degrees: int
    seen: bool = False

    @property
    def deviation(self):
        return math.sqrt(self.square)


def prior_of(between, earlier=()):
    """From log speeds of earlier runs of the same case if there are two or more, otherwise from --between."""
    if len(earlier) < 2:
        return Prior(between**2, DEGREES)
    return Prior(float(np.var(earlier, ddof=1)), len(earlier) - 1, seen=True)


@dataclass(frozen=True)
class Interval:
    """The logarithm of a ratio of speeds: difference +- half. Both sides' runs deviate by s, with these degrees."""

    difference: float
    s: float
    runs: tuple
    prior: Prior
    unusual: float          # the deviation that was seen, if it is larger than the prior lets expect; otherwise 0

    def half_of(self, first, second):
        """Half the width for so many runs a side.

        The prior counts as f0 squares of earlier runs; n1 + n2 runs about two means have n1 + n2 - 2 more. For normal
        log speeds of equal deviation (f0 b^2 + sum of squares) / sigma^2 is chi-square of f = f0 + n1 + n2 - 2 degrees
        if b^2 was found from f0 degrees, so (d - true d) / (s sqrt(1/n1 + 1/n2)) has Student's distribution of f
        degrees. With f0 = 4 of --between f is n1 + n2 + 2; --history of n runs of the case has f0 = n - 1."""
        degrees = self.prior.degrees + first + second - 2
        return float(stdtrit(degrees, 0.975)) * self.s * math.sqrt(1 / first + 1 / second)

    @property
    def half(self):
        return self.half_of(*self.runs)

    @property
    def ratios(self):
        """Ratio, lower and upper end of its interval."""
        return tuple(math.exp(self.difference + part * self.half) for part in (0, -1, 1))

    def word(self, tolerance, *runs):
        """The word for these runs; with other numbers of runs, the word if they find the same ratio and deviation."""
        half, allowed = self.half_of(*(runs or self.runs)), math.log(1 - tolerance)
        if self.difference - half > 0:
            return "FASTER"
        if self.difference - half > allowed:
            return "AS FAST"
        return "SLOWER" if self.difference + half < allowed else "UNDECIDED"


def is_unusual(square, degrees, prior):
    """Is the square of the deviation that was seen larger than that of most sides with the assumed deviation?"""
    if not degrees:
        return False
    most = fdtri(degrees, prior.degrees, USUAL) if prior.seen else chdtri(degrees, 1 - USUAL) / degrees
    return square > most * prior.square


def interval(first, second, prior):
    """first, second: log speeds of the launches of each side."""
    first, second = (np.asarray(side, dtype=float) for side in (first, second))
    squares, observed = sum(float(np.sum((side - side.mean()) ** 2)) for side in (first, second)), \
        len(first) + len(second) - 2
    s = math.sqrt((prior.degrees * prior.square + squares) / (prior.degrees + observed))
    square = squares / observed if observed else 0.0
    unusual = math.sqrt(square) if is_unusual(square, observed, prior) else 0.0
    return Interval(float(second.mean() - first.mean()), s, (len(first), len(second)), prior, unusual)


def worst(words):
    return max(words, key=WORDS.index)


def runs_that_decide(intervals, tolerance):
    """The least number of runs a side that give another word than UNDECIDED, if they find the same; None: too many."""
    for runs in range(max(intervals[0].runs) + 1, MOST_RUNS + 1):
        if worst(i.word(tolerance, runs, runs) for i in intervals) != "UNDECIDED":
            return runs
    return None
