#!/usr/bin/python3
"""A rank that is stopped, lost or stuck, at any point of a run: all ranks end in time with the right status, and the
message names the rank and what waits for it. Long test: all kinds of faults, all points, and healthy runs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
sys.path.insert(0, "validation/program")
from program import LONG, Tap, two_nodes  # noqa: E402

XGSW = os.path.abspath(os.environ.get("XGSW", "./xgsw"))
RANKS, STALL, FIRST_STALL = 3, 3, 60  # the last two in seconds; FIRST_STALL until the deck is read
NEVER = 180     # seconds besides the limit
bound = 0.0     # the seconds that a run may take besides the limit; run_all sets it
DECK = f"""hangs
{RANKS} ranks
[llama3.1-8b]
size = check
precision = fp32
warmup = 1
steps = 12
check = off
stall_seconds = {STALL}
"""
# In memory if there is enough of it: a slow disk is no stall.
memory = os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 2**30
here = tempfile.mkdtemp(prefix="xgsw-hangs-", dir="/dev/shm" if memory else None)
tap = Tap()


def ranks_of(session):
    """Returns the processes of the program that remain in the session."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                name, rest = file.read().rsplit(")", 1)
        except OSError:
            continue
        if name.endswith("(xgsw") and rest.split()[3] == str(session) and rest.split()[0] != "Z":
            found.append(pid)
    return found


def play(number, misdeed="", launch=None, variables=(), keys=""):
    """Returns the status, the seconds, and the output. A run that takes longer than the longest limit never ends."""
    folder = os.path.join(here, str(number))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "deck.dat"), "w") as deck:
        deck.write(DECK + keys)
    # Open MPI 5 names a run's shared memory by 16 bits of a hash, so two runs at the same time could share a name.
    environment = dict(os.environ, OMP_NUM_THREADS="1", MISDEED=misdeed, TMPDIR=folder,
                       OMPI_MCA_btl_sm_backing_directory=folder, **dict(variables))
    run = launch or [os.path.abspath("run/local"), "-q", "-n", str(RANKS), "-x", XGSW]
    if misdeed and not launch:
        run[4:4] = ["-w", f"env LD_PRELOAD={SHARED}"]
    begin = time.monotonic()
    with open(os.path.join(folder, "said"), "w+") as said:
        process = subprocess.Popen(run + ["deck.dat"], cwd=folder, stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            status = process.wait(FIRST_STALL + NEVER)
        except subprocess.TimeoutExpired:
            status = "never ended" if ranks_of(process.pid) else "mpirun stays behind"
            os.killpg(process.pid, 9)
        seconds = time.monotonic() - begin
        said.seek(0)
        text = said.read()
    if status == "mpirun stays behind" and "all ranks end with status 86" in text:  # Open MPI is at fault
        print(f"# {misdeed}: all ranks had ended, mpirun had not", flush=True)
        return 86, 0, text
    return status, seconds, text


def losses(said):
    return re.findall(r"reduced_train_loss: (\S+)", said)


def judge(rank, point, deed, played):
    status, seconds, said = played
    limit = FIRST_STALL if point in ("start", "deck") else STALL
    words = "is stopped|does not respond|has not started|has not entered|is stuck in"
    named = re.search(rf"^xgsw: rank {rank} on \S+ .*({words})", said, re.M)
    done = point in ("gather", "end") and deed in ("terminate", "interrupt")  # nothing is left to stop
    inside = deed == "endless" and point in ("start", "end")  # inside MPI, as all ranks are
    sent_nothing = deed == "skip" and point == "step"         # all have entered an operation that does not end
    if deed in ("stop", "asleep", "endless") or sent_nothing:
        undelivered = "entered an operation that does not end" in said or "which all others have completed" in said
        good = status == 86 and (named or ((inside or sent_nothing) and undelivered))
    elif deed == "skip":  # either the operation is named, or MPI notices it
        good = status == 1 and "MPI_ERR" in said or status == 86 and re.search("waits for (gather|broadcast)", said)
    elif deed == "count" and point == "step":
        good = status == 1 and re.search(r"sent \d+ bytes, not \d+", said)
    elif deed in ("count", "nan"):  # some MPIs accept a shorter message; the check finds a NaN
        good = status != "never ended"
    elif deed == "extra" and status == 0:  # zeros where zeros were expected
        good = losses(said) == losses(play("unharmed")[2])
    else:
        good = status not in (0, "never ended") or (done and status == 0)
    in_time = seconds < limit + bound
    if point == "step" and status == 86:  # the record has begun: the message names the journal
        good = good and "gsw.h5.journal: validation/validate.py --recover gsw.h5.journal makes a record" in said
    tap.ok(good and in_time, f"rank {rank}, {point}: {deed} (status {status}, {seconds:.1f} s)", said)


def run_all(scenes, at_once):
    """Also measures a healthy run next to the others. On a quiet machine, bound becomes shorter than FIRST_STALL."""
    global bound
    with ThreadPoolExecutor(at_once) as pool:
        unharmed = pool.submit(play, "unharmed")
        plays = [pool.submit(play, i, f"{rank} {point} {deed}") for i, (rank, point, deed) in enumerate(scenes)]
        status, seconds, said = unharmed.result()
        tap.ok(status == 0, f"a healthy run ({seconds:.1f} s)", said)
        bound = 20 + 5 * seconds
        for (rank, point, deed), p in zip(scenes, plays):
            judge(rank, point, deed, p.result())


# Messages between two ranks of two nodes. Without the other node's files, a node knows for whom its own ranks wait.
PIPELINE = "pipeline = 2\nglobal_batch = 32\n"
NODES = (  # folder, ranks a node, rank, deed, keys, nodes that name it
    ("shared", 1, 1, "stop", "", 1), ("shared", 1, 0, "stop", "", 1), ("shared", 2, 3, "stop", "", 1),
    ("shared", 2, 0, "stop", "", 1), ("shared", 1, 1, "endless", "", 1),
    ("separate", 2, 3, "stop", PIPELINE, 2), ("separate", 2, 0, "endless", PIPELINE, 2),
    ("hanging", 2, 3, "stop", PIPELINE, 2))


def play_on_nodes(name, ranks, misdeed, keys, folder, hangs="all"):
    place = 'cd "$TMPDIR" && ' if folder == "separate" else ""  # remote_shell gives each node a folder
    deck = os.path.join(here, name, "deck.dat")
    launch, variables = two_nodes(ranks, "env", f"LD_PRELOAD={SHARED}", "sh", "-c", f"{place}exec {XGSW} {deck}")
    return play(name, misdeed, launch, [*variables.items()] + [("FOLDER_HANGS", hangs)] * (folder == "hanging"), keys)


def run_on_two_nodes():
    """All nodes that print a message name one rank, its node and the operation. A run that succeeds leaves no file."""
    unshare = subprocess.run(["unshare", "--uts", "true"], check=False)  # as remote_shell asks
    names = ("one", "two") if unshare.returncode == 0 else (r"\S+", r"\S+")
    with ThreadPoolExecutor(4) as pool:
        plays = list(pool.map(lambda i: play_on_nodes(f"nodes{i}", NODES[i][1], f"{NODES[i][2]} step {NODES[i][3]}",
                                                      NODES[i][4], NODES[i][0]), range(len(NODES))))
    for number, (folder, ranks, rank, deed, _, nodes) in enumerate(NODES):
        status, seconds, said = plays[number]
        lines = re.findall(r"^xgsw: (rank .*)", said, re.M)
        right = re.compile(rf"rank {rank} on {names[rank // ranks]} (?!or rank).*\b"
                           r"(exchange|reduce_scatter|all_gather|all_reduce) \w+ \(step \d+, .*number \d+ of")
        left = os.path.isdir(os.path.join(here, f"nodes{number}", "gsw.stall"))
        good = status == 86 and len(lines) == nodes and all(map(right.match, lines)) and left == (folder != "separate")
        tap.ok(good and seconds < STALL + bound,
               f"two nodes, {folder} folder: rank {rank} of {2 * ranks}: {deed} ({status}, {seconds:.1f} s)", said)
    status, _, said = play_on_nodes("nodes0", 1, "", "", "shared")
    tap.ok(status == 0 and "others wait" not in said and not os.path.exists(os.path.join(here, "nodes0", "gsw.stall")),
           "a run after one that hung is healthy, and no stall file is left", said)
    status, _, said = play_on_nodes("late", 1, "1 gather late", "", "hanging", hangs="1")
    tap.ok(status == 0 and "PASSED" in said and "others wait" not in said,
           f"a healthy run whose second node answers once, then no more, and comes late ({status})", said)
    files = os.path.join(here, "nodes1", "gsw.stall")  # left by a hang
    for name in "folder", "link":
        users = os.path.join(here, name, "gsw.stall")
        os.makedirs(os.path.dirname(users))
        if name == "link":
            os.symlink(files, users)
        else:
            shutil.copytree(files, users)
            shutil.copy(__file__, users)
        before = sorted(os.listdir(users))
        status, _, said = play_on_nodes(name, 1, "", "", "shared")
        same = len(before) > 1 and sorted(os.listdir(users)) == before
        tap.ok(status == 0 and same and "each node judges a stall by itself" in said,
               f"a user's {name} NAME.stall is left alone, and a sentence says so ({status})", said)
    if LONG:
        judge(3, "start", "stop", play_on_nodes("start", 2, "3 start stop", "", "shared"))


def healthy(count):
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        with ThreadPoolExecutor(2) as pool:
            plays = list(pool.map(lambda i: play(f"healthy{i}"), range(count)))
    finally:
        for process in busy:
            process.kill()
    alarms = [said for status, _, said in plays if status != 0 or "others wait" in said]
    tap.ok(not alarms, f"{count} healthy runs beside two busy processes: {len(alarms)} alarms", "".join(alarms[:1]))


SHARED = os.path.abspath(os.environ.get("BUILD", "build/mpicc") + "/shims/machine/misdeeds.so")
DEEDS = "kill terminate interrupt stop segv abort exit skip extra count endless nan".split()
POINTS = {"start": DEEDS[:7] + ["endless"], "deck": DEEDS[:-1], "step": [d for d in DEEDS if d != "extra"],
          "gather": [d for d in DEEDS[:-1] if d != "extra"], "end": DEEDS[:7] + ["endless"]}
if LONG:
    injected = [(i % RANKS, ("step", "gather", "exit")[i // RANKS % 3], ("stop", "endless")[i // 9 % 2])
                for i in range(200)]
    run_all([(r, p, d) for p in POINTS for d in POINTS[p] for r in range(RANKS)] + [(0, "commit", "asleep")] + injected,
            6)
    healthy(200)
else:
    run_all([(0, "commit", "asleep"), (0, "step", "stop"), (1, "step", "endless"), (2, "step", "stop"),
             (0, "gather", "stop"), (2, "gather", "skip"), (1, "end", "stop"), (0, "exit", "stop"),
             (1, "step", "skip"), (2, "step", "kill"), (1, "step", "count")], 4)
run_on_two_nodes()
shutil.rmtree(here)
tap.done()
