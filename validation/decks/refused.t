#!/usr/bin/env python3
"""The program refuses decks on two ranks: exactly the expected lines, status 2 and no file, at most a second later than
the launcher. The unit test deck compares the lines of every deck of refused.list."""
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "program"))
from program import Tap, ranks  # noqa: E402

TITLES, SWEEP = "title\ntitle\n", " = " + " ".join(map(str, range(2, 66))) + "\n"
DECKS = {
    "a program": ("\x7fELF\x02\x01", ["1: deck: byte 0x7f at offset 0 is not text"]),
    "more than a mebibyte": (TITLES + "x" * 2**20, ["1: deck: has more than 1048576 bytes"]),
    "a thousand mistakes": (TITLES + "[llama3.1-8b]\n" + "x = 1\n" * 1000,
                            [f"{line}: x: unknown key; --keys lists them" for line in range(4, 54)]),
    "a mistake and a contradiction": (TITLES + "sed = 2\n[llama3.1-8b]\nkv_heads = 3\n",
                                      ["3: sed: unknown key; the nearest is seed",
                                       "5: kv_heads: heads 8 is not a multiple of kv_heads 3"]),
    "sweeps of many keys": (TITLES + "[llama3.1-8b]\n" + SWEEP.join("steps seed layers ffn sequence".split()) + SWEEP,
                            ["3: section: more than 1000 cases in all"]),
}
# Open MPI waits a second before it ends a job whose ranks returned 2. That second does not count for the program.
os.environ["OMPI_MCA_odls_base_sigkill_timeout"] = "0"


def timed(*arguments):
    start = time.monotonic()
    run = ranks(2, *arguments)
    return run, time.monotonic() - start


tap, launcher = Tap(), timed("--version")[1]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "bad.dat")
    for name, (text, lines) in DECKS.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        before = os.listdir()
        run, seconds = timed(path)
        if seconds > launcher + 1:  # again: another process may have disturbed it
            seconds = timed(path)[1]
        said = [line for line in run.stderr.splitlines() if line.startswith(path + ":")]
        tap.ok(run.returncode == 2 and run.stdout == "" and said == [f"{path}:{line}" for line in lines]
               and (os.listdir(), os.listdir(folder)) == (before, ["bad.dat"]) and seconds < launcher + 1,
               name, f"status {run.returncode}, {seconds:.2f} s, launcher {launcher:.2f} s\n{run.stdout}{run.stderr}")
tap.done()
