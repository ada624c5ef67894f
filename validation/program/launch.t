#!/usr/bin/env python3
"""run/launch: each recipe's variables give its reference deck, each batch system gets its commands, and bad variables
are refused. Runs by mpirun, and by stand-ins of PBS and Flux, leave a log and a record each. Tests with a real Slurm
are in program/slurm.t."""
import csv
import glob
import os
import re
import shutil
import subprocess
import tempfile

from program import FULL, PROGRAM, Tap

CELLS = "validation/reference/cells.csv"
SIZE_ALONE = {"llama3.1-8b", "llama3.1-70b", "llama3.1-405b", "nemotron4-340b", "grok1-314b"}
SMALL = """a small deck
of the launcher's test
backend = host   # its record's name is the launcher's to give
record = elsewhere.h5
size = check
check = off
steps = 2
tensor = 2
[llama3.1-8b]
[nemotron4-340b]
[llama2-70b]
"""
# Stand-ins of the programs that submit and start jobs. They run the job here, with the variables of a batch system.
STAND_INS = {
    "qsub": """while [ "$1" != -- ]; do shift; done; shift
printf 'localhost\\nlocalhost\\n' >nodes
cd / && PBS_JOBID=77.server PBS_NODEFILE=$OLDPWD/nodes exec "$@" """,
    "flux": """if [ "$1" = batch ]; then
    while [ "$1" != --wrap ]; do shift; done; shift
    FLUX_JOB_ID=ƒ77 exec "$@"
fi
[ "$1 $2 $3 $4" = "run --nodes=1 --ntasks=2 --exclusive" ] || exit 9
unset FLUX_JOB_ID   # Open MPI believes it
shift 4; exec "$TOP/run/local" -q -n 2 -x "$@" """,
}
# Starts the recipe's deck on one rank of the host, at the smallest size.
SRUN = """for deck; do :; done
sed 's/^size = full/size = check/; s/^backend = cuda/backend = host/; s/^warmup.*/warmup = 0/; s/^steps.*/steps = 2/
    s/^record = .*/record = none/; 3i check = off' "$deck" >small.dat
exec "$XGSW" small.dat"""
# Variables of a recipe; its command that finds the last step, run in STAGE_PATH; the line that it prints, from the
# recipe's document.
GREPS = (
    ({"WORKLOAD": "llama2-70b", "JOB_TOTAL_GPUS": "64"},
     "grep 'completed step:' results/$GSW_VERSION/bf16/70b/64/log-maxtext-64_70b_1407993.out | tail -1",
     "completed step: 49, seconds: 7.908, TFLOP/s/device: 460.480, Tokens/s/device: 1035.970, total_weights: 524288, "
     "loss: 0.000"),
    ({"MODEL_SIZE": "8b"}, "grep -r --include '*.out' train_step_timing experiments | tail -1 | sed 's/^[^:]*://'",
     "Training epoch 0, iteration 49/49 | lr: 7.496e-06 | global_batch_size: 128 | global_step: 49 | "
     "peak_memory_usage: 70833405952 | memory_allocated: 44271689728 | reduced_train_loss: 11.96 | "
     "train_step_timing in s: 12.39 | consumed_samples: 6400"),
    ({"MODEL_SIZE": "340b", "JOB_TOTAL_GPUS": "128"}, "grep train_step_timing results/*.out | tail -1",
     "Epoch 0: : 100%|██████████| 100/100 [07:57<00:00, reduced_train_loss=7.310, global_step=99.00, "
     "consumed_samples=25600.0, train_step_timing in s=3.590]"),
    ({"MODEL_SIZE": "314b", "JOB_TOTAL_GPUS": "8"},
     "cd results/$GSW_VERSION/bf16/314b/8 && grep train_step_timing *.out | tail -1",
     "Epoch 0: : 100%|██████████| 50/50 [23:22<00:00, reduced_train_loss=0.186, global_step=49.00, "
     "consumed_samples=51200.0, train_step_timing in s=24.00]"))
# Variables, and words of the message that refuses them.
REFUSED = (
    ({"MODEL_SIZE": "8b", "JOB_TOTAL_GPUS": "8"}, "Give DTYPE=bf16 or DTYPE=fp8"),
    ({"DTYPE": "bf16", "JOB_TOTAL_GPUS": "64"}, "which model? Give MODEL_SIZE, or WORKLOAD: llama3.1-8b, "),
    ({"DTYPE": "bf16", "MODEL_SIZE": "340b"}, "Give JOB_TOTAL_GPUS or NUM_NODES"),
    ({"DTYPE": "int8", "MODEL_SIZE": "9b", "JOB_TOTAL_GPUS": "-8"}, "DTYPE=int8: give bf16 or fp8"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "WORKLOAD": "llama2-70b"}, "is not of MODEL_SIZE=8b"),
    ({"DTYPE": "bf16", "WORKLOAD": "llama4", "JOB_TOTAL_GPUS": "8"}, "WORKLOAD=llama4 is none of llama3.1-8b, "),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "JOB_TOTAL_GPUS": "12"}, "12 GPUs do not fill whole nodes of 8"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "JOB_TOTAL_GPUS": "500"}, "JOB_TOTAL_GPUS=496, or GPUS_PER_NODE=4"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1", "EXPECT": "quick"},
     "EXPECT=quick: give reference, none or tokens/s"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1", "TOLERANCE": "0.1"}, "give EXPECT, too"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1", "STEPS": "2"}, "the first two are not timed"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1", "SEED": "a#b"}, "SEED=a#b: give one word without #"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "JOB_TOTAL_GPUS": "16", "NUM_NODES": "1"}, "leave one out"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "2", "LOAD_CHECKPOINT_PATH": "/x y"}, "no blanks and no #"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "2", "ENABLE_PROFILE": "true", "ENABLE_NCCL_TRACE": "true"},
     "exclude each other"),
    ({"WORKLOAD": "gpt3-175b", "RUN_CONF_PROFILE_RANKS": "0,a"}, "give ranks such as 0,1,2 or 0-7"),
    ({"WORKLOAD": "gpt3-175b", "ENABLE_PROFILE": "true", "PROFILE_STOP_STEP": "30"}, "ends after step 19, the last"),
    ({"WORKLOAD": "gpt3-175b", "TP": "4"}, "PP x TP x DP are 32 GPUs, but the job has 64"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "JOB_TOTAL_GPUS": "16", "SLURM_JOB_NUM_NODES": "1"}, "submit it with -N 2"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1", "SLURM_TIME": "soon"}, "SLURM_TIME=soon: give HOURS"),
    ({"DTYPE": "bf16", "MODEL_SIZE": "70b"}, "the recipe's smallest layout needs 64 ranks, there are 8"),
    ({"DTYPE": "fp8", "MODEL_SIZE": "8b", "DEVICE": "A100"}, "precision: A100 cannot multiply FP8; give bf16"),
    ({"EXPEKT": "reference"}, "EXPEKT is not known here: is EXPECT meant?"),
    ({"NUM_NODSE": "1", "DTPYE": "bf16"}, "NUM_NODSE is not known here: is NUM_NODES meant?"),
    ({"Tolerance": "0.1"}, "Tolerance is not known here: is TOLERANCE meant?"),
)


def launch(variables, *arguments, folder=None):
    """Runs run/launch with these variables and no others of that kind."""
    ours = re.compile("SLURM|SBATCH|PBS|FLUX|ENABLE_|ADDITIONAL_|NUM_NODES|SCHEDULE|DTYPE|WORKLOAD|MODEL_SIZE|STEPS|"
                      "PROFILE|RUN_CONF|HOSTFILE|JOB_TOTAL|GPUS_PER|LOAD_CHECK|EXPECT|TOLERANCE|REPEATS|SEED|USE_PGLE|"
                      "STAGE_PATH|GSW_VERSION|"
                      "(PP|TP|DP|VP|MBS|GA|SEQ_LEN)$")
    environment = {name: value for name, value in os.environ.items() if not ours.match(name)}
    environment.update(XGSW=os.path.abspath(PROGRAM), TOP=os.getcwd(), OMP_NUM_THREADS="1", **variables)
    return subprocess.run([os.path.abspath("run/launch"), *arguments], env=environment, capture_output=True, text=True,
                          check=False, timeout=120, cwd=folder)


def keys(text):
    """Returns the keys of a deck, except its record."""
    lines = (line.split("#")[0].split() for line in text.splitlines()[2:])
    return sorted(" ".join(words) for words in lines if words and words[0] != "record")


def variables_of(workload, precision, gpus):
    """Returns variables as users of the recipe set them: by size, except for Llama 2 and GPT-3, which have no size."""
    given = {"DTYPE": precision, "JOB_TOTAL_GPUS": str(gpus)}
    given.update({"MODEL_SIZE": workload.split("-")[1]} if workload in SIZE_ALONE else {"WORKLOAD": workload})
    return given


def check_recipes(tap):
    with open(CELLS, encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    for workload, precision in sorted({(row["workload"], row["precision"]) for row in rows}):
        if workload not in ("llama3.1-8b", "llama2-70b", "grok1-314b") and not FULL:
            continue
        gpus = min(int(row["gpus"]) for row in rows if (row["workload"], row["precision"]) == (workload, precision))
        run = launch(variables_of(workload, precision, gpus), "--print", "deck")
        with open(f"inputs/reference/{workload}-{precision}.dat", encoding="utf-8") as f:
            expected = sorted(keys(f.read()) + ["backend = cuda"])
        tap.ok(run.returncode == 0 and keys(run.stdout) == expected,
               f"{workload} {precision}: the reference's deck, of which program/dry_run.t checks every published row",
               run.stdout + run.stderr)


def check_commands(tap):
    cell = {"DTYPE": "bf16", "MODEL_SIZE": "8b", "JOB_TOTAL_GPUS": "16", "SBATCH_ACCOUNT": "me", "SLURM_PARTITION": "q"}
    for kind, words in (
            ("slurm", ("sbatch --nodes=2 --ntasks-per-node=8 ", "--account=me --partition=q", "run/slurm.sbatch",
                       "srun --mpi=pm", " --nodes=2 --ntasks=16 --ntasks-per-node=8 ", "--distribution=block")),
            ("pbs", ("qsub -V ", "select=2:ncpus=8:mpiprocs=8 ", "-A me -q q", "launch --start pbs", "$PBS_NODEFILE")),
            ("flux", ("flux batch --nodes=2 --nslots=16 ", "--bank=me --queue=q", "flux run --nodes=2 --ntasks=16 ")),
            ("mpirun", ("run/local -q -n 16 ",))):
        run = launch(cell, "--print", kind)
        missing = [word for word in words if word not in run.stdout]
        asked = re.search("gpus-per|ngpus", run.stdout)
        tap.ok(run.returncode == 0 and not missing and not asked and "[llama3.1-8b]" in run.stdout,
               f"--print {kind}: its commands, no GPUs asked for", f"{missing}\n{run.stdout}")
    for kind, words in (("slurm", "--gpus-per-node=4"), ("pbs", ":ngpus=4"), ("flux", "--gpus-per-task=1")):
        run = launch({**cell, "SBATCH_GPUS_PER_NODE": "4"}, "--print", kind)
        tap.ok(words in run.stdout and "=4" in run.stdout, f"--print {kind}: 4 GPUs of a node asked for", run.stdout)
    run = launch({**cell, "SLURM_GPUS_PER_NODE": "null"}, "--print", "slurm")
    tap.ok("gpus-per-node" not in run.stdout, "null: the batch system knows no GPUs", run.stdout + run.stderr)


def check_variables(tap):
    for given, words in REFUSED:
        run = launch(given, "--print", "slurm")
        tap.ok(run.returncode == 2 and words in run.stderr and not run.stdout, f"refused: {words}",
               run.stdout + run.stderr)
    for arguments, words in ((("--print", "lsf"), "KIND is slurm, pbs or flux"), (("none.dat",), "no deck none.dat"),
                             (("--verbose",), "is not an option")):
        run = launch({"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1"}, *arguments)
        tap.ok(run.returncode == 2 and words in run.stderr, f"refused: {words}", run.stdout + run.stderr)
    cell = {"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1"}
    ordinary = {"scheduler": "slurm", "Schedule": "1f1b", "SLURM_TIMES": "1", "STEPSIZE": "1", "SEEDS": "2",
                "SBATCH_ACOUNT": "me", "EXPEKT": "", "SEQLEN": "8", "NGPUS_PER_NODE": "4", "NUMNODES": "4",
                "HOST_FILE": "hosts"}
    run = launch({**cell, **ordinary, "HF_TOKEN": "x", "ENABLE_SOMETHING": "y", "TP": "2", "USE_PGLE": "True"},
                 "--print", "deck")
    tap.ok(run.returncode == 0 and "not used: HF_TOKEN" in run.stderr and "ENABLE_SOMETHING is not known" in run.stderr
           and "HOST_FILE is ignored: HOSTFILE is read here" in run.stderr and "scheduler" not in run.stderr
           and "USE_PGLE=true has no effect: " in run.stderr and "ignored: TP" in run.stderr
           and "tensor" not in run.stdout, "what is not used is told", run.stderr)
    run = launch({**cell, "ENABLE_NCCLTRACE": "true"}, "--print", "mpirun")
    tap.ok("-nccl-trace/bf16" in run.stdout and "warmup = 2\nsteps = 3\n" in run.stdout,
           "a trace: few steps, elsewhere", run.stdout)
    for given, words in (
            ({"MODEL_SIZE": "8b", "ENABLE_PROFILE": "true"},
             ("steps = 23\nprofile = 20-25\nprofile_ranks = 0-7\n", "/run/profile_rank 0-7 8 nsys ",
              "-bf16-64-ID/nsys_profile/profile_%r --capture-range-end=stop --trace cuda,nvtx --cuda-event-trace=false"
              " --capture-range=cudaProfilerApi --sample none --cpuctxsw none -- ")),
            ({"MODEL_SIZE": "314b", "ENABLE_PROFILE": "true", "RUN_CONF_PROFILE_START_STEP": "4",
              "RUN_CONF_PROFILE_RANKS": "16,0", "RUN_CONF_PROFILE_CPU": "true", "RUN_CONF_PROFILE_GPU_METRICS": "True"},
             ("profile = 4-30\nprofile_ranks = 0-16", " 16,0 8 nsys nsys/grok1-314b-bf16_64g_ID_%n_%l --capture",
              "--sample process-tree --cpuctxsw process-tree --gpu-metrics-device=all -- ")),
            ({"MODEL_SIZE": "8b", "ENABLE_CHECKPOINT": "true", "LOAD_CHECKPOINT_PATH": "/x/y"},
             ("warmup = 0\nsteps = 1\ncheckpoint = llama3.1-8b-bf16-64-ID-checkpoint\nload = /x/y\n",)),
            ({"MODEL_SIZE": "8b", "ENABLE_NCCLTRACE": "true"},
             ("NCCL trace of ranks 0-63 takes about 408 MB", "rank 0-63 8 nccl llama"))):
        run = launch({"DTYPE": "bf16", "NUM_NODES": "8", **given}, "--print", "slurm")
        tap.ok(run.returncode == 0 and all(word in run.stdout + run.stderr for word in words), f"kept: {words[-1]}",
               run.stdout + run.stderr)
    for rank, file in ("2", "none\n"), ("5", "a.5.2.1\n"):
        command = "run/profile_rank 0,4-5 2 nccl a.%r.%n.%l -- printenv NCCL_DEBUG_FILE"
        run = subprocess.run(command.split(), stdout=subprocess.PIPE, text=True, check=False,
                             env={**os.environ, "OMPI_COMM_WORLD_RANK": rank, "NCCL_DEBUG_FILE": "none"})
        tap.ok(run.stdout == file, f"run/profile_rank records listed ranks only: {rank}", run.stdout)
    expected = {"EXPECT": "reference", "TOLERANCE": "0.03", "REPEATS": "3", "SEED": "late"}
    run = launch({**cell, **expected}, "--print", "deck")
    tap.ok(run.returncode == 0 and {f"{name.lower()} = {value}" for name, value in expected.items()} <=
           set(keys(run.stdout)) and not run.stderr, "what is expected of the run is in its deck",
           run.stdout + run.stderr)
    run = launch({"WORKLOAD": "gpt3-175b", "PP": "4", "DP": "2", "GA": "32"}, "--print", "deck")
    tap.ok({"pipeline = 4", "tensor = 8", "data = 2", "chunks_per_stage = 3", "microbatch = 1",
            "global_batch = 64"} <=
           set(keys(run.stdout)), "gpt3's own layout", run.stdout)


def check_dry_run(tap):
    """The mistakes that a dry run finds in a deck are reported before the job waits for a node."""
    big = {"DTYPE": "bf16", "WORKLOAD": "llama2-70b"}
    run = launch({"DTYPE": "bf16", "MODEL_SIZE": "314b", "JOB_TOTAL_GPUS": "40"}, "--print", "deck")
    tap.ok(run.returncode == 0 and "to leave no GPU idle (8 now), ask for JOB_TOTAL_GPUS=32\n" in run.stderr,
           "a number that experts do not divide leaves GPUs idle", run.stderr)
    run = launch({**big, "JOB_TOTAL_GPUS": "192"}, "--print", "deck")
    tap.ok(run.returncode == 0 and "idle" not in run.stderr, "Llama 2 on 24 nodes: all GPUs train", run.stderr)
    for action in ("--submit", "slurm"), ("--print", "pbs"), ("--print", "deck"), ("--start", "mpirun"):
        run = launch({**big, "NUM_NODES": "2"}, *action)
        tap.ok(run.returncode == 2 and "reports: SKIPPED: the recipe's smallest layout needs 64" in run.stderr
               and not run.stdout, f"{' '.join(action)}: what would be skipped is refused", run.stdout + run.stderr)
    for gpus, node, told in (("72", "8", "to leave no GPU idle (8 now), ask for JOB_TOTAL_GPUS=64\n"),
                             ("72", "12", "to leave no GPU idle (8 now), ask for JOB_TOTAL_GPUS=64 GPUS_PER_NODE=4\n")):
        run = launch({**big, "JOB_TOTAL_GPUS": gpus, "GPUS_PER_NODE": node}, "--print", "deck")
        tap.ok(run.returncode == 0 and told in run.stderr, f"{gpus} GPUs, some idle: {told.strip()}", run.stderr)
    cell = {"DTYPE": "bf16", "MODEL_SIZE": "8b", "NUM_NODES": "1"}
    for steps, repeats, limit, warned in (("100", "1", "20:10", True), ("100", "1", "23:00", True),
                                          ("100", "1", "24:00", False), ("25", "4", "20:10", True)):
        run = launch({**cell, "STEPS": steps, "REPEATS": repeats, "SLURM_TIME": limit}, "--print", "slurm")
        tap.ok(run.returncode == 0 and (" cases take at least 20.4 min, but the job ends" in run.stderr) == warned,
               f"SLURM_TIME={limit} for {repeats} x {steps} steps is{'' if warned else ' not'} warned of", run.stderr)
    for given, told in (
            ({"NUM_NODES": "15", "EXPECT": "reference"}, "NOT ACCEPTED: no published cell; expected is a published "
             "cell, but none is of this case on this device\n"
             "run/launch: the published speed, scaled to this number of GPUs, is EXPECT=1275640 (H100)\n"),
            ({"STEPS": "11", "EXPECT": "reference"},
             "1 of 1 cases will be NOT ACCEPTED: NOT VALID; expected is 85458.5 tokens/s less 5 %\n"),
            ({"STEPS": "11"}, "1 of 1 cases will be NOT VALID: too few steps: 9 timed, 10 are needed\n"),
            ({"ENABLE_NCCLTRACE": "true"}, "too few steps: 3 timed, 10 are needed\n")):
        run = launch({**cell, **given}, "--print", "deck")
        tap.ok(run.returncode == 0 and run.stderr.endswith(told), f"{given} is told of: {told.strip()}", run.stderr)
    run = launch({"DTYPE": "bf16", "MODEL_SIZE": "314b", "JOB_TOTAL_GPUS": "8"}, "--print", "deck")
    tap.ok(run.returncode == 0 and "1 of 1 cases train the recipe's proxy, not the whole model; layers: 2\n" in
           run.stderr, "so is a model with fewer layers", run.stderr)
    run = launch({"DTYPE": "bf16", "MODEL_SIZE": "340b", "NUM_NODES": "32", "GPUS_PER_NODE": "4"}, "--print", "deck")
    tap.ok(run.returncode == 0 and "tensor groups of 8 GPUs span nodes of 4, which makes their cases NOT VALID" in
           run.stderr, "so are tensor groups that nodes are too small for", run.stderr)
    run = launch({"DTYPE": "bf16", "MODEL_SIZE": "340b", "JOB_TOTAL_GPUS": "128", "DEVICE": "GB200"}, "--print",
                 "slurm")
    tap.ok(run.returncode == 0 and "--nodes=32 --ntasks-per-node=4 " in run.stdout and "span" not in run.stderr
           and "published for 128 GB200: 59878 tokens/s" in run.stderr,
           "DEVICE=GB200: nodes of 4, its own cell, and a tensor group of 8 in its NVLink domain", run.stderr)
    for device, memory in (("GH200", "101.5"), ("GH200-144G", "150.0")):
        run = launch({**cell, "DEVICE": device, "NUM_NODES": "4"}, "--print", "slurm")
        tap.ok("--nodes=4 --ntasks-per-node=2 " in run.stdout and f" fit GPUs of {memory} GB: " in run.stderr,
               f"DEVICE={device}: nodes of 2, {memory} GB", run.stdout + run.stderr)
    check_own_decks(tap)


def check_own_decks(tap):
    with tempfile.TemporaryDirectory() as folder:
        for text, given, told in (
                ("warmup = 2\nminutes = 45\nrepeats = 2\ntensor = 8\n[llama3.1-8b]\n", {},
                 "the steps of 2 cases take at least 90.0 min, but the job ends after"),
                ("tensor = 8\nlayers = 4\nsize = check\nglobal_batch = 65536\nprecision = fp32 bf16 fp8\nseed = 1 2\n"
                 "[llama3.1-8b]\n",
                 {}, "6 of 6 cases are too long for a dry run: it is unknown whether they fit"),
                ("copies = 3\ntensor = 2\nglobal_batch = 12\n[llama3.1-8b]\n",
                 {"JOB_TOTAL_GPUS": "24", "GPUS_PER_NODE": "6"}, "idle (6 now), ask for JOB_TOTAL_GPUS=18\n"),
                ("tensor = 8\n[llama3.1-8b]\n", {"STEPS": "9", "DTYPE": "fp8"}, "variables are ignored: DTYPE STEPS")):
            deck = os.path.join(folder, "own.dat")
            with open(deck, "w", encoding="utf-8") as f:
                f.write(f"a deck\nof one's own\n{text}")
            run = launch({"JOB_TOTAL_GPUS": "8", **given}, "--print", "slurm", deck)
            tap.ok(run.returncode == 0 and told in run.stderr, f"of a deck of one's own: {told}", run.stderr)
        run = launch({"JOB_TOTAL_GPUS": "8", "ENABLE_PROFILE": "true"}, "--print", "slurm", deck)
        tap.ok(run.returncode == 2 and "names no steps; write profile = 20-25 into it" in run.stderr,
               "a deck of one's own names the steps of a profile", run.stdout + run.stderr)
        deck = os.path.join(folder, "my own.dat")
        for key, status, words in (("tensor", 0, "\nrecord = my_own-8-ID.h5\n"), ("tensr", 2, f"{deck}:5: tensr: ")):
            with open(deck, "w", encoding="utf-8") as f:
                f.write(f"a deck\nof 200 kB\nrecord = a.h5\n[llama3.1-8b]\n{key} = 8\n" + 2000 * f"# {98 * 'x'}\n")
            run = launch({"JOB_TOTAL_GPUS": "8"}, "--print", "slurm", deck)
            tap.ok(run.returncode == status and words in run.stdout + run.stderr, f"a long deck with {key}",
                   run.stdout[:500] + run.stderr)


def check_runs(tap):
    with tempfile.TemporaryDirectory() as folder:
        deck = os.path.join(folder, "small.dat")
        with open(deck, "w", encoding="utf-8") as f:
            f.write(SMALL)
        for name, text in STAND_INS.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(f"#!/usr/bin/env bash\n{text}\n")
            os.chmod(f.name, 0o755)
        given = {"JOB_TOTAL_GPUS": "2", "PATH": f"{folder}:{os.environ['PATH']}"}
        for action in (("--start", "mpirun"), ("--submit", "pbs"), ("--submit", "pbs"), ("--submit", "flux")):
            run = launch(given, *action, deck, folder=folder)
            tap.ok(run.returncode == 0, f"{' '.join(action)}: a deck of three recipes runs", run.stdout + run.stderr)
        logs, records = (glob.glob(f"{folder}/results/*/small/2/small-2-*.{kind}") for kind in ("out", "h5"))
        tap.ok(len(logs) == len(records) == 4 and any(name.endswith("-77.server-2.h5") for name in records),
               "four runs leave four logs and records, two of them those of one job", f"{logs} {records}")
        tap.ok(not glob.glob(f"{folder}/**/elsewhere.h5", recursive=True), "and none where the deck had it")


def columns(line):
    """Returns the line without its numbers."""
    return re.sub(r"[-+.]*\d[\d.]*(e[-+]\d+)?", "N", " ".join(line.split()))


def check_greps(tap):
    """What users of the recipes grep in STAGE_PATH is there, with the recipe's columns; a link lies at our place."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "srun"), "w", encoding="utf-8") as f:
            f.write(f"#!/usr/bin/env bash\n{SRUN}\n")
        os.chmod(f.name, 0o755)
        stage = {"STAGE_PATH": os.path.join(folder, "stage"), "GSW_VERSION": "25.04", "DTYPE": "bf16"}
        for given, command, line in GREPS:
            run = launch({**stage, **given, "SLURM_JOB_ID": "1407993", "PATH": f"{folder}:{os.environ['PATH']}"},
                         "--start", "slurm", folder=folder)
            found = subprocess.run(command, shell=True, env={**os.environ, **stage}, cwd=stage["STAGE_PATH"],
                                   capture_output=True, text=True, check=False)
            tap.ok(run.returncode == 0 and columns(found.stdout) == columns(line), f"the recipe's command: {command}",
                   found.stdout + found.stderr + run.stderr)
        logs = glob.glob(f"{folder}/results/25.04/bf16/*/*/*-1407993.out")
        tap.ok(len(logs) == 4 and not os.path.exists(f"{folder}/stage/stage"), "our folders are links to them", logs)


# Evaluates a module file, as Environment Modules and Lmod would do.
MODULE = """proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {name value} { puts "export $name=$value:\\$$name" }
proc setenv {name value} { puts "export $name=$value" }
"""


def check_install(tap):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["run/install", "-x", PROGRAM, f"{folder}/site"], capture_output=True, text=True,
                              check=False)
        module = "".join(glob.glob(f"{folder}/site/share/modulefiles/xgsw/*"))
        with open(module, encoding="utf-8") as f:
            text = f.read()
        lines = re.findall(r"^(prepend-path|setenv) (\w+) (\S+)$", text, re.M)
        words = {name: value for _, name, value in lines}
        tap.ok(done.returncode == 0 and text.startswith("#%Module1.0\n") and set(words) == {"PATH", "XGSW_TOP"}
               and "@" not in text, "run/install leaves a module file", done.stderr + text)
        if shutil.which("tclsh"):
            told = subprocess.run(["tclsh"], input=f"{MODULE}source {module}\n", capture_output=True, text=True,
                                  check=False)
            tap.ok(told.stdout == f"export PATH={words['PATH']}:$PATH\nexport XGSW_TOP={words['XGSW_TOP']}\n",
                   "which Tcl reads", told.stdout + told.stderr)
        environment = {**os.environ, "PATH": f"{words['PATH']}:{os.environ['PATH']}"}
        environment.pop("XGSW", None)
        run = subprocess.run("xgsw --version && xgsw-validate --help && xgsw-page --help && xgsw-compare --help && "
                             "DTYPE=fp8 MODEL_SIZE=8b JOB_TOTAL_GPUS=16 xgsw-launch --print slurm", shell=True,
                             env=environment, cwd=folder, capture_output=True, text=True, check=False)
        # Without a home, matplotlib also prints a line.
        said = "".join(line for line in run.stderr.splitlines(True) if line.startswith("run/"))
        tap.ok(run.returncode == 0 and f" {words['XGSW_TOP']}/xgsw llama3.1-8b-fp8-16-ID.dat\n" in run.stdout
               and os.path.isfile(f"{words['XGSW_TOP']}/validation/reference/cells.csv")
               and re.fullmatch("run/launch: 1 of 1 cases fit GPUs .*\nrun/launch: published for 16 H100: .*\n",
                                said),
               "what it puts on the path runs from another folder", run.stdout + run.stderr)
        run = subprocess.run("xgsw --dry-run ramp.dat && $XGSW_TOP/run/local -q -n 1 ramp.dat --dry-run && "
                             "$XGSW_TOP/run/local --help && mkdir inputs && touch inputs/x.dat && "
                             "$XGSW_TOP/run/local -q -n 1 -- --dry-run --json x.dat", shell=True, cwd=folder,
                             capture_output=True, text=True,
                             env={**environment, "XGSW_TOP": words["XGSW_TOP"]}, check=False)
        written = glob.glob(f"{folder}/*.dat") + glob.glob(f"{folder}/inputs/*.dat")
        tap.ok(run.returncode == 0 and run.stdout.count("case 1: llama3.1-8b, small") == 2
               and "case 10: " in run.stdout
               and "Runs xgsw on this machine: " in run.stdout and "Options of xgsw come after" in run.stdout
               and [os.path.getsize(path) > 0 for path in written] == [True, False],
               "it finds its decks there; run/local takes the default deck with options alone, --help explains",
               run.stdout + run.stderr)


tap = Tap()
check_recipes(tap)
check_commands(tap)
check_variables(tap)
check_dry_run(tap)
check_runs(tap)
check_greps(tap)
check_install(tap)
tap.done()
