#!/usr/bin/env bash
# inputs/check-512.dat at more ranks than cores: it passes, and what a rank takes for itself does not grow as the ranks
# do. The default deck under MPICH. Rank counts: SCALE under the MPI of ./xgsw (default: 8 32 128, and 256 if that is
# Open MPI), SCALE_MPICH (default: 8 512).
set -uo pipefail
export OMP_NUM_THREADS=1
. validation/tap.sh
top=$PWD
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp inputs/check-512.dat "$copy"

# What a rank may take more, in bytes, for each rank more. Memory that ranks share is not in it: all but 8 bytes a rank
# is MPI's, and every rank that touches a page counts it. Of its own MPI keeps endpoints and tables of its peers: a
# program that only exchanged a message with every rank and split the world four times took 10 kB a peer under Open MPI
# 4.1, 4 kB under MPICH 4.0 (8 and 32 ranks). xgsw splits it up to a dozen times, at 64 bytes a rank and table, and
# keeps a step's time and a host's name for each rank on rank 0.
per_rank=16384
# What it may take more once: messages that came before their receive, one of 64 KiB on each of 8 queues.
early_messages=$((8 * 65536))

number() { sed -n "s/^{.*\"$1\":\([0-9.e+]*\)[,}].*/\1/p" <<<"$out"; }

# The deck has one case, on all ranks, of which an eighth is data.
says_all_ranks() { # RANKS
    [ "$(grep -c '^{' <<<"$out")" = 1 ] && [ "$(number ranks)" = "$1" ] &&
        [ "$(number data)" = $(($1 / 8)) ] && grep -q '"tensor":2,"pipeline":2,"context":2,' <<<"$out"
}

grows_no_more() { # RANKS; the first count of a program is what the others are compared with
    [[ $own =~ ^[0-9]+$ ]] || return 1
    [ -n "$first" ] || { first=$own least=$1; return 0; }
    [ "$own" -le $((first + early_messages + per_rank * ($1 - least))) ]
}

run_deck() { # RANKS PROGRAM
    local begin=$SECONDS status
    out=$(cd "$copy" && "$top/run/local" -q -n "$1" -x "$2" check-512.dat --json - 2>&1)
    status=$?
    own=$(number own_outside_bytes)
    echo "# $1 ranks: $((SECONDS - begin)) s; bytes a rank outside the arena: $(number outside_bytes)," \
        "without what ranks share ${own:-unknown}"
    [ $status = 0 ] && grep -q '^XGSW_RESULT.*"verdict":"PASSED"' <<<"$out"
    check $? "$mpi: passes at $1 ranks"
    [ $status = 0 ] || tail -15 <<<"$out" | cut -c1-200 | sed 's/^/# /'
    says_all_ranks "$1"
    check $? "$mpi: the result is of $1 ranks, data $(($1 / 8))"
    grows_no_more "$1"
    check $? "$mpi: memory of a rank at $1 ranks${first:+ (${own:-unknown} bytes after $first)}"
}

grow() { # PROGRAM RANKS...
    local program=$1 n
    shift
    first= least= mpi=$("$program" --version | sed -n 's/^MPI *\(MPICH\|Open MPI\).*/\1/p')
    for n in "$@"; do run_deck "$n" "$program"; done
}

ranks=(${SCALE:-8 32 128})
if [ -n "${SCALE:-}" ]; then :
elif grep -q 'Open MPI' <<<"$(./xgsw --version)"; then ranks+=(256)
else skip '256 ranks under Open MPI' './xgsw was built with another MPI'; fi
grow "$top/xgsw" "${ranks[@]}"

if command -v mpicc.mpich >/dev/null && command -v mpirun.mpich >/dev/null; then
    tar -c --exclude=./build --exclude=./.git . | tar -x -C "$copy"
    (cd "$copy" && make -s MPICC=mpicc.mpich) >"$copy/build.log" 2>&1
    check $? 'builds with MPICH'
    if [ -x "$copy/xgsw" ]; then
        grow "$copy/xgsw" ${SCALE_MPICH:-8 512}
        out=$(cd "$copy" && run/local -q -n 4 gsw.dat 2>&1) && grep -q '^Libraries .*MPICH' <<<"$out" &&
            [ "$(grep -c '^XGSW_RESULT .*"verdict":"PASSED"' <<<"$out")" = 10 ]
        check $? 'MPICH: the 10 cases of the default deck pass, and the report names it' <(echo "$out")
    fi
else
    skip '512 ranks under MPICH' 'MPICH is not installed (apt-get install mpich libmpich-dev)'
fi
tap_done
