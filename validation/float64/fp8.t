#!/usr/bin/env python3
"""FP8 and BF16 training against the float64 program: losses, gradient norms, and the scales of every tensor and step.

float64 rounds where the run rounds, so that the two part only where a
sum in FP32 decides a rounding; the decks' seeds are among those whose loss FP8 moves by more than the limit here.

A scale of a power of two may be half or twice float64's where that was decided by a largest / amax near a power of
two; an exact one lies near float64's. Near is 2^-6 in the first step, whose scales BF16 calibrated, and for weights;
for what comes out of FP8 products it is one unit of its format: a value between two codes becomes either by its last
bits, so that two correct programs differ by that noise (measured: 0.10 for inputs, 0.21 for gradients). After it was
judged, float64 takes the run's scale, so that a step is judged by itself."""
import re
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

LOSS, NORM, LATER_LOSS = 3e-5, 1e-3, 5e-3  # relative; of the first step, of the first step, of all steps
NEAR = 2.0**-6
LATER = [2.0**-FORMAT[INPUT].fraction_bits, NEAR, 2.0**-FORMAT[GRADIENT].fraction_bits]  # by kind


def deck_of(path, folder, precision="fp8"):
    """The deck with a record in the folder; in BF16 its first step."""
    title, remark, keys = path.read_text().split("\n", 2)
    if precision == "bf16":
        keys = re.sub("^fp8_scale = .*\n", "", keys.replace("precision = fp8", "precision = bf16"), flags=re.M)
        keys = re.sub("^steps = .*", "steps = 1", keys, flags=re.M)
    deck = Path(folder, path.name)
    deck.write_text(f"{title}\n{remark}\nrecord = {folder}/gsw.h5\n{keys}")
    return deck


CURVE = "steps/losses", "steps/gradient_norms"  # [steps], warm-up included
SCALES = "fp8_tensors/scales"                  # [steps, tensors]


def run_of(deck, *names):
    """What the record of the deck's run has under the names."""
    run, record = alone(str(deck)), deck.parent / "gsw.h5"
    assert run.returncode == 0 and record.exists(), run.stdout[-2000:] + run.stderr
    with h5py.File(record) as f:
        case = f["case_0001"]
        return [case[name][()] for name in names]


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


def relative(run, curve):
    return [np.abs(of_run / [values[i] for values in curve] - 1) for i, of_run in enumerate(run[:2])]


def compare_bf16(tap, path):
    """The same without FP8: returns float64's loss and gradient norm of the first step."""
    with tempfile.TemporaryDirectory() as folder:
        deck = deck_of(path, folder, "bf16")
        run, curve = run_of(deck, *CURVE), train(read_deck(deck))[0]
    (loss,), (norm,) = relative(run, curve)
    tap.ok(loss < LOSS and norm < NORM, f"{path.stem}: in BF16, first step: loss {loss:.1e}, gradient norm {norm:.1e}")
    return curve[0]


def compare(tap, path):
    unquantized = compare_bf16(tap, path)
    with tempfile.TemporaryDirectory() as folder:
        deck = deck_of(path, folder)
        *run, scales = run_of(deck, *CURVE, SCALES)
    judge = Judge(scales, read_deck(path).exact_scales)
    curve = train(read_deck(path), judge)[0]
    loss, norm = relative(run, curve)
    effects = [abs(other / own - 1) for other, own in zip(unquantized[:2], curve[0])]
    tap.say(f"{path.stem}: FP8's effect on these {effects[0]:.1e}, {effects[1]:.1e}; losses later {max(loss[1:]):.1e}, "
            f"gradient norms {max(norm[1:]):.1e}")
    tap.ok(loss[0] < LOSS < effects[0] and norm[0] < NORM, f"{path.stem}: first step: loss {loss[0]:.1e}, "
           f"gradient norm {norm[0]:.1e}")
    tap.ok(max(loss) < LATER_LOSS, f"{path.stem}: losses of all steps", str(loss))
    tap.ok(not judge.wrong, f"{path.stem}: of {scales.size} scales {judge.equal} equal, {judge.excused} apart where "
           "a power of two is near", "\n".join(map(str, judge.wrong)))


def main():
    tap = Tap()
    for path in sorted(HERE.glob("*-fp8.dat")):
        compare(tap, path)
    tap.done()


if __name__ == "__main__":
    main()
