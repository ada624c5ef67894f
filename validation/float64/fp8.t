#!/usr/bin/env python3
"""FP8 and BF16 training against the float64 program: losses, gradient norms, and scales of every tensor and step.

float64 rounds where the run rounds, so they differ only if a sum in FP32 decides a rounding. With the seeds of these
decks, FP8 changes the loss by more than the limit here.

A power-of-two scale may be half or twice that of float64 if its largest / amax was near a power of two. An exact scale
must be near float64's. Near means 2^-6 for weights, and for all in the first step, whose scales BF16 calibrated. For
results of FP8 products it means one unit of their format: the last bits of a value between two FP8 values decide its
rounding, so two correct programs differ by that noise (measured: 0.10 for inputs, 0.21 for gradients). After judging a
step, float64 takes the run's scales, so that each step is judged alone."""
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
from program import FULL, Tap, alone  # noqa: E402

LOSS, NORM, LATER_LOSS = 3e-5, 1e-3, 5e-3  # relative; the first two are of the first step, LATER_LOSS of all
NEAR = 2.0**-6
BRIEF = "llama2-70b-fp8", "grok1-314b-fp8"     # the short test: exact scales; power-of-two scales and experts
LATER = [2.0**-FORMAT[INPUT].fraction_bits, NEAR, 2.0**-FORMAT[GRADIENT].fraction_bits]  # for each kind


def deck_of(path, folder, precision="fp8"):
    """Writes the deck with a record in the folder. In BF16 only its first step."""
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
    """Runs the deck. Returns what its record has under these names."""
    run, record = alone(str(deck)), deck.parent / "gsw.h5"
    assert run.returncode == 0 and record.exists(), run.stdout[-2000:] + run.stderr
    with h5py.File(record) as f:
        case = f["case_0001"]
        return [case[name][()] for name in names]


class Judge:
    """Judges scales [steps, tensors]: counts equal and excused ones, and lists the (step, tensor) of the others."""

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
    """Compares a run without FP8. Returns float64's loss and gradient norm of the first step."""
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
        if FULL or path.stem in BRIEF:
            compare(tap, path)
    tap.done()


if __name__ == "__main__":
    main()
