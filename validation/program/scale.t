#!/usr/bin/env bash
# inputs/check-512.dat at more ranks than cores: it passes, and what a rank takes does not grow as the ranks do.
# Time and memory are printed. Rank counts in SCALE (default: 8 32 128, then 512 under MPICH and 256 under Open MPI).
set -uo pipefail
export OMP_NUM_THREADS=1
count=0 failed=0 first=
ok() { count=$((count + 1)); echo "ok $count - $1"; }
not_ok() { count=$((count + 1)); failed=1; echo "not ok $count - $1"; }
ranks=(${SCALE:-8 32 128})
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp inputs/check-512.dat "$copy"

# one RANKS PROGRAM: runs the deck and prints what it took.
one() {
    local begin=$SECONDS out status memory
    out=$(cd "$copy" && "$top/run/local" -q -n "$1" -x "$2" check-512.dat 2>&1)
    status=$?
    memory=$(sed -n 's/^Memory.* a rank, \([0-9.]*\) MB outside.*/\1/p' <<<"$out")
    echo "# $1 ranks: $((SECONDS - begin)) s, $memory MB a rank outside the arena; $(grep -c '"passed":true' <<<"$out") passed"
    if [ $status = 0 ] && grep -q "\"passed\":true" <<<"$out"; then ok "passes at $1 ranks"; else
        not_ok "passes at $1 ranks"
        tail -15 <<<"$out" | cut -c1-200 | sed 's/^/# /'
        return
    fi
    # Shared pages are counted by every rank that touches them: MPI's grow with the ranks of the node, by no more than this.
    [ -n "$first" ] || first=$memory
    if awk -v a="$first" -v b="$memory" 'BEGIN { exit !(b < 3 * a) }'; then ok "memory of a rank at $1 ranks"; else not_ok "memory of a rank at $1 ranks: $first MB, then $memory"; fi
}

top=$PWD
for n in "${ranks[@]}"; do one "$n" "$top/xgsw"; done
if [ -z "${SCALE:-}" ] && ldd xgsw | grep -q libmpi.so; then one 256 "$top/xgsw"; fi
if [ -z "${SCALE:-}" ] && command -v mpicc.mpich >/dev/null && command -v mpirun.mpich >/dev/null; then
    tar -c --exclude=./build --exclude=./.git . | tar -x -C "$copy"
    (cd "$copy" && make -s MPICC=mpicc.mpich) >"$copy/build.log" 2>&1 || not_ok 'builds with MPICH'
    first=
    one 512 "$copy/xgsw"
fi
echo "1..$count"
exit $failed
