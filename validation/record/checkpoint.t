#!/usr/bin/env python3
"""Damaged checkpoints, kills during saves, and full disks: a load is refused or right, and never loads a part. 2,000
changes, 400 kills, 30 full disks; in the short test 28, 6 and 3."""

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from runs import HANGS, LONG, SHAPE, TOP, XGSW, Place, Tap, call, on_disk, ranks_of, script

import h5py  # isort: skip

HEAD = "a test\nof checkpoints\nrecord = none\n" + SHAPE.format(64).replace("layers = 2", "layers = 1")
SAVES = HEAD + "steps = 4\ncheckpoint = ck\ncheckpoint_every = 2\n[llama3.1-8b]\n"
LOADS = HEAD + "steps = 1\nload = ck\n[llama3.1-8b]\n"
SAVED = re.compile(r"^Global Checkpoint Save : Rank: 0 : Iteration: (\d+) : Start time: \d+\.\d{3}s : Save duration: "
                   r"\d+\.\d{3}s$", re.M)
LOADED = re.compile(r"^Loaded     step (\d+): ", re.M)
LOSS = re.compile(r"reduced_train_loss: (\S+)")
# Workload -> the number of a step, and the samples so far, in its step lines.
FORMS = {"gpt3-175b": r"^completed step: (\d+)()", "grok1-314b": r"global_step=(\d+)\..* consumed_samples=(\d+)",
         "llama3.1-8b": r"global_step: +(\d+) .* consumed_samples: (\d+)$"}
CHANGES, KILLS = (2000, 400) if LONG else (28, 6)


def load(checkpoint, deck=LOADS, files=None):
    """Loads the checkpoint on one rank. Returns status, output and errors."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
    with Place(deck) as place:
        os.symlink(checkpoint, place.file("ck"))
        # Open MPI keeps the sessions of all isolated singletons in one folder, and the first that ends removes it.
        alone = dict(os.environ, OMP_NUM_THREADS="1", OMPI_MCA_ess_singleton_isolated="1", TMPDIR=place.path)
        return subprocess.run([XGSW, "deck.dat"], cwd=place.path, capture_output=True, text=True, check=False,
                              timeout=HANGS, env=alone, preexec_fn=limit)


def flip(draw, folder, _):
    path = os.path.join(folder, draw.choice(sorted(os.listdir(folder))))
    with open(path, "r+b") as file:
        at = draw.randrange(os.path.getsize(path))
        file.seek(at)
        old = file.read(1)[0]
        file.seek(at)
        file.write(bytes([old ^ 1 << draw.randrange(8)]))
    return f"{os.path.basename(path)}, byte {at}"


def cut(draw, folder, _):
    path = os.path.join(folder, draw.choice(sorted(os.listdir(folder))))
    os.truncate(path, draw.randrange(os.path.getsize(path)))
    return f"{os.path.basename(path)} cut"


def swap(_, folder, __):
    first, second = (os.path.join(folder, f"rank-0000{rank}.h5") for rank in (0, 1))
    os.rename(first, first + "x")
    os.rename(second, first)
    os.rename(first + "x", second)
    return "files of two ranks swapped"


def remove(draw, folder, _):
    name = draw.choice(sorted(os.listdir(folder)))
    os.remove(os.path.join(folder, name))
    return f"{name} removed"


def replace(draw, folder, other):
    name = draw.choice(sorted(os.listdir(folder)))
    shutil.copy(os.path.join(other, name), os.path.join(folder, name))
    return f"{name} of another step"


def change(number, whole, other, right):
    """Changes a copy at random. Returns what was done, whether the load was refused, and what is wrong."""
    draw, folder = random.Random(number), tempfile.mkdtemp()
    shutil.copytree(whole, folder, dirs_exist_ok=True)
    way = (flip, flip, flip, cut, swap, remove, replace)[number % 7]
    done = way(draw, folder, other)
    run = load(folder)
    shutil.rmtree(folder)
    refused = run.returncode == 2 and run.stderr.startswith("xgsw: load: ") and not LOSS.search(run.stdout)
    same = run.returncode == 0 and LOSS.findall(run.stdout) == right
    return done, refused, "" if refused or same else f"{done}: status {run.returncode}: {run.stderr[-300:]}"


def damage(tap, saved):
    whole, other = os.path.join(saved, "step-00000004"), os.path.join(saved, "step-00000002")
    clean = load(whole)
    right = LOSS.findall(clean.stdout)
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda number: change(number, whole, other, right), range(CHANGES)))
    wrong = [sentence for _, _, sentence in ends if sentence]
    refused = sum(refused for _, refused, _ in ends)
    tap.ok(clean.returncode == 0 and right and not wrong and refused > 0.8 * len(ends),
           f"{len(ends)} changes of a checkpoint, {refused} of them refused, the others without effect",
           "\n".join(wrong) or clean.stderr)
    for files in range(4, 12, 1 if LONG else 3):
        run = load(whole, files=files)
        if run.returncode == 0 and LOSS.findall(run.stdout) != right:
            tap.ok(False, f"{files} open files: another loss")


def refusals(tap, saved):
    for keys, words in (("seed = 7\n", "was saved with seed 1, but the deck has 7"),
                        ("precision = bf16\n", "was saved with precision fp32, but the deck has bf16")):
        deck = LOADS.replace("precision = fp32\n", "") if "precision" in keys else LOADS
        run = load(saved, deck.replace("steps = 1\n", "steps = 1\n" + keys))
        tap.ok(run.returncode == 2 and words in run.stderr, f"a deck with another {keys.split()[0]} is refused",
               run.stderr)
    run = load("/nowhere")
    tap.ok(run.returncode == 2 and "cannot read the folder" in run.stderr, "no checkpoint is refused", run.stderr)


def continued(tap):
    """A run after a load counts its steps on, in each form of the step line, and validates, also if it is killed."""
    validate, head = script("validate"), "a test\nof steps\ncheck = off\nsize = check\n"
    with Place(f"{head}steps = 4\ncheckpoint = ck\n[" + "]\n[".join(FORMS) + "]\n") as place:
        place.run(0)
        for number, (workload, form) in enumerate(FORMS.items(), 1):
            deck = f"{head}load = ck/case-{number}\n[{workload}]\nglobal_batch = 2\nsteps = "
            place.write("deck.dat", deck + "12\n")
            status, text, error = place.run(0)
            told, log = call(validate, place.file("gsw.h5"), "--log", place.file("out"))
            right = [(str(step), str(2 * step + 2) if "samples" in form else "") for step in range(4, 16)]
            tap.ok(status == told == 0 and re.findall(form, text, re.M) == right,
                   f"{workload} counts on from the steps of its checkpoint", text + error + log)
        place.write("deck.dat", deck + "4000\n")
        run = place.start(0)
        place.wait_for("consumed_samples", run)
        run.kill()
        run.wait()
        told, log = call(validate, "--recover", place.file("gsw.h5.journal"), "--log", place.file("out"))
        tap.ok(told == 75, "also if it is killed", log)


def kill(number):
    """Kills a run with many saves. Returns the number of printed saves, and what is wrong."""
    draw, place = random.Random(number), Place(SAVES.replace("steps = 4", "steps = 4000"))
    run = place.start(2)
    place.wait_for("Global Checkpoint Save", run)
    time.sleep(draw.uniform(0.0, 0.3))
    for process in ranks_of(run)[:1 + number % 2]:
        os.kill(process, signal.SIGKILL)
    run.wait(timeout=HANGS)
    said = [int(step) for step in SAVED.findall(place.text("out"))]
    loaded = load(place.file("ck"))
    step = int((LOADED.findall(loaded.stdout) or ["-1"])[0])
    place.close()
    wrong = loaded.returncode or not said or step < said[-1]
    return len(said), f"said {said[-1:]}, loaded {step}: {loaded.stderr[-300:]}" if wrong else ""


def kills(tap):
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(kill, range(KILLS)))
    wrong = [sentence for _, sentence in ends if sentence]
    saves = sum(said for said, _ in ends)
    tap.ok(not wrong, f"{len(ends)} kills during {saves} saves: the last that was said, or a later one, loads",
           "\n".join(wrong))


def stop(tap):
    """A run that is asked to stop must save its state."""
    place = Place(SAVES.replace("steps = 4", "steps = 4000").replace("checkpoint_every = 2\n", ""))
    run = place.start(2)
    place.wait_for("global_step: 20 |", run)
    os.kill(ranks_of(run)[0], signal.SIGUSR1)
    status, said = run.wait(timeout=HANGS), SAVED.findall(place.text("out"))
    loaded = LOADED.findall(load(place.file("ck")).stdout)
    tap.ok(status == 75 and len(said) == 1 and loaded == said, "a run that is stopped saves",
           f"{status} {said} {loaded}")
    place.close()


def full_disks(tap, saved):
    """Tries disks with space for less than one checkpoint, for one of two, and for the second without its index."""
    names = [os.path.join(root, name) for root, _, names in os.walk(saved) for name in names]
    one, wrong, failed = sum(map(os.path.getsize, names)) // 2048, [], 0
    for size in [one // 2, 3 * one // 2, 2 * one - 16] if not LONG else range(one // 2, 3 * one, one // 12):
        place = Place(SAVES.replace("[", "checkpoint_keep = 9\n["))
        status = on_disk(place, size, "ck")
        if status is None:
            return tap.ok(True, "full disks # SKIP this user cannot mount disks")
        text, whole = place.text("out"), os.listdir(place.file("kept"))
        failed += status == 87
        told = "NOT SAVED: step" in text and ("No space left" in text or " GB are free" in text or "HDF5" in text)
        if status not in (0, 87) or (status == 87) != told or any(".tmp" in name for name in whole):
            wrong.append(f"{size} KiB: status {status}, {whole}: {text[-700:]}")
        if whole and load(place.file("kept")).returncode:
            wrong.append(f"{size} KiB: what is kept does not load")
        place.close()
    tap.ok(not wrong and failed, f"full disks: {failed} runs ended with 87 and said why, and what they kept loads",
           "\n".join(wrong))


def view(tap, saved):
    """The parameters in the view must have the sums of the index."""
    output = os.path.join(saved, "view.h5")
    done = subprocess.run(["validation/checkpoint_view.py", os.path.join(saved, "step-00000004"), "-o", output],
                          capture_output=True, text=True, check=False)
    wrong = []
    with h5py.File(os.path.join(saved, "step-00000004", "index.h5")) as index, h5py.File(output) as whole:
        table = dict(zip(index["fragments"].attrs["columns"].astype(str), index["fragments"][()].T))
        for number, name in enumerate(index["parameters/name"].asstr()[()]):
            bits = table["first_moment_sum"][table["parameter"] == number].astype("u8").sum()
            if whole[f"first_moment/{name}"][()].view("u4").astype("u8").sum() != bits:
                wrong.append(name)
    os.remove(output)
    tap.ok(done.returncode == 0 and not wrong, "a view of whole parameters has the sums of the index",
           wrong or done.stderr)


def main():
    tap, first = Tap(), Place(SAVES)
    status, text, error = first.run(2)
    tap.ok(status == 0 and SAVED.findall(text) == ["2", "4"], "two saves, as the recipe says them", error)
    view(tap, first.file("ck"))
    damage(tap, first.file("ck"))
    refusals(tap, first.file("ck"))
    kills(tap)
    continued(tap)
    stop(tap)
    full_disks(tap, first.file("ck"))
    first.close()
    tap.done()


os.chdir(TOP)
main()
