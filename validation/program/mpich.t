#!/usr/bin/env bash
# The same decks under MPICH: builds beside the Open MPI build and passes.
set -uo pipefail
if ! command -v mpicc.mpich >/dev/null || ! command -v mpirun.mpich >/dev/null; then
    echo '1..0 # SKIP MPICH is not installed (apt-get install mpich libmpich-dev)'
    exit 0
fi
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$copy"
cd "$copy" || exit 1
make -s MPICC=mpicc.mpich >build.log 2>&1 && echo 'ok 1 - builds with MPICH' || { echo 'not ok 1 - builds with MPICH'; tail build.log | sed 's/^/# /'; }
out=$(OMP_NUM_THREADS=1 run/local -q -n 4 gsw.dat 2>&1)
status=$?
[ $status = 0 ] && [ "$(grep -c '"passed":true' <<<"$out")" = 6 ] && echo 'ok 2 - the default deck passes under MPICH' || { echo 'not ok 2 - the default deck under MPICH'; tail -20 <<<"$out" | sed 's/^/# /'; }
grep -q '^Messages *MPICH' <<<"$out" && echo 'ok 3 - the report names MPICH' || echo 'not ok 3 - the report names MPICH'
echo 1..3
[ $status = 0 ]
