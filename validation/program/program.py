"""Shared parts of the tests of the whole program: running it, reading its result lines, printing TAP."""
import atexit
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.environ.get("XGSW", "./xgsw")
# No test uses a GPU by accident. A test that needs one sets XGSW_BACKEND (validation/cuda/check).
if not os.environ.get("XGSW_BACKEND"):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
DECKS = tempfile.TemporaryDirectory(prefix="xgsw-decks-")
atexit.register(DECKS.cleanup)


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
                          check=False, timeout=300)


def ranks(count, *arguments, program=PROGRAM, timeout=300):
    """Runs the program under mpirun with one thread a rank."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
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
