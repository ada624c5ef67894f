#!/usr/bin/env bash
# A real Slurm of one node on this machine, two ranks: a deck submitted by run/launch, by hand with sbatch, and started
# by `srun --mpi=pmix` itself, PASSES each time. It installs Slurm and munge where it may (apt-get, as root), keeps all
# of it in a folder of its own, and ends what it started. Prints TAP.
set -uo pipefail
wanted="sbatch srun slurmctld slurmd munged"
packages="slurmctld slurmd slurm-client munge"
missing() { for name in $wanted; do command -v "$name" >/dev/null || echo "$name"; done; }
if [ -n "$(missing)" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    install="env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages"
    $install >/dev/null 2>&1 || { apt-get update && $install; } >/dev/null 2>&1
fi
skip() { echo "1..0 # SKIP $1"; exit 0; }
[ -z "$(missing)" ] || skip "no Slurm here, and it could not be installed: apt-get install $packages"
[ "$(id -u)" = 0 ] || skip "Slurm's daemons are started as root"

program=$(realpath "${XGSW:-./xgsw}")
case $(ldd "$program") in *libmpich*) skip "pmix is for Open MPI, and $program was built with MPICH" ;; esac
folder=$(mktemp -d) host=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf
# No variable of a Slurm around this one.
for name in $(compgen -e | grep -E '^(SLURM|SBATCH)_' | grep -v SLURM_CONF); do unset "$name"; done
chmod 755 "$folder"

end() {
    for name in slurmctld slurmd munged; do
        [ ! -s "$folder/$name.pid" ] || kill "$(cat "$folder/$name.pid")" 2>/dev/null
    done
    sleep 1
    rm -rf "$folder"
}
trap end EXIT
. validation/tap.sh

# Two cores, though there be fewer: the daemon is told not to look (Parameters=config_overrides).
start_slurm() {
    head -c 1024 /dev/urandom >"$folder/munge.key"
    chmod 400 "$folder/munge.key"
    munged --force --socket="$folder/munge.socket" --key-file="$folder/munge.key" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" || return 1
    mkdir "$folder/state" "$folder/spool"
    local ports     # two that are free
    ports=$(python3 -c 'import socket
free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in free))')
    cat >"$SLURM_CONF" <<END
ClusterName=xgsw
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports% *}
SlurmdPort=${ports#* }
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES State=UP
END
    slurmctld && slurmd
}

idle() { # waits until the node is
    local i
    for i in $(seq 30); do
        [ "$(sinfo --noheader --format=%T 2>/dev/null)" != idle ] || return 0
        sleep 1
    done
    return 1
}

passed() { # LOG
    tail -n 1 "$1" 2>/dev/null | grep -q "^PASSED" && [ "$(grep -c '^XGSW_RESULT .*"ranks":2,' "$1")" = 1 ]
}

printf '%s\n' 'a small deck' 'of two ranks' 'backend = host' 'size = check' 'steps = 10' 'tensor = 2' '[llama3.1-8b]' \
    >"$folder/small.dat"
start_slurm && idle
check $? "$(srun --version) starts with one node"
cd "$folder" || exit 1
top=$OLDPWD
export XGSW=$program OMP_NUM_THREADS=1 SLURM_LOG_DIR=$folder

timeout 120 srun --mpi=pmix -n 2 "$program" small.dat >direct.out 2>&1
check $? "srun --mpi=pmix"
passed direct.out
check $? "two ranks PASSED"

JOB_TOTAL_GPUS=2 SLURM_GPUS_PER_NODE=null ADDITIONAL_SLURM_PARAMS="--wait --time=5" \
    timeout 120 "$top/run/launch" --submit slurm small.dat >launch.log 2>&1
check $? "run/launch --submit slurm ends with status 0"
passed results/*/small/2/small-2-2.out
check $? "its log, named after the job, ends PASSED"
grep -q 'srun --mpi=pmix .*--ntasks=2 ' results/*/small/2/small-2-2.out
check $? "it was started by srun --mpi=pmix"

(cd "$top" && JOB_TOTAL_GPUS=2 timeout 120 sbatch --wait -N 1 --output="$folder/slurm-%j.out" run/slurm.sbatch \
    "$folder/small.dat") >sbatch.log 2>&1
check $? "sbatch run/slurm.sbatch by hand ends with status 0"
passed results/*/small/2/small-2-3.out && [ "$(find results -name '*.h5' | wc -l)" = 2 ]
check $? "its log ends PASSED; each run has a record"

sed 's/steps = 10/steps = 100000/' small.dat >endless.dat
JOB_TOTAL_GPUS=2 "$top/run/launch" --submit slurm endless.dat >stopped.log 2>&1
log=results/*/endless/2/endless-2-4.out
for _ in $(seq 60); do grep -Eqs 'completed step:|train_step_timing' $log && break; sleep 1; done
scancel --signal=USR1 4
for _ in $(seq 30); do grep -qs '^INTERRUPTED after' $log && break; sleep 1; done
grep -qs '^INTERRUPTED after [0-9]* of 100000 steps' $log && idle && [ -s "$(echo ${log%.out}.h5)" ]
check $? "scancel --signal=USR1: the ranks stop, and leave a record"

echo 'steps = 0' >>small.dat
JOB_TOTAL_GPUS=2 timeout 60 "$top/run/launch" --submit slurm small.dat >refused.log 2>&1
[ $? = 2 ] && grep -q 'small.dat:8: steps: 0 is out of range' refused.log && ! scontrol show job 5 >/dev/null 2>&1
check $? "a deck that xgsw refuses is not submitted"
cd "$top" || exit 1
[ $failed = 0 ] || tail -n 5 "$folder"/*.log "$folder"/slurm-*.out 2>/dev/null | sed 's/^/# /'
tap_done
