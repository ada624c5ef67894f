"""Findings of the checks: how many numbers were compared, how far apart they were, and what is wrong."""

import numpy as np

# Relative rounding of at most 16 double operations in any order, each off by 2^-53 at most: 2e-15. Reports print 9
# digits or more.
ROUNDING = 1e-12


def count(number, noun):
    """Returns a number with its noun: 1 case, 2 cases."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def relative_differences(found, expected):
    """Returns |found - expected| over the larger, for each element. Two NaNs agree; one NaN agrees with nothing."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(all="ignore"):
        apart = np.abs(found - expected) / np.maximum(np.abs(found), np.abs(expected))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


class Findings:
    def __init__(self):
        self.sentences, self.numbers, self.worst = [], 0, 0.0

    def add(self, sentence):
        self.sentences.append(sentence)

    def demand(self, holds, sentence):
        if not holds:
            self.add(sentence)

    def same(self, name, found, expected, tolerance=0.0):
        """Adds a finding unless the recorded and the recomputed numbers agree within the relative tolerance."""
        found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
        if found.shape != expected.shape:
            self.add(f"{name} holds {count(found.size, 'number')}, recomputed {expected.size}")
            return
        self.numbers += int(np.count_nonzero(~(np.isnan(found) & np.isnan(expected))))    # a missing step is no number
        apart = np.atleast_1d(relative_differences(found, expected))
        worst = int(np.argmax(apart)) if apart.size else 0
        if apart.size == 0 or apart[worst] <= tolerance:
            self.worst = max(self.worst, float(apart[worst]) if apart.size else 0.0)
            return
        place = f"[{worst}]" if found.ndim else ""
        pair = f"{found.flat[worst]:.12g}, recomputed {expected.flat[worst]:.12g}"
        self.add(f"{name}{place} is {pair} (relative difference {apart[worst]:.3g})")
