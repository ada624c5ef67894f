#!/usr/bin/env python3
"""FP8 training against the float64 program: losses of the first step, and the scales of every tensor and step.

A scale of a power of two may be half or twice float64's where that was decided by a largest / amax near a power of
two; an exact one lies near float64's. Near is 2^-6 in the first step, whose scales BF16 calibrated, and for weights;
for what comes out of FP8 products it is one unit of its format: a value between two codes becomes either by its last
bits, so that two correct programs differ by that noise (measured: 0.10 for inputs, 0.21 for gradients). After it was
judged, float64 takes the run's scale, so that a step is judged by itself."""
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "program")]
from validate import libraries  # noqa: E402

libraries.need()

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from data import read_deck  # noqa: E402
from float64 import train  # noqa: E402
from fp8 import FORMAT, power_of_two  # noqa: E402
from layers import GRADIENT, INPUT  # noqa: E402
from program import Tap, alone  # noqa: E402

NEAR = 2.0**-6
LATER = [2.0**-FORMAT[INPUT].fraction_bits, NEAR, 2.0**-FORMAT[GRADIENT].fraction_bits]  # by kind
DECKS = sorted(HERE.glob("*-fp8.dat"))


def run_of(path, folder):
    """Losses [steps], gradient norms [steps] and scales [steps, tensors] of the deck's record, warm-up included."""
    title, remark, body = path.read_text().split("\n", 2)
    deck, record = Path(folder, path.name), Path(folder, "gsw.h5")
    deck.write_text(f"{title}\n{remark}\nrecord = {record}\n{body}")
    run = alone(str(deck))
    assert run.returncode == 0 and record.exists(), run.stdout[-2000:] + run.stderr
    with h5py.File(record) as f:
        case = f["case_0001"]
        return [case[name][()] for name in ("steps/losses", "steps/gradient_norms", "fp8/scales")]


class Judge:
    """Of scales [steps, tensors]: how many are those of float64, are excused, and which (step, tensor) are neither."""

    def __init__(self, scales, exact):
        self.scales, self.exact = scales, exact
        self.equal = self.excused = 0
        self.wrong = []

    def __call__(self, step, ratio):
        scale = self.scales[step]
        assert scale.shape == ratio.shape and np.all(ratio > 0)
        near = np.resize(LATER if step else NEAR, scale.shape)
        own, factor = power_of_two(ratio), ratio / power_of_two(ratio)
        equal = np.abs(scale / ratio - 1) < near if self.exact else scale == own
        excused = ((scale == own / 2) & (factor < 1 + near)) | ((scale == own * 2) & (factor > 2 * (1 - near)))
        excused &= ~equal & (not self.exact)
        self.equal += equal.sum()
        self.excused += excused.sum()
        self.wrong += [(step, int(i), scale[i], ratio[i]) for i in np.flatnonzero(~(equal | excused))]
        return scale.astype(np.float64)


def compare(tap, path):
    deck, name = read_deck(path), path.stem
    with tempfile.TemporaryDirectory() as folder:
        losses, norms, scales = run_of(path, folder)
    judge = Judge(scales, deck.exact_scales)
    curve = np.array([values[:2] for values in train(deck, judge)[0]])
    loss, norm = (np.abs(run / curve[:, i] - 1) for i, run in enumerate((losses, norms)))
    tap.say(f"{name}: loss at step 0 {loss[0]:.1e}, later {max(loss[1:]):.1e}, gradient norm {max(norm):.1e}; "
            f"of {scales.size} scales {judge.equal} equal, {judge.excused} apart where float64's is near a power of 2")
    tap.ok(np.all(losses > 0) and loss[0] < 1e-3, f"{name}: loss of the first step within 1e-3", str(loss))
    tap.ok(not judge.wrong, f"{name}: scales", "\n".join(map(str, judge.wrong)))


def main():
    tap = Tap()
    for path in DECKS:
        compare(tap, path)
    tap.done()


if __name__ == "__main__":
    main()
