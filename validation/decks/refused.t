#!/usr/bin/env bash
# A deck of validation/decks/bad is refused by the program on two ranks: its exact lines and no others, status 2, no
# record, within a second beyond what the launcher takes. XGSW names the program; needs it built. The unit test
# deck_refused compares the lines of every deck: so these are every eighth and the longest, with `long` all.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
program=$(readlink -f "${XGSW:-./xgsw}")
decks=("$top"/validation/decks/bad/*.dat)
[ -n "${XGSW_TEST_LONG:-}" ] || mapfile -t decks < <(printf '%s\n' "${decks[@]}" |
    awk 'NR % 8 == 1 || /mebibyte|megabyte|too-many|fifty/')
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# Open MPI waits a second before it ends a job whose ranks said 2; that second is not the program's.
export OMPI_MCA_odls_base_sigkill_timeout=0
# No rank sees a GPU, if there is one and whether the build could use it; what it says of that differs.
export CUDA_VISIBLE_DEVICES=

[ -x "$program" ] || { echo "Bail out! no program ${XGSW:-./xgsw}; run make first"; exit 1; }
echo "1..$((${#decks[@]} + 1))"

launch() { (cd "$here" && timeout 60 "$top/run/local" -q -n 2 -x "$program" -- "$@") >"$here/out" 2>&1 </dev/null; }
milliseconds() { date +%s%3N; }

# What the launcher itself takes: the program only says its version.
start=$(milliseconds)
launch --version
launcher=$(($(milliseconds) - start))

count=0 failures=0 slowest=0

# report DESCRIPTION REASON: an empty reason is a pass.
report() {
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        failures=$((failures + 1))
        echo "not ok $count - $1"
        sed 's/^/#   /' <<<"$2"
    fi
}

refuse() {
    local deck=$1 status=0 start elapsed wanted got
    start=$(milliseconds)
    launch "$deck" || status=$?
    elapsed=$(($(milliseconds) - start))
    if [ $elapsed -ge $((launcher + 1000)) ]; then    # once more: another process may have been in the way
        start=$(milliseconds)
        launch "$deck"
        elapsed=$(($(milliseconds) - start))
    fi
    [ $elapsed -le $slowest ] || slowest=$elapsed
    wanted=$(sed "s|^DECK:|$deck:|" "${deck%.dat}.expected")
    got=$(grep -aF "$deck:" "$here/out" | sed -E 's/(cuda cannot run here: )rank 0 on [^ :]+: [^;]+;/\1REASON;/')
    [ $status = 2 ] || echo "status $status, wanted 2"
    [ "$got" = "$wanted" ] || diff <(echo "$wanted") <(echo "$got") | head -20
    [ -z "$(find "$here" -mindepth 1 ! -name out)" ] || echo "left behind: $(ls "$here")"
    [ $elapsed -lt $((launcher + 1000)) ] || echo "$elapsed ms; the launcher alone takes $launcher ms"
}

for deck in "${decks[@]}"; do
    refuse "$deck" >"$here.why"
    report "$(basename "$deck")" "$(head -30 "$here.why")"
done
rm -f "$here.why"

# A deck that does not exist is refused too, and named.
status=0
launch nowhere.dat || status=$?
reason=
[ $status = 2 ] || reason="status $status, wanted 2"
grep -q nowhere.dat "$here/out" || reason="$reason; the deck is not named"
report "a missing deck" "$reason"
echo "# slowest $slowest ms, of which the launcher takes about $launcher ms"
exit $((failures > 0))
