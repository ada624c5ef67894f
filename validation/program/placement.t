#!/usr/bin/python3
"""Mistakes of a launcher are named: ranks assigned to two nodes in turn; other programs, arguments, decks or libraries
on one rank; fewer ranks than were started; processes that srun does not connect."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from program import PROGRAM, Tap, mpirun, two_nodes

XGSW = os.path.abspath(PROGRAM)
AFTER = "while [ ! -s {} ]; do sleep 0.1; done"     # of another rank
DECK = "one step\nof a small model\nrecord = none\ncheck = off\nsteps = 1\nwarmup = 0\nsize = check\n[llama3.1-8b]\n"
here = tempfile.mkdtemp(prefix="xgsw-placement-")
tap = Tap()
if "libmpich" in subprocess.run(["ldd", XGSW], capture_output=True, text=True, check=False).stdout:
    print("1..0 # SKIP it speaks to Open MPI's mpirun")
    sys.exit(0)


def write(name, text, mode=0o644):
    path = os.path.join(here, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def run(command, variables=()):
    """Returns the status and the output."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", TMPDIR=tempfile.mkdtemp(dir=here), **dict(variables))
    done = subprocess.run(command, cwd=here, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=500)
    return done.returncode, done.stdout


def unlike(*second, first=(XGSW, "a.dat")):
    """Rank 0 is right and rank 1 is not. (Debian 13's mpirun crashes if two programs are named.)"""
    return mpirun("--mca", "btl", "self,vader", "-np", "2", "sh", "-c",
                  f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then {shlex.join(first)}; else {shlex.join(second)}; fi')


write("a.dat", DECK)
write("b.dat", DECK)
write("elsewhere/a.dat", DECK.replace("steps = 1", "steps = 2"))
write("tensor.dat", DECK + "tensor = 2\n")
shutil.copy(XGSW, os.path.join(here, "xgsw"))
with open(os.path.join(here, "xgsw"), "ab") as program:
    program.write(b"\n")
write("slow.c", "int xgsw_test(void);\nint xgsw_test(void) { return 1; }\n")
slow = os.path.join(here, "libslow.so")
subprocess.run(["cc", "-shared", "-fPIC", "-o", slow, os.path.join(here, "slow.c")], check=True)
every = mpirun("--mca", "btl", "self,vader", "-np", "2")
SRUN = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}
REFUSED = (
    (unlike("./xgsw", "a.dat"), (), r"rank 1 on \S+ runs another program than rank 0 on \S+: .*: start one file on"),
    (unlike(XGSW, "b.dat"), (), r"rank 1 on \S+ has other arguments than rank 0 on \S+: b\.dat; not a\.dat: give"),
    (unlike(XGSW, "--nonsense", "a.dat"), (), r"rank 1 on \S+ has other arguments than rank 0 on \S+: --nonsense"),
    # If the other rank has begun MPI_Init before, Open MPI's mpirun ends the run at once with its own message.
    (unlike("sh", "-c", f"{XGSW} --help && echo >helped",
            first=("sh", "-c", f"{AFTER.format('helped')}; exec {XGSW} a.dat")), (),
     r"rank 1 on \S+ has answered --help and ended, but the others wait for it in MPI_"),
    (unlike("env", "-C", os.path.join(here, "elsewhere"), XGSW, "a.dat"), (),
     r"rank 1 on \S+ reads a deck a\.dat that differs from rank 0's: give all nodes the same file"),
    ([*every, "env", "OMPI_COMM_WORLD_SIZE=4", XGSW, "a.dat"], (),
     r"the launcher reports 4 ranks, but MPI connects 2: start all of them at once, with the mpirun of"),
    ([XGSW, "a.dat"], {"PMI_SIZE": "4"}, r"4 ranks were started, but each is alone: start them with the mpirun of"),
    ([XGSW, "a.dat"], SRUN, r"srun started 4 processes without PMI, so each is alone: srun --mpi=pmix"),
)
with ThreadPoolExecutor(3) as pool:
    refused = [pool.submit(run, command, variables) for command, variables, _ in REFUSED]
    split = pool.submit(run, *two_nodes(2, "-x", "OMP_NUM_THREADS", "--map-by", "node", XGSW, "tensor.dat",
                                        "--verbose"))
    preloaded = pool.submit(run, unlike("env", "LD_PRELOAD=" + slow, XGSW, "a.dat"))
    asked = pool.submit(run, [*every, XGSW, "--help"])
    scripts = pool.submit(run, unlike("sh", "-c", f"{XGSW} --version && echo >asked; sleep 2; {XGSW} a.dat",
                                      first=("sh", "-c", f"{AFTER.format('asked')}; {XGSW} a.dat")))
    everywhere = pool.submit(run, [*every, "env", "LD_PRELOAD=" + slow, XGSW, "a.dat"])
    for (command, _, words), played in zip(REFUSED, refused):
        status, said = played.result()
        found = re.search(r"^xgsw: " + words, said, re.M)
        tap.ok(status == 2 and found and "Case 1" not in said,
               f"refused with status 2: {found.group() if found else words}", said)
status, said = asked.result()
tap.ok(status == 0 and said.count("usage: ") == 1, "what all ranks are asked one of them answers", said)
status, said = scripts.result()
tap.ok(status == 0 and ", 1 not checked" in said,
       "a script of one rank may ask, and others begin, before it runs", said)
status, said = split.result()
tap.ok(status == 0 and re.search(r"^  placement +2 nodes of 2 ranks; data within a node, tensor across$", said, re.M),
       "two nodes are found, and the axis that spans them", said)
tap.ok(re.search(r"^Warning    tensor groups span nodes: ranks 0 and 1 of one group are apart; .*\(cyclic\): use srun "
                 r"--distribution=block or mpirun --map-by ppr:2:node$", said, re.M), "and the cause with its remedy",
       said)
status, said = preloaded.result()
tap.ok(status == 0 and re.search(rf"^NOT VALID  libraries differ: rank 1 on \S+ has loaded preloaded {slow} ", said,
                                 re.M), "a library that is preloaded on one rank is NOT VALID", said)
status, said = everywhere.result()
tap.ok(status == 0 and re.search(rf"^Preloaded  {slow} \(", said, re.M) and "libraries differ" not in said,
       "one that is preloaded on all is named", said)
shutil.rmtree(here)
tap.done()
