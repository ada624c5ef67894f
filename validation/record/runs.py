"""Shared parts of the tests of kills, stops and full disks: a small deck, runs of it in separate folders, and a check
of what a run lost."""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "program")]
from validate import libraries  # noqa: E402

libraries.need()

from program import FULL, LONG, PROGRAM, Tap  # noqa: E402, F401
from validate import recover  # noqa: E402
from validate.record import Unreadable, read_record  # noqa: E402, F401

TOP = os.path.dirname(os.path.dirname(HERE))
XGSW = os.path.abspath(PROGRAM)
SHAPE = ("check = off\nsize = full\nprecision = fp32\ntensor = 1\nlayers = 2\nhidden = {0}\nffn = {0}\nheads = 4\n"
         "kv_heads = 2\nvocabulary = 256\nsequence = {0}\nmicrobatch = 1\nglobal_batch = 4\n")
SMALL = "a test\nof kills\n" + SHAPE.format(64) + "[llama3.1-8b]\nsteps = 12\n[llama3.1-70b]\nsteps = 12\n"
STEP = re.compile(r"global_step: +(\d+) .*reduced_train_loss: ([-\d.naif]+)")
CASE = re.compile(r"^Case (\d+) ")


def ranks_of(run):
    """Returns the process numbers of the ranks that an mpirun started, in the order of their start."""
    found = []
    for folder in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError), open(f"{folder}/stat", encoding="utf-8", errors="replace") as file:
            if int(file.read().rsplit(")", 1)[1].split()[1]) == run.pid:
                found.append(int(folder.split("/")[-1]))
    return sorted(found)


class Place:
    """A folder with a deck. Runs in it leave records there."""

    def __init__(self, deck=SMALL):
        self.path = tempfile.mkdtemp(prefix="xgsw-runs-")
        with open(self.file("deck.dat"), "w", encoding="utf-8") as file:
            file.write(deck)

    def file(self, name):
        return os.path.join(self.path, name)

    def names(self, end):
        return sorted(name for name in os.listdir(self.path) if name.endswith(end))

    def start(self, ranks, shim=None, **more):
        """Starts mpirun, or the program alone if ranks is 0, in a new process group. Output goes to the file out."""
        command = ["run/local", "-q", "-n", str(ranks), "-x"] if ranks else []
        command[:1] = [os.path.join(TOP, command[0])] if ranks else []
        environment = dict(os.environ, OMP_NUM_THREADS="1", **more)
        if shim:
            environment.update(LD_PRELOAD=shim[0], XGSW_SHIM=shim[1])
        with open(self.file("out"), "w", encoding="utf-8") as out, open(self.file("err"), "w", encoding="utf-8") as err:
            return subprocess.Popen([*command, XGSW, "deck.dat"], cwd=self.path, env=environment, stdout=out,
                                    stderr=err, start_new_session=True)

    def run(self, ranks, shim=None, **more):
        """Runs to the end. Returns status, output and errors."""
        status = self.start(ranks, shim, **more).wait(timeout=120)
        return status, self.text("out"), self.text("err")

    def wait_for(self, words, run):
        """Waits until the output contains the words or the run has finished."""
        while words not in self.text("out") and run.poll() is None:
            time.sleep(0.005)

    def text(self, name):
        with open(self.file(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def bytes(self, name):
        with open(self.file(name), "rb") as file:
            return file.read()

    def close(self):
        shutil.rmtree(self.path)


def shim_path(name):
    """Returns the path of the preloadable library that make built from validation/NAME.c."""
    return os.path.join(TOP, os.environ.get("BUILD", "build/mpicc"), "shims", name + ".so")


def printed_steps(text):
    """Returns (case, step) -> the loss as it was printed."""
    steps, case = {}, 0
    for line in text.splitlines():
        begins, step = CASE.match(line), STEP.search(line)
        if begins:
            case = int(begins[1])
        if step and "consumed_samples: " in line:
            steps[case, int(step[1])] = step[2]
    return steps


def recorded_steps(path):
    """Returns (case, step) -> the loss of a record, in the printed form."""
    return {(case.settings["case"], step): f"{loss:.6f}" for case in read_record(path).cases if case.ran
            for step, loss in enumerate(case["steps/losses"]) if loss == loss}


def lost(place, text, old=None):
    """Yields a sentence on each thing that a run should have left and did not, however it finished."""
    found = {}
    for name in place.names(".h5"):
        try:
            found.update({} if place.bytes(name) == old else recorded_steps(place.file(name)))
        except Unreadable as error:
            yield f"{name} cannot be read: {error}"
    if old and old not in [place.bytes(name) for name in place.names(".h5")]:
        yield "the old record is gone"
    for name in place.names(".journal"):
        try:
            found.update(recorded_steps(recover.recover(place.file(name))))
        except Unreadable as error:
            if "before it had written" not in str(error) and "not a journal" not in str(error):
                yield f"{name} cannot be read: {error}"
    for key, loss in printed_steps(text).items():
        if found.get(key) != loss:
            yield f"step {key[1]} of case {key[0]} was printed with the loss {loss}, and left is {found.get(key)}"


