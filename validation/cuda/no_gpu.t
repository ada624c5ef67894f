#!/usr/bin/env python3
"""Without a visible GPU, check-cuda and gpu-acceptance say so and fail. Also tests the parts of the latter on the host:
it repeats no finished part, does not count skipped parts as passed, and stops parts that take too long."""
import os
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, "validation/program")
from program import Tap  # noqa: E402

LIST = """quick 600 deck gsw.dat 4 backend=host steps=1 check=off size=check
skipped 600 deck one-gpu.dat 1 backend=host layers=3200
beside together 90000
never 600 deck gsw.dat 4 backend=host
end
endless 3 deck bench.dat 1 backend=host steps=100000
"""


def run(*command):
    """Runs without GPUs, whatever the machine has."""
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="")
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def ranks_of(deck):
    """Returns the processes that run the deck."""
    return [number for number in filter(str.isdigit, os.listdir("/proc")) if deck in text_of(f"/proc/{number}/cmdline")]


tap = Tap()
check = run("validation/cuda/check")
tap.ok(check.returncode == 1 and check.stderr.startswith("No GPU was tested: ") and check.stderr.count("\n") == 1
       and not check.stdout,
       "check-cuda fails without a GPU, with one sentence", check.stdout + check.stderr)
with tempfile.TemporaryDirectory() as folder:
    for way in (("-v",), ()):
        for lines, status in (("ok 1 - fine\nok 2 # SKIP no reason\n1..2", 0), ("ok 1 - fine\nnot ok 2 - bad\n1..2", 1),
                              ("1..0", 1)):
            with open(os.path.join(folder, "a.t"), "w", encoding="utf-8") as f:
                f.write("#!/bin/sh\ncat <<END\n" + lines + "\nEND\n")
            os.chmod(os.path.join(folder, "a.t"), 0o755)
            one = subprocess.run(["validation/cuda/check", *way, "-g",
                                  os.path.relpath(os.path.join(folder, "a.t"), "validation")], capture_output=True,
                                  text=True,
                                 env=dict(os.environ, PROVE="none-of-that"), check=False, timeout=240)
            tap.ok(one.returncode == status and f"Result: {'FAIL' if status else 'PASS'}" in one.stdout
                   and (not way or lines in one.stdout),
                   f"one test by its name{', as it speaks' if way else ''}: {lines.count('ok ')} lines, "
                   f"status {status}",
                   one.stdout + one.stderr)
    for command, words in ((("run/gpu-acceptance", "--out", "/dev/null"), "/dev/null"),
                           (("run/local", "-n", "four"), "-n four: "), (("run/local", "-n", "0"), "-n 0: "),
                           (("run/gpu-acceptance", "--out", folder, "--parts", "/nowhere"), "/nowhere"),
                           (("run/gpu-acceptance", "--out", folder, "--minutes", "0"),
                            "--minutes must be more than 0")):
        wrong = run(*command)
        tap.ok(wrong.returncode == 2 and words in wrong.stderr and "Traceback" not in wrong.stderr,
               f"refused: {' '.join(command[:3])}", wrong.stderr)
    whole = run("run/gpu-acceptance", "--out", os.path.join(folder, "none"))
    page = text_of(os.path.join(folder, "none", "summary.txt"))
    tap.ok(whole.returncode == 1 and whole.stdout.startswith("No GPU was tested: ") and "No GPU was tested: " in page
           and "\nUNFINISHED: 0 of " in page
           and "xgsw commit" in text_of(os.path.join(folder, "none", "machine.txt")),
           "so does gpu-acceptance, with the reason in its folder", whole.stdout + whole.stderr)
    parts, out = os.path.join(folder, "parts.list"), os.path.join(folder, "out")
    archive = os.path.join(folder, "out.tar.gz")
    with open(parts, "w", encoding="utf-8") as f:
        f.write(LIST)
    first = run("run/gpu-acceptance", "--out", out, "--minutes", "30", "--parts", parts, "--archive", archive)
    told = first.stdout.splitlines()
    with tarfile.open(archive) as tar:
        names = {os.path.basename(name) for name in tar.getnames()}
    tap.ok({"summary.txt", "machine.txt", "results.jsonl", "quick.h5", "endless.log"} <= names,
           "the archive holds it all", names)
    ending = "FAILED: 1 of 4 parts passed; 1 failed (skipped); 1 no time (endless); 1 not run (never)"
    tap.ok(told[-1].startswith(ending), "one line says how it went", told[-1])
    tap.ok(not ranks_of(os.path.join(out, "endless.dat")), "nothing of an ended part is left")
    tap.ok(first.returncode == 1 and any(line.startswith("quick: passed") for line in told), "a part runs",
           first.stdout + first.stderr)
    tap.ok(any(line.startswith("skipped: failed") for line in told), "a case that was skipped has not passed",
           first.stdout)
    tap.ok(any(line.startswith("endless: no time") for line in told), "a part that takes too long is ended",
           first.stdout)
    tap.ok(any(line.split() == ["never", "not", "run"] for line in told),
           "parts that belong together need time for all", first.stdout)
    tap.ok(os.path.getsize(os.path.join(out, "quick.h5")) > 0
           and os.path.getsize(os.path.join(out, "results.jsonl")) > 0, "it leaves records and result lines")
    again = run("run/gpu-acceptance", "--out", out, "--minutes", "30", "--parts", parts)
    tap.ok(": deck" not in again.stdout and "quick" in again.stdout, "run again it repeats nothing that has ended",
           again.stdout + again.stderr)
    # Stopped in the middle, as a machine's owner may do: the finished part is kept, and no process continues.
    with open(parts, "w", encoding="utf-8") as f:
        f.write(LIST.replace("endless 3 ", "endless 600 "))
    ended = subprocess.Popen(["run/gpu-acceptance", "--out", out + "2", "--minutes", "30", "--parts", parts],
                             env=dict(os.environ, CUDA_VISIBLE_DEVICES=""),
                             stdout=subprocess.PIPE, text=True)
    while line := ended.stdout.readline():
        if line.startswith("endless: deck"):
            ended.terminate()
            break
    page = ended.communicate(timeout=240)[0]
    tap.ok(ended.returncode == 143 and "UNFINISHED" not in page
           and "FAILED: 1 of 4 parts passed" in text_of(os.path.join(out + "2", "summary.txt"))
           and not ranks_of(os.path.join(out + "2", "endless.dat")),
           "ended from outside it saves its page and leaves nothing running", page)
    flops = run("validation/peer/llama_torch.py", "--flops", "--layers", "12").stdout.split()
    dry = run("./xgsw" if "XGSW" not in os.environ else os.environ["XGSW"], "--dry-run", "one-gpu.dat", "--ranks",
              "1").stdout
    tap.ok(len(flops) == 2 and f"{float(flops[0]):.6e} recipe, {float(flops[1]):.6e} model per sequence" in dry,
           "the peer counts the same flops", flops)
tap.done()
