"""Shared parts of the tests of the whole program: running it, reading its result lines, printing TAP."""
import atexit
import json
import os
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ.get("XGSW", "./xgsw")
# The tiers of tests.list: a test of `make check` is brief; marked full or long it goes further.
LONG = "XGSW_TEST_LONG" in os.environ
FULL = "XGSW_TEST_FULL" in os.environ
# No test uses a GPU by accident. A test that needs one sets XGSW_BACKEND (validation/cuda/check).
if not os.environ.get("XGSW_BACKEND"):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
DECKS = tempfile.TemporaryDirectory(prefix="xgsw-decks-")
atexit.register(DECKS.cleanup)


# Daemons of an idle machine take less of a processor; one that computes takes half of one at least.
QUIET = 0.15


class OtherPrograms:
    """Measures what programs other than this test, and other virtual machines, take of the processors it may use."""

    def __init__(self):
        self.begin, self.taken = time.monotonic(), self._taken()

    @staticmethod
    def _taken():
        own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        with open("/proc/stat", encoding="ascii") as file:
            words = [line.split() for line in file]
        # user, nice, system, (idle, waiting for disks,) interrupts, steal
        busy = sum(int(w[i]) for w in words if w[0] in own for i in (1, 2, 3, 6, 7, 8)) / os.sysconf("SC_CLK_TCK")
        return busy - sum(os.times()[:4])

    def share(self):
        """Returns it as a multiple of one processor. Processes that this test started have ended."""
        return (self._taken() - self.taken) / (time.monotonic() - self.begin)


class Wrong(Exception):
    """Raised by an attempt of Tap.timed: what is wrong is no time, so that a quiet machine would not mend it."""


class Tap:
    """Counts tests and prints them. Call done() at the end."""

    def __init__(self):
        self.count = self.failed = 0

    def ok(self, condition, name, detail=""):
        self.count += 1
        self.failed += not condition
        print(f"{'ok' if condition else 'not ok'} {self.count} - {name}", flush=True)
        if detail and not condition:
            for line in str(detail).splitlines()[-20:]:
                print(f"# {line}")

    def timed(self, attempt, name, tries=3):
        """Judges a time. attempt() returns whether it is right, and details. A wrong one decides only if the machine
        was quiet meanwhile. Otherwise it is repeated, and skipped after the last one."""
        for _ in range(tries):
            others = OtherPrograms()
            try:
                good, detail = attempt()
            except Wrong as wrong:
                self.ok(False, name, wrong)
                return
            share = others.share()
            if good or share < QUIET:
                self.ok(good, name, f"{detail}\nother programs took {share:.2f} of a processor")
                return
            self.say(f"{name}: not yet; other programs took {share:.2f} of a processor")
        self.count += 1
        print(f"ok {self.count} # SKIP {name}: other programs took {share:.2f} of a processor", flush=True)

    def say(self, text):
        print(f"# {text}", flush=True)

    def done(self):
        print(f"1..{self.count}")
        sys.exit(self.failed > 0)


def deck_file(text):
    """Writes two title lines and the text to a deck, which is removed at exit. Returns its path."""
    handle, path = tempfile.mkstemp(suffix=".dat", dir=DECKS.name)
    with os.fdopen(handle, "w", encoding="utf-8") as f:
        f.write("a test\nof the whole program\n" + text)
    return path


def with_results(arguments):
    """Adds the arguments by which a run prints all fields of each case, where results() finds them."""
    asks = any(word.startswith("--") and word not in ("--verbose", "--strict", "--progress") for word in arguments)
    return arguments if asks else (*arguments, "--json", "-")


def alone(*arguments, threads=1, program=PROGRAM, variables=()):
    """Runs the program without mpirun."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), **dict(variables))
    return subprocess.run([program, *with_results(arguments)], env=environment, capture_output=True, text=True,
                          check=False, timeout=600)


def ranks(count, *arguments, program=PROGRAM, timeout=600, variables=()):
    """Runs the program under mpirun with one thread a rank."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", **dict(variables))
    command = ["run/local", "-q", "-n", str(count), "-x", program, *with_results(arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=timeout)


def mpirun(*arguments):
    """Returns a command for Open MPI's mpirun. It may start more ranks than there are cores, and may run as root."""
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", *arguments]


def two_nodes(ranks_of_node, *arguments):
    """Returns the same command for two nodes that are this machine, and its variables for Open MPI 4 and 5."""
    shell, launcher = os.path.abspath("validation/machine/remote_shell"), {}
    for plm, component in (("OMPI_MCA_plm", "rsh"), ("PRTE_MCA_plm", "ssh")):
        launcher.update({plm: component, f"{plm}_{component}_agent": shell, f"{plm}_{component}_no_tree_spawn": "1"})
    return mpirun("--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo", "--host",
                  f"one:{ranks_of_node},two:{ranks_of_node}", "-np", str(2 * ranks_of_node), *arguments), launcher


def results(run):
    """Returns what --json - printed, one dictionary for each case."""
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
