#!/usr/bin/env python3
"""The chain: what the program writes, Python recomputes; a change of anything is found, one of a step by its number; a
record that was changed and rechained is UNSIGNED, and refused against the run's root, output and signature. TAP."""

import glob
import io
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile

from runs import LONG, SMALL, STEP, XGSW, Place, Tap, shim_path

import h5py
import numpy as np
from validate import chain, recover
from validate.findings import Findings

VALIDATE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "validate.py")
DECK = SMALL.replace("check = off\n", "check = off\nnonce = tender-7\n")
CHANGES = 1000 if LONG else 40
CASE = "case_0001"
# As an array of a step, each of its own number.
STEP_LISTS = (*(f"steps/{name}" for name in ("step", "step_seconds", *chain.COLUMNS)), "ranks/rank_seconds",
              "chain/links")


def opened(data, work):
    """What the chain says of a record whose bytes are these, after `work` on it."""
    f = Findings()
    with h5py.File(io.BytesIO(data), "r+") as file:
        work(file)
        chain.check(file, f)
    return f.sentences


def changed(data, work, folder, seal=False):
    path = os.path.join(folder, "changed.h5")
    with open(path, "wb") as out:
        out.write(data)
    with h5py.File(path, "r+") as file:
        work(file)
        if seal:
            chain.seal(file)
    return path


def validate(*arguments):
    done = subprocess.run([VALIDATE, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# --- Single changes ------------------------------------------------------------------------------------------------


def other(value):
    """Another value of the same type and shape."""
    new = value.copy()
    at = (0,) * new.ndim
    if new.dtype.kind == "S":
        new[at] = b"" if new[at] else b"x"
    else:
        new[at] = not new[at] if new.dtype.kind == "b" else new[at] + 1 if new[at] == new[at] else 1
    return new


def alter(item, name):
    value = np.asarray(item.attrs[name]) if name else np.asarray(item[()])
    if value.size == 0:
        value = np.zeros(1, dtype=value.dtype)
    if name:
        item.attrs[name] = other(value)
    else:
        folder, path = item.parent, item.name
        units = dict(item.attrs)
        del folder[path]
        folder.create_dataset(path, data=other(value)).attrs.update(units)


def remove(item, name):
    if name:
        del item.attrs[name]
    else:
        del item.parent[item.name]


def add(item, name):
    if name:
        item.attrs[name + "_too"] = item.attrs[name]
    else:
        item.parent[item.name + "_too"] = item.parent[item.name] if isinstance(item, h5py.Group) else item[()]


def everything(file):
    """(path, attribute or nothing) of all that a record holds."""
    found = [("/", name) for name in file.attrs]

    def visit(path, item):
        found.append((path, None))
        found.extend((path, name) for name in item.attrs)

    file.visititems(visit)
    return found


def single_changes(tap, data):
    draw = random.Random(1)
    with h5py.File(io.BytesIO(data), "r") as file:
        places = everything(file)
        groups = {path for path, name in places if not name and isinstance(file[path], h5py.Group)}
    missed = []
    for _ in range(CHANGES):
        path, name = draw.choice(places)
        change = draw.choice([remove, add] + [alter] * (bool(name) or path not in groups))
        if not opened(data, lambda file: change(file[path], name)):
            missed.append(f"{change.__name__} {path} {name}")
    tap.ok(not missed, f"{CHANGES} values, attributes and groups changed, removed or added: all are found", missed)


def links_to_elsewhere(tap, data):
    def soft(file):
        file["case_0003"] = h5py.SoftLink("/case_0002")

    def round_about(file):
        file[f"{CASE}/again"] = file["/"]

    found = [opened(data, work) for work in (soft, round_about)]
    tap.ok(all(found), "links to elsewhere in the file are found", found)


# --- Steps and cases -----------------------------------------------------------------------------------------------


def rearrange(order):
    """The rows of all lists of steps, in another order."""
    def work(file):
        for path in STEP_LISTS:
            old, units = file[CASE][path][()], dict(file[CASE][path].attrs)
            del file[CASE][path]
            file[CASE].create_dataset(path, data=old[order]).attrs.update(units)
        file[f"{CASE}/results/completed"][()] = len(order)
    return work


def set_loss(file):
    file[f"{CASE}/steps/losses"][7] += 1e-9


def set_speed(file):
    file[f"{CASE}/results/tokens_per_second"][()] *= 1.01


def set_rank(file):
    file[f"{CASE}/ranks/rank_seconds"][7, 1] += 1e-9


def steps(tap, data):
    usual = list(range(12))
    for name, work, where in (("one changed", set_loss, "breaks at step 7:"),
                              ("one dropped", rearrange(usual[:5] + usual[6:]), "breaks at step 5:"),
                              ("one doubled", rearrange(usual[:4] + usual[3:]), "breaks at step 4:"),
                              ("two exchanged", rearrange([*usual[:8], 9, 8, *usual[10:]]), "breaks at step 8:"),
                              ("another rank's time", set_rank, "chain_head is not of what the case holds")):
        said = opened(data, work)
        tap.ok(bool(said) and where in said[0], f"steps, {name}: {where.strip(':')}", said)


def cases(tap, data):
    def drop(file):
        del file["case_0002"]

    def double(file):
        file.copy("case_0001", "case_0003")

    def exchange(file):
        file.move("case_0001", "other"), file.move("case_0002", "case_0001"), file.move("other", "case_0002")
        file["case_0001"].attrs["case"], file["case_0002"].attrs["case"] = 1, 2

    found = [opened(data, work) for work in (drop, double, exchange)]
    tap.ok(all(found), "a case dropped, doubled, two exchanged: found", found)


def another_run(said):
    """The same, but its steps took other times, and so its root is another."""
    said = re.sub(r'("step_seconds":\[)[^]]*', lambda m: m[1] + ",".join(map(str, range(1, 13))), said)
    return re.sub(r"^Root       .*", "Root       " + 64 * "0", said, flags=re.MULTILINE)


# --- Who vouches for a root ----------------------------------------------------------------------------------------


def unsigned(tap, data, log, folder):
    with h5py.File(io.BytesIO(data), "r") as file:
        root = chain.recorded_root(file)
    status, said = validate(changed(data, lambda file: None, folder))
    tap.ok(status == 0 and said.strip().endswith("; UNSIGNED") and f"its root {root}; whoever" in said,
           "a record alone is UNSIGNED", said)
    status, said = validate(changed(data, lambda file: None, folder), "--log", log)
    tap.ok(status == 0 and said.strip().endswith("; root as printed"), "its run's output vouches for it", said)
    with open(log, encoding="utf-8") as file, open(log + "-2", "w", encoding="utf-8") as other:
        other.write(another_run(file.read()))
    status, said = validate(changed(data, lambda file: None, folder), "--log", log + "-2")
    tap.ok(status == 1 and "is the output of another run" in said.splitlines()[2]
           and said.splitlines()[-1] == "FAILED: 1 finding in the record as a whole",
           "another run's output is called that, at once, and nothing else", said)
    path = changed(data, set_loss, folder, seal=True)
    status, said = validate(path)
    tap.ok(status == 0 and said.strip().endswith("; UNSIGNED"), "changed and rechained it is UNSIGNED", said)
    for name, value in (("--root", root), ("--log", log)):
        status, said = validate(path, name, value)
        tap.ok(status == 1 and "changed and rechained" in said, f"and refused against the run's {name}", said)
    status, said = validate(changed(data, lambda file: file.attrs.__delitem__("root"), folder))
    tap.ok(status == 1 and "it has no root" in said, "a record without a root fails", said)


def make_key(folder, name):
    path = os.path.join(folder, name)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
    with open(path + ".pub", encoding="ascii") as file:
        return path, f"{name}@site {file.read()}"


def signatures(tap, data, folder):
    (key, line), (_, other_line) = make_key(folder, "ada"), make_key(folder, "bob")
    signers, others = os.path.join(folder, "signers"), os.path.join(folder, "others")
    for path, text in (signers, line + other_line), (others, other_line):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    path = changed(data, set_loss, folder)
    status, said = validate(path, "--sign", key)
    tap.ok(status == 2 and "is not signed" in said and not os.path.exists(path + ".sig"),
           "a record whose chain does not fit is not signed", said)
    path = changed(data, set_speed, folder, seal=True)
    status, said = validate(path, "--sign", key)
    tap.ok(status == 2 and "is not signed: case_0001: tokens_per_second is" in said
           and not os.path.exists(path + ".sig"),
           "a record is not signed in a case of which something is found, though its chain fits", said)
    path = changed(data, lambda file: None, folder)
    status, said = validate(path, "--verify", signers)
    tap.ok(status == 1 and "it is not signed" in said, "no signature", said)
    status, said = validate(path, "--sign", key)
    tap.ok(status == 0 and f"; SIGNED with the key {key} (SHA256:" in said.splitlines()[-1]
           and said.strip().endswith(f"the signature is {path}.sig") and "UNSIGNED" not in said,
           "signed: the last line says with which key, and where", said)
    os.remove(path + ".sig")
    status, said = validate(path, "--sign", key, "--verify", signers)
    tap.ok(status == 0 and said.strip().endswith("; SIGNED by ada@site"), "signed, and the signer named", said)
    for name, more, status, words in (
            ("by the one who is meant", (signers, "--signer", "ada@site"), 0, "SIGNED by ada@site"),
            ("not by another", (signers, "--signer", "bob@site"), 1, "no signature of bob@site"),
            ("not by one who is allowed", (others,), 1, "of no signer")):
        code, said = validate(path, "--verify", *more)
        tap.ok(code == status and words in said, f"verified: {name}", said)
    status, said = validate(path, "--sign", key)
    tap.ok(status == 2 and "exists, and is not replaced" in said, "a signature is not replaced", said)
    status, said = validate(changed(data, set_loss, folder, seal=True), "--verify", signers)
    tap.ok(status == 1 and "no signature of ada@site" in said, "changed and rechained it is refused", said)


# --- Runs ----------------------------------------------------------------------------------------------------------


def a_run(tap):
    """Of two ranks: the bytes of its record and its output."""
    place = Place(DECK)
    status, said, errors = place.run(2)
    data = place.bytes("gsw.h5")
    with h5py.File(io.BytesIO(data), "r") as file:
        heads = [file[name].attrs["chain_head"].decode() for name in chain.cases_of(file)]
        nonces = {file["provenance/nonce"][()], file[CASE].attrs["nonce"]}
        root = chain.root(file)
    place.close()
    tap.ok(status == 0 and f"\nRoot       {root}\n" in said, "a run prints the root of its record", said + errors)
    tap.ok([head for head in heads if f'"chain_head":"{head}"}}' in said] == heads and len(heads) == 2,
           "each XGSW_RESULT line ends with the head behind its case", heads)
    tap.ok(nonces == {b"tender-7"} and "\nNonce      tender-7\n" in said, "the nonce is printed and recorded", nonces)
    return data, said


def edit_journal(data, case, step):
    """Another loss of a step, with its check word made anew."""
    at = len(recover.BEGIN)
    for kind, payload in recover.entries(data):
        if kind == recover.STEP and struct.unpack_from("<qq", payload) == (case, step):
            new = payload[:24] + struct.pack("<d", 1.5) + payload[32:]
            head = recover.CHECKED.pack(kind, len(new))
            return data[:at] + head + chain.sha256(head + new)[:16].encode() + new + data[at + 24 + len(payload):]
        at += 24 + len(payload)
    raise ValueError("no such step")


LATER = 2000000000  # seconds of 1970: the last writing of a journal


def recovered(place, data):
    for old in glob.glob(place.file("*.recovered*")):
        os.remove(old)
    with open(place.file("gsw.h5.journal"), "wb") as file:
        file.write(data)
    os.utime(file.name, (LATER, LATER))
    with open(recover.recover(place.file("gsw.h5.journal")), "rb") as file:
        return opened(file.read(), lambda file: None)


def recovered_and_its_output(tap, place, said, printed):
    """The second case has no XGSW_RESULT line; its step lines are compared."""
    path, log = place.file("gsw.h5.recovered.h5"), place.file("out")
    with h5py.File(path, "r") as file:
        written = file["provenance/written"][()]
    tap.ok(written == b"2033-05-18T03:33:20Z", "a recovered record is dated as its journal's last writing", written)
    words = f"the output ends before its XGSW_RESULT line: {printed - 12} step line"
    status, text = validate(path, "--log", log)
    tap.ok(status == 75 and words in text, "a recovered record beside its run's output: step lines compared", text)
    last = [line for line in said.splitlines() if STEP.search(line)][-1]
    for name, other, wrong in (
            ("loss", re.sub(r"(reduced_train_loss: )[\d.]+", r"\g<1>1.0", last), "printed losses 1.0 of step"),
            ("step", re.sub(r"(global_step: +)\d+", r"\g<1>99", last), "step 99 is printed, and the record has")):
        with open(log, "w", encoding="utf-8") as file:
            file.write(said.replace(last, other))
        status, text = validate(path, "--log", log)
        tap.ok(status == 1 and wrong in text, f"beside an output with another {name} it fails", text)


def a_killed_run(tap, folder):
    place = Place(DECK)
    place.start(0, shim=(shim_path("record/shim"), "print 52 after")).wait(timeout=120)
    data, said = place.bytes("gsw.h5.journal"), place.text("out")
    printed = len([line for line in said.splitlines() if STEP.search(line)])
    found = recovered(place, data)
    tap.ok(12 < printed < 24 and not found, f"killed in its second case: the links of {printed} steps fit", found)
    recovered_and_its_output(tap, place, said, printed)
    found = recovered(place, edit_journal(data, 2, 0))
    tap.ok(any("breaks at step 0:" in sentence for sentence in found), "a step of a journal changed is named", found)
    place.close()


def samples(tap, folder):
    """Invented cases of every kind, written by a unit test where one is built."""
    places = [os.environ.get("BUILD", "build/host"), *sorted(glob.glob(os.path.join(os.path.dirname(XGSW), "build/*")))]
    program = next((path for path in (os.path.join(p, "units", "record_file") for p in places) if os.path.exists(path)),
                   None)
    if program is None:
        return
    path = os.path.join(folder, "sample.h5")
    subprocess.run([program, "--sample", path], check=True)
    with open(path, "rb") as file:
        found = opened(file.read(), lambda file: None)
    tap.ok(not found, "skipped cases, experts, FP8: Python finds the program's root", found)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        data, said = a_run(tap)
        log = os.path.join(folder, "out")
        with open(log, "w", encoding="utf-8") as file:
            file.write(said)
        tap.ok(not opened(data, lambda file: None), "its chain fits")
        single_changes(tap, data)
        links_to_elsewhere(tap, data)
        steps(tap, data)
        cases(tap, data)
        unsigned(tap, data, log, folder)
        if shutil.which("ssh-keygen"):
            signatures(tap, data, folder)
        else:
            tap.say("signatures: no ssh-keygen here (run/setup check)")
        samples(tap, folder)
        a_killed_run(tap, folder)
    tap.done()


main()
