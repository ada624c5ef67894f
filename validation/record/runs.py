"""Shared parts of the tests of records: small decks, runs of them in separate folders, runs that several tests share,
and a check of what a run lost."""

import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "program")]
from validate import libraries  # noqa: E402

libraries.need()

from program import FULL, LONG, PROGRAM, Tap, Wrong  # noqa: E402, F401
from validate import recover  # noqa: E402
from validate.record import Unreadable, read_record  # noqa: E402, F401

TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build/mpicc"))
UNITS = os.environ.get("XGSW_UNITS", os.path.join(BUILD, "units"))
XGSW = os.path.abspath(PROGRAM)
VALIDATE = os.path.join(TOP, "validation", "validate.py")
# The seconds after which a run hangs, however busy the machine is.
HANGS = 500
SHAPE = ("check = off\nsize = full\nprecision = fp32\ntensor = 1\nlayers = 2\nhidden = {0}\nffn = {0}\nheads = 4\n"
         "kv_heads = 2\nvocabulary = 256\nsequence = {0}\nmicrobatch = 1\nglobal_batch = 4\n")
SMALL = "a test\nof kills\noutput = report\nsteps = 12\n" + SHAPE.format(64) + "[llama3.1-8b]\n[llama3.1-70b]\n"
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
        self.write("deck.dat", deck)

    def write(self, name, text):
        """Writes a file. Returns its path."""
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)
        return file.name

    def file(self, name):
        return os.path.join(self.path, name)

    def names(self, end):
        return sorted(name for name in os.listdir(self.path) if name.endswith(end))

    def start(self, ranks, shim=None, arguments=(), **more):
        """Starts mpirun, or the program alone if ranks is 0, in a new process group. Output goes to the file out."""
        command = ["run/local", "-q", "-n", str(ranks), "-x"] if ranks else []
        command[:1] = [os.path.join(TOP, command[0])] if ranks else []
        environment = dict(os.environ, OMP_NUM_THREADS="1", **more)
        if shim:
            environment.update(LD_PRELOAD=shim[0], XGSW_SHIM=shim[1])
        with open(self.file("out"), "w", encoding="utf-8") as out, open(self.file("err"), "w", encoding="utf-8") as err:
            return subprocess.Popen([*command, XGSW, "deck.dat", *arguments], cwd=self.path, env=environment,
                                    stdout=out, stderr=err, start_new_session=True)

    def run(self, ranks, shim=None, arguments=(), **more):
        """Runs to the end. Returns status, output and errors."""
        status = self.start(ranks, shim, arguments, **more).wait(timeout=HANGS)
        return status, self.text("out"), self.text("err")

    def wait_for(self, words, run):
        """Waits until the output contains the words or the run has finished."""
        while words not in self.text("out") and run.poll() is None:
            time.sleep(0.005)

    @property
    def status(self):
        """The status of a shared run."""
        return int(self.text("status"))

    def text(self, name):
        with open(self.file(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def bytes(self, name):
        with open(self.file(name), "rb") as file:
            return file.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        shutil.rmtree(self.path)


def shim_path(name):
    """Returns the path of the preloadable library that make built from validation/NAME.c."""
    return os.path.join(BUILD, "shims", name + ".so")


def on_disk(place, kib, path, arguments=("deck.dat",)):
    """Runs the program in the place, where path is a disk of this size. Returns its status, or None if this user cannot
    mount disks. Copies what is left on the disk to the folder kept."""
    script = ('mount -t tmpfs -o size="$1"k none "$2" || exit 99; shift; d=$1; shift; '
              '"$@" >out 2>err; status=$?; cp -a "$d" kept; exit $status')
    mount = ["unshare", "-m" if os.getuid() == 0 else "-rm", "sh", "-c", script, "sh", str(kib), path, XGSW, *arguments]
    os.makedirs(place.file(path), exist_ok=True)
    # In a name space of its own, Open MPI cannot start its daemon.
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_MCA_ess_singleton_isolated="1", TMPDIR=place.path)
    status = subprocess.run(mount, cwd=place.path, env=variables, check=False, stderr=subprocess.DEVNULL).returncode
    return None if status == 99 or not os.path.exists(place.file("kept")) else status


# The word as seed, and the first 32 bits of its SHA-256: printf tender-7 | sha256sum
WORD, NUMBER = "tender-7", 0xA10A1B90
CHECK = "size = check\nbackend = host\nprecision = fp32\nwarmup = 2\n"
# Runs that several tests read: name -> ranks, status, point of the shim or nothing, decks. The first deck that leaves
# this status and a record is taken. The later ones have more time, for a busy machine.
RUNS = {
    # Repeats, a soak, seeds, a case that needs more ranks, a full check.
    "host": (2, 1, None, [f"""Page <script>alert(1)</script>
of a test
{CHECK}seed = {WORD}
steps = 10
[llama3.1-8b]
tensor = 2
expect = 1e12
tolerance = 0.5
repeats = 2
[llama3.1-8b]
expect = 1
minutes = 0.02
[llama3.1-8b]
seed = {NUMBER} {WORD}
[llama3.1-8b]
tensor = 4
[llama3.1-8b]
seed = tender-8
check = full
"""]),
    # FP8, experts, backend = auto, a sweep that omits some combinations, and rules that fill in missing keys.
    "sweep": (2, 1, None, [f"""a deck
to be resolved anew
check = off
steps = 3
size = check
[llama3.1-8b]
seed = {WORD} 3
precision = fp32 fp8
fp8_scale = power_of_two exact
[grok1-314b]
size = auto
expect = 1e3
layers = 2
hidden = 256
ffn = 256
heads = 4
kv_heads = 2
vocabulary = 512
sequence = 128
repeats = 2
[nemotron4-340b]
tensor = 4
"""]),
    "failed": (0, 1, None, [f"a test\nof a fault\n{CHECK}steps = 2\nfault = drop adamw 1 0\n[llama3.1-8b]\n"]),
    "stopped": (0, 75, None, [f"a test\nof a stop\n{CHECK}check = off\nminutes = 5\ntime_limit = {limit}\n"
                              "expect = 1\n[llama3.1-8b]\n" for limit in (1, 5, 25)]),
    # A journal without a record.
    "killed": (0, -9, "print 50 after", [SMALL]),
}


def shared_folder():
    """Returns the folder of the shared runs. Another program, processor, locale or time zone has another folder."""
    with open(XGSW, "rb") as program, open(__file__, "rb") as decks, open("/proc/cpuinfo", "rb") as processor:
        parts = [program.read(), decks.read(), *sorted(set(re.findall(rb"model name.*", processor.read())))]
    variables = sorted(f"{name}={value}" for name, value in os.environ.items()
                       if re.match("LANG|LC_|TZ|ONEDNN_|XGSW_BACKEND", name))
    parts.append(repr((variables, sorted(os.sched_getaffinity(0)))).encode())
    return os.path.join(TOP, "build", "records", hashlib.sha256(b"\0".join(parts)).hexdigest()[:16])


def make_shared(name, folder):
    """Makes the run. Keeps its folder if it has the expected status, otherwise returns its place."""
    ranks, expected, point, decks = RUNS[name]
    for deck in decks:
        place = Place(deck)
        status, *_ = place.run(ranks, (shim_path("record/shim"), point) if point else None, ("--json", "-"))
        place.write("status", str(status))
        if status == expected and (point or place.names(".h5")):
            break
    else:
        return place
    shutil.copytree(place.path, folder + ".new", dirs_exist_ok=True)
    os.rename(folder + ".new", folder)
    place.close()
    return None


def shared(name):
    """Returns a copy of the place of a shared run with its output, status and record. The first test that needs the run
    makes it; others that need it at the same time wait."""
    parent, place = shared_folder(), Place("")
    folder = os.path.join(parent, name)
    os.makedirs(parent, exist_ok=True)
    os.utime(parent)
    for other in glob.glob(os.path.join(os.path.dirname(parent), "*")):    # runs of programs that are no longer tested
        with contextlib.suppress(OSError):      # another test may have removed it
            if time.time() - os.stat(other).st_mtime > 86400:
                shutil.rmtree(other, ignore_errors=True)
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failed = None if os.path.isdir(folder) else make_shared(name, folder)
    if failed:
        place.close()
        return failed
    shutil.copytree(folder, place.path, dirs_exist_ok=True)
    return place


def script(name):
    """Returns a script of validation/ as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", os.path.join(TOP, "validation", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(module, *arguments):
    """Calls a script in this process, which saves its start. Returns its status and output."""
    kept, sys.argv, out = sys.argv, [module.__file__, *arguments], io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = module.main()
    except SystemExit as end:
        status = end.code
    finally:
        sys.argv = kept
    return status, out.getvalue()


@cache
def read_version(path, _):
    return read_record(path)


def read_once(path):
    """Reads a record. Returns the same object until the file changes, because reading takes longer than checking."""
    path = os.path.abspath(path)
    known = os.path.isfile(path) and read_version(path, (os.stat(path).st_mtime_ns, os.stat(path).st_ino))
    return known or read_record(path)


def write_sample(path, device="NVIDIA H100 80GB HBM3"):
    """Writes a record of invented results on the device. Returns its path."""
    subprocess.run([os.path.join(UNITS, "record_file"), "--sample", path], check=True,
                   env={**os.environ, "SAMPLE_DEVICE": device})
    return path


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
    if os.path.exists(place.file("report")) and not place.text("report").startswith(text):
        yield "the file of output lacks a line that was printed"
    for key, loss in printed_steps(text).items():
        if found.get(key) != loss:
            yield f"step {key[1]} of case {key[0]} was printed with the loss {loss}, and left is {found.get(key)}"


