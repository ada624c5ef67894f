#!/usr/bin/env python3
"""The program refuses decks on two ranks: exactly the expected lines, status 2 and no file, at most a second later than
the launcher. The unit test deck compares the lines of every deck of refused.list."""
import glob
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "program"))
from program import Tap, ranks  # noqa: E402

TITLES = "title\ntitle\n"
DECKS = {
    "a program": ("\x7fELF\x02\x01", ["1: deck: byte 0x7f at offset 0 is not text"]),
    "more than a mebibyte": (TITLES + "x" * 2**20, ["1: deck: has more than 1048576 bytes"]),
    "a mistake and a contradiction": (TITLES + "sed = 2\n[llama3.1-8b]\nkv_heads = 3\n",
                                      ["3: sed: unknown key; the nearest is seed",
                                       "5: kv_heads: heads 8 is not a multiple of kv_heads 3"]),
    "a thousand mistakes": (TITLES + "[llama3.1-8b]\n" + "x = 1\n" * 1000,
                            [f"{line}: x: unknown key; --keys lists them" for line in range(4, 54)]),
}
# Open MPI waits a second before it ends a job whose ranks returned 2. That second does not count for the program.
os.environ["OMPI_MCA_odls_base_sigkill_timeout"] = "0"


def records():
    """Returns what a run without refusal would have written or renewed here."""
    return {name: os.stat(name).st_mtime_ns for name in glob.glob("gsw*")}


def seconds_of(*arguments):
    start = time.monotonic()
    ranks(2, *arguments)
    return time.monotonic() - start


def soon():
    launcher, refused = seconds_of("--version"), seconds_of(path)
    return refused < launcher + 1, f"{refused:.2f} s, launcher {launcher:.2f} s"


tap = Tap()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "bad.dat")
    for name, (text, lines) in DECKS.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        before = records()
        run = ranks(2, path)
        said = [line for line in run.stderr.splitlines() if line.startswith(path + ":")]
        tap.ok(run.returncode == 2 and run.stdout == "" and said == [f"{path}:{line}" for line in lines]
               and os.listdir(folder) == ["bad.dat"] and records() == before, name,
               f"status {run.returncode}\n{run.stdout}{run.stderr}")
    tap.timed(soon, f"{name} are refused at most a second later than the launcher ends")
tap.done()
