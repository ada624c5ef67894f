#!/usr/bin/env bash
# The same decks under MPICH: builds beside the Open MPI build and passes.
set -uo pipefail
if ! command -v mpicc.mpich >/dev/null || ! command -v mpirun.mpich >/dev/null; then
    echo '1..0 # SKIP MPICH is not installed (apt-get install mpich libmpich-dev)'
    exit 0
fi
count=0 failed=0
check() { # STATUS DESCRIPTION
    count=$((count + 1))
    [ "$1" = 0 ] && { echo "ok $count - $2"; return; }
    failed=1
    echo "not ok $count - $2"
}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$copy"
cd "$copy" || exit 1
make -s MPICC=mpicc.mpich >build.log 2>&1
check $? 'builds with MPICH'
[ $failed = 0 ] || tail build.log | sed 's/^/# /'
out=$(OMP_NUM_THREADS=1 run/local -q -n 4 gsw.dat 2>&1)
status=$?
# As many results as the deck has cases, at least the seven that training.t knows, and every one passed.
cases=$(./xgsw --dry-run gsw.dat --ranks 4 | grep -c '^case ')
results=$(grep -c '^XGSW_RESULT ' <<<"$out")
passed=$(grep -c '^XGSW_RESULT .*"verdict":"PASSED"' <<<"$out")
[ $status = 0 ] && [ "$cases" -ge 7 ] && [ "$results" = "$cases" ] && [ "$passed" = "$cases" ]
check $? "the default deck under MPICH: $cases cases, $results results, $passed passed"
[ $failed = 0 ] || tail -20 <<<"$out" | cut -c1-200 | sed 's/^/# /'
grep -q '^Libraries .*MPICH' <<<"$out"
check $? 'the report names MPICH'
echo "1..$count"
exit $failed
