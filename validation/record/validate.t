#!/usr/bin/env python3
"""validate.py: shared runs and records of invented results pass; a spoilt one fails, and the output says why. Also what
connects a record with its run: its SHA-256 and its output. TAP."""

import fcntl
import math
import os
import re
import shutil
import subprocess
import tempfile

import runs
import h5py
import tampering
from program import Tap
from validate import accept, checks, reference, witness

SCRIPT = runs.VALIDATE
CELLS = reference.CELLS
VALIDATE = runs.script("validate")
TAP = Tap()
WRITTEN = 2000000000  # seconds since 1970: the last write to the journal of a killed run


def judge(status, output, expected, words, description):
    """Tests a status of validate.py, its last line, and the words that its output must contain."""
    last = output.strip().split("\n")[-1]
    begins = {0: "PASSED: ", 1: "FAILED: ", 75: "INCOMPLETE: "}.get(expected, "")
    absent = [word for word in words if word not in output]
    sound = last.startswith(begins) and "Traceback" not in output and "Warning" not in output
    TAP.ok(status == expected and sound and not absent, description, f"status {status}, absent {absent}:\n{output}")


def expect(description, status, words, *arguments):
    found, output = runs.call(VALIDATE, *arguments)
    judge(found, output, status, words, description)


def spoil(folder, sample, number, apply):
    path = os.path.join(folder, f"spoilt{number}.h5")
    shutil.copy(sample, path)
    with h5py.File(path, "r+") as file:
        apply(file)
    return path


# Shared run -> status of validate.py, and words in its output.
SHARED = {
    "host": (0, ["PASSED: 5 cases recomputed", "; SHA-256 as printed; deck resolved anew\n"]),
    "sweep": (0, ["PASSED: 8 cases recomputed", "; SHA-256 as printed; deck resolved anew\n"]),
    "failed": (1, ["recorded FAILED: check: residual ", "FAILED: 1 finding in case_0001"]),
    "stopped": (75, ["INCOMPLETE: case 1 was interrupted after "]),
}


def shared_runs():
    for name, (status, words) in SHARED.items():
        with runs.shared(name) as place:
            expect(f"the shared run {name}: status {status}", status, words, place.file("gsw.h5"), "--log",
                   place.file("out"), "--deck-with", runs.XGSW)


DIGEST = re.compile(r"^[0-9a-f]{64}(?=  gsw)", re.MULTILINE)
ZEROS = 64 * "0" + "  gsw.h5\n"
# What is changed in the output of a sound run, how, status, words.
LOGS = (
    ("SHA-256 elsewhere, which do not count", r"\A|\Z", ZEROS, 0, ["; SHA-256 as printed"]),
    ("another SHA-256", DIGEST, 64 * "0", 1, ["FAILED: 1 finding", "is another record, or was changed since"]),
    ("no SHA-256", DIGEST, "", 1, ["and has no SHA-256 of the record"]),
    ("place of the SHA-256", r"(Record .*\n)([0-9a-f]{64}  gsw.h5\n)", r"\2\1", 1,
     ["and has no SHA-256 of the record"]),
    ("a speed in its 14th digit", r'("tokens_per_second":)([\d.]+)',
     lambda found: found[1] + repr(float(found[2]) * (1 + 1e-13)), 1, ["printed tokens_per_second"]),
    ("residuals", r'("residual":)[\d.e-]+', r"\g<1>1.0", 1, ["printed residual"]),
    ("losses", r"(reduced_train_loss: )[\d.]+", r"\g<1>1.0", 1, ["printed losses 1.0 of step 0, recorded"]),
    ("the precision", '"precision":"fp32"', '"precision":"fp4"', 1, ["printed precision fp4"]),
    ("the number of a case", '"case":1,', '"case":99,', 1, ["no XGSW_RESULT line"]),
    ("a word for a number", r'("mean_seconds":)[\d.e-]+', r'\g<1>"abc"', 1,
     ["check_printed cannot be made: ValueError"]),
    ("all times", r"(step_timing in s: )[\d.]+", r"\g<1>99.0000", 1, ["is the output of another run"]),
    ("residuals left out", r'"residual":[^,}]+,?', "", 2,
     ["cannot be read as output of a run: an XGSW_RESULT line has no residual"]),
)


def logs():
    """The run's output is read by sha256sum and by validate.py."""
    with runs.shared("host") as place:
        said, record = place.text("out"), place.file("gsw.h5")
        for name in "out", "gsw.verdict":
            done = subprocess.run(["sha256sum", "-c", name], cwd=place.path, capture_output=True, text=True,
                                  check=False, env={**os.environ, "LC_ALL": "C"})
            TAP.ok(done.returncode == 0 and done.stdout == "gsw.h5: OK\n", f"sha256sum -c {name}", done.stdout)
        TAP.ok(place.text("gsw.verdict").endswith(f"\n{said.splitlines()[-1]}\n"), "gsw.verdict has the last line")
        for what, old, new, status, words in LOGS:
            expect(f"an output with changed {what}", status, words, record, "--log",
                   place.write("other", re.sub(old, new, said)))
        for path, arguments, word in (
                ("case_0002/results/completed", ("--log", place.file("out")), "results/completed"),
                ("case_0002/steps/losses", ("--log", place.file("out")), "steps/losses"),
                ("provenance/hosts", ("--deck-with", runs.XGSW), "check cannot be made: KeyError")):
            expect(f"{path} left out, with {arguments[0]}", 1, [word], spoil(place.path, record, "left", remove(path)),
                   *arguments)


def remove(path):
    def apply(file):
        del file[path]

    return apply


def killed_runs():
    """The second case of a killed run has no XGSW_RESULT line; its step lines are compared."""
    with runs.shared("killed") as place:
        said, journal = place.text("out"), place.file("gsw.h5.journal")
        printed = [line for line in said.splitlines() if runs.STEP.search(line)]
        os.utime(journal, (WRITTEN, WRITTEN))
        expect("a journal in place of a record", 2, ["it is the journal of a run", "--recover makes a record"], journal)
        expect("a journal that is missing", 2, ["there is no such file"], "--recover", journal + "-1")
        with open(journal, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            expect("the journal of a run that lives", 2, ["still writes it"], "--recover", journal)
        status, output = runs.call(VALIDATE, "--recover", journal, "--log", place.file("out"))
        judge(status, output, 75, ["recovered of gsw.h5.journal", "written 2033-05-18T03:33:20Z", "the output ends "
              f"before its XGSW_RESULT line: {len(printed) - 12} step line"], "a journal becomes a record")
        expect("a journal that was recovered before", 2, ["is not replaced; remove or rename it"], "--recover", journal)
        for what, old, wrong in (("loss", r"(reduced_train_loss: )[\d.]+", "printed losses 99 of step"),
                                 ("step", r"(global_step: +)\d+", "step 99 is printed, and the record has")):
            expect(f"an output with another {what} fails", 1, [wrong], output.split(": ")[0], "--log", place.write(
                "other", said.replace(printed[-1], re.sub(old, r"\g<1>99", printed[-1]))))


def findings(record):
    """Returns all sentences about a record."""
    whole, of_case = checks.check_all(record)
    return [sentence for f in (whole, *of_case.values()) for sentence in f.sentences]


def spoilt_records(sample):
    for changes, word in tampering.everything():
        sentences = findings(tampering.spoilt(runs.read_once(sample), changes))
        TAP.ok(any(word in sentence for sentence in sentences), f"spoilt: {changes}",
               f"expected {word!r}:\n" + "\n".join(sentences))


def devices(sample):
    """A record has all reasons of NVML. Only those that the program counts as throttling are throttling."""
    source = os.path.join(runs.TOP, "src", "machine", "cuda", "device", "nvml.c")
    with open(source, encoding="utf-8") as file:
        rows = re.findall(r'{ (0x[0-9a-f]+), true, "([^"]+)" }', file.read())
    TAP.ok({int(bit, 16): word for bit, word in rows} == witness.THROTTLES, "nvml.c throttles by the same bits", rows)
    for told, said in (({1: "application clocks, power cap"}, ""),
                       ({0: "idle", 3: "power cap, temperature"}, "rank 3: power cap, temperature")):
        record = tampering.fork(runs.read_once(sample))
        values = record.cases[1].values
        ranks = len(values["devices/throttled_at_begin"])
        values.update({"devices/throttled_at_begin": [told.get(rank, "") for rank in range(ranks)],
                       "results/throttled": said})
        wrong = [sentence for sentence in findings(record) if "by the devices" in sentence]
        TAP.ok(not wrong, f"GPUs {told}: throttled is {said!r}", "\n".join(wrong))


def expectations(sample):
    """The expected speed of a device is that of its cell, found by whole words of its name."""
    case = next(case for case in runs.read_record(sample).cases if case.name == "case_0002")
    case.settings.update(expect="reference", recipe_layout=True)
    rows = [dict(row) for row in reference.read_cells(CELLS) if not reference.differences(case, row)]
    rows.append({**rows[0], "gpu": "H200", "step_seconds": rows[0]["step_seconds"] / 2})
    cell = rows[0]["sequence"] * rows[0]["global_batch"] / rows[0]["step_seconds"]
    for device, factor in (("NVIDIA H100 80GB HBM3", 1), ("NVIDIA H200", 2), ("NVIDIA H200-SXM", 2),
                           ("NVIDIA GH200 480GB", None), ("NVIDIA H100 PCIe", None), ("NVIDIA H100 NVL", None)):
        case.values["results/device"] = device
        found = accept.expected(case, rows) / cell
        holds = math.isnan(found) if factor is None else found == factor
        TAP.ok(holds, f"what is expected of {device}", f"{found} times the cell of H100")


def write_cells(folder, change):
    handle, path = tempfile.mkstemp(suffix=".csv", dir=folder)    # validate.py keeps what it read of a path
    with open(CELLS, encoding="utf-8") as cells, open(handle, "w", encoding="utf-8") as out:
        for line in cells:
            out.write(change(line))
    return path


def of_row(change):
    """Applies a change only to the rows of llama3.1-8b in BF16 on 8 GPUs."""
    return lambda line: change(line) if "llama3.1-8b,bf16,8," in line else line


SLOWER = lambda line: line.replace(",12.27,", ",11.0,")
# Description, change of each line of the table of cells, further arguments, status, expected words.
REFERENCES = (
    ("slower than the reference by more than is allowed fails", SLOWER, ("--tolerance", "0.05"), 1,
     ["11.3% slower than the reference's 11 s", "5.0% allowed"]),
    ("but not where nothing is asked for", SLOWER, (), 0, ["11.3% slower"]),
    ("a far faster run passes and is said", lambda line: line.replace(",12.27,", ",20,"), (), 0,
     ["faster than the reference's 20 s"]),
    ("what differs from the nearest row is said", of_row(lambda line: line.replace(",8192,", ",4096,", 1)), (), 0,
     ["no row matches: sequence 8192 (reference 4096)"]),
    ("no row at all is said", of_row(lambda line: ""), (), 0, ["no row for llama3.1-8b bf16 on 8 GPUs"]),
    ("two rows that match are not chosen from", of_row(lambda line: line + line), (), 0,
     ["rows for H100 and H100 match"]),
    ("rows of other devices do not match",
     of_row(lambda line: line.replace("H100", "A100") + line.replace("H100", "GH200")), (), 0,
     ["nothing is published for NVIDIA H100 80GB HBM3"]),
    ("of two rows that match that of the device is taken, and the last line counts",
     of_row(lambda line: line + line.replace("H100", "A100")), (), 0,
     ["than the reference's 12.27 s on H100", "PASSED: 6 cases recomputed, 5 of them VALID, 3 compared with"]),
)


def references(folder, sample):
    for what, change, arguments, status, words in REFERENCES:
        expect(what, status, words, sample, "--reference", write_cells(folder, change), *arguments)
    half = write_cells(folder, lambda line: line.replace("bf16,8,H100,8192,32,1,1,2,1,4,1,1,1,128",
                                                         "bf16,4,H100,8192,32,1,1,2,1,2,1,1,1,64"))
    expect("a layout scaled beyond a row is held against that", 0, ["12.27 s on H100, scaled from 4 GPUs"],
           spoil(folder, sample, "scaled", lambda file: file["case_0002"].attrs.modify("recipe_gpus", 4)),
           "--reference", half)


def change_byte(sample, path, where):
    with open(sample, "rb") as old, open(path, "wb") as new:
        data = bytearray(old.read())
        data[where(data)] ^= 0x10
        new.write(data)
    return path


def unusable_files(folder, sample):
    path = os.path.join(folder, "bad.h5")
    expect("a missing file", 2, ["cannot be read: there is no such file; the line Record"], path)
    with open(path, "w", encoding="utf-8") as file:
        file.write("no HDF5\n")
    expect("a text file", 2, ["cannot be read: it is not an HDF5 file"], path)
    expect("a folder", 2, ["cannot be read: the system says: Is a directory"], folder)
    with h5py.File(path, "w") as file:
        file["other"] = 1
    expect("another program's HDF5 file", 2, ["not a record of xgsw"], path)
    with open(sample, "rb") as whole, open(path, "wb") as half:
        half.write(whole.read()[: os.path.getsize(sample) // 2])
    expect("half a file", 2, ["cannot be read: it is not a complete record: take another copy"], path)
    with h5py.File(sample, "r") as file:
        raw = file["case_0002/steps/step_seconds"].id.get_chunk_info(0).byte_offset
        header = h5py.h5o.get_info(file["case_0002/results/median_seconds"].id).addr
    expect("one changed bit in a list", 2, ["cannot be read"], change_byte(sample, path, lambda data: raw + 20))
    expect("one changed bit in a number", 2, ["cannot be read"], change_byte(sample, path, lambda data: header + 40))
    expect("a tolerance that is none", 2, ["--tolerance"], sample, "--tolerance", "-1")
    expect("a missing reference", 2, ["cannot be read as reference"], sample, "--reference", path + ".csv")
    expect("a reference of another kind", 2, ["cannot be read as reference"], sample, "--reference", SCRIPT)
    expect("no file named", 2, ["usage"])


def other_rules(folder, sample):
    for version, words in (("xgsw-0", "xgsw-0"), (None, "without a version")):
        def apply(file, version=version):
            attributes = file["case_0002"].attrs
            attributes.modify("rules", version) if version else attributes.__delitem__("rules")
        expect(f"run rules {words}", 2, [f"judged by the run rules {words}"], spoil(folder, sample, "rules", apply))


def other_pythons(folder, sample):
    """Starts the script as a user does: before head, in another folder, and without h5py."""
    def start(*command, **more):
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)

    reader = subprocess.run(f"{SCRIPT} {sample} | head -n 1", shell=True, capture_output=True, text=True, check=False)
    TAP.ok(reader.stderr == "" and "written" in reader.stdout, "a reader of one line", reader.stderr)
    done = start(SCRIPT, sample, cwd=folder)
    judge(done.returncode, done.stdout, 0, ["reference's 12.27 s"], "from another folder")
    shadow = os.path.join(folder, "shadow")
    os.mkdir(shadow)
    with open(os.path.join(shadow, "h5py.py"), "w", encoding="utf-8") as file:
        file.write("raise ImportError('not here')\n")
    done = start(runs.libraries.DEBIAN, SCRIPT, sample, env={**os.environ, "PYTHONPATH": shadow})
    judge(done.returncode, done.stdout, 2, ["apt install python3-h5py"], "h5py missing is said")


def main():
    VALIDATE.read_record = runs.read_once
    shared_runs()
    logs()
    killed_runs()
    with tempfile.TemporaryDirectory() as folder:
        sample = runs.write_sample(os.path.join(folder, "sample.h5"))
        expect("a sound record passes; the recipe's cells are found, and why others are not comparable", 0,
               ["7 cases", "case 5: llama3.1-8b SKIPPED: needs 64 ranks", "32 ranks on 1 host: ",
                "faster than the reference's 12.27 s on H100", "reference's 5.4 s on H100",
                "reference's 9.33 s on H100", "not comparable: backend host", "not comparable: NOT VALID: check off"],
               sample)
        expect("a run without a deck reads gsw.dat", 0, ["7 cases"], spoil(
            folder, sample, "default", lambda file: file["provenance"].attrs.modify("command_line", "xgsw --json a")))
        for device, status, words in (("B200", 0, "7 cases"), ("GH200 144G HBM3e", 0, "7 cases"),
                                      ("H20", 1, "model_mfu is above 1: faster than the device can compute")):
            expect(f"a record of {device}, whose peaks are known", status, [words],
                   runs.write_sample(os.path.join(folder, "device.h5"), f"NVIDIA {device}"))
        spoilt_records(sample)
        devices(sample)
        expectations(sample)
        for part in (references, unusable_files, other_rules, other_pythons):
            part(folder, sample)
    TAP.done()


main()
