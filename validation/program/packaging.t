#!/usr/bin/env bash
# The man page: it has every option and key, roff takes it, and it is installed. In check-long also the test for
# ReFrame and the package for Spack; pip installs ReFrame, XGSW_SPACK names a folder of Spack 0.23. Prints TAP.
set -uo pipefail
. validation/tap.sh
program=$(realpath "${XGSW:-./xgsw}") folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

page=$folder/root/opt/xgsw/share/man/man1/xgsw.1
run/install -x "$program" -d "$folder/root" /opt/xgsw >"$folder/log" 2>&1 && [ -s "$page" ]
check $? "run/install leaves share/man/man1/xgsw.1" "$folder/log"
"$program" --help | grep -o -e '--[a-z][a-z-]*' | sort -u >"$folder/names"
"$program" --keys | sed '1d; /^$/,$d; s/ .*/ =/' >>"$folder/names"
sed -n 's/\\-/-/g; s/^\\fB//p' "$page" >"$folder/items"
while IFS= read -r name; do grep -qwF -e "$name" "$folder/items" || echo "$name"; done <"$folder/names" >"$folder/log"
[ "$(grep -c -e -- "$folder/names")" -gt 20 ] && [ "$(grep -c = "$folder/names")" -gt 40 ] && [ ! -s "$folder/log" ]
check $? "it has all $(wc -l <"$folder/names") options and keys" "$folder/log"
if command -v groff >/dev/null; then
    groff -man -ww -Tutf8 -P-cbou "$page" 2>"$folder/log" >"$folder/page"
    [ ! -s "$folder/log" ] && grep -q '^EXIT STATUS' "$folder/page"
    check $? "roff does not warn" "$folder/log"
else
    check 0 "roff does not warn # SKIP no groff"
fi
printf '#!/bin/sh\n%s $1 | sed "s/ 1 to 16 / 1  16 /"\n' "$program" >"$folder/other"
chmod +x "$folder/other"
! run/packaging/manpage "$folder/other" >/dev/null 2>"$folder/log" && grep -q 'not four columns: strips' "$folder/log"
check $? "no page is made of keys in other columns" "$folder/log"
[ -n "${XGSW_TEST_LONG:-}" ] || tap_done

python=$folder/venv/bin/python
printf '%s\n' 'a small deck' 'of two ranks' 'backend = host' 'size = check' 'steps = 3' 'tensor = 2' \
    'precision = fp32 bf16' '[llama3.1-8b]' >"$folder/good.dat"
sed '$i fault = drop all_gather 3 1' "$folder/good.dat" >"$folder/bad.dat"
reframe() { # DECK
    (cd "$folder" && TMPDIR=$folder XGSW_TOP=$PWD/root/opt/xgsw/lib/xgsw OMP_NUM_THREADS=1 \
        "$folder/venv/bin/reframe" --nocolor -c root/opt/xgsw/lib/xgsw/run/packaging/reframe/xgsw.py -S deck="$PWD/$1" \
        -r) >"$folder/log" 2>&1
}
if python3 -m venv "$folder/venv" && "$python" -m pip install -q ReFrame-HPC clingo >"$folder/log" 2>&1; then
    reframe good.dat && [ "$(grep -cE 'case[12]-llama3.1-8b-(fp32|bf16): [0-9.]+ tokens/s' "$folder/log")" = 2 ] &&
        grep -q 'passed: 2 cases' "$folder/log"
    check $? "ReFrame runs a deck and reads two speeds" "$folder/log"
    ! reframe bad.dat && grep -q "Failing phase: sanity" "$folder/log"
    check $? "a deck that FAILED fails in ReFrame" "$folder/log"
else
    python=
    check 0 "ReFrame # SKIP python3 -m venv or pip install ReFrame-HPC clingo failed"
fi
if [ -n "${XGSW_SPACK:-}" ] && [ -n "$python" ]; then
    export SPACK_PYTHON=$python SPACK_USER_CONFIG_PATH=$folder/spack SPACK_USER_CACHE_PATH=$folder/spack
    mkdir "$folder/spack"
    echo "repos: [$PWD/run/packaging/spack]" >"$folder/spack/repos.yaml"
    for spec in 'xgsw~cuda' 'xgsw+cuda cuda_arch=90a'; do
        "$XGSW_SPACK/bin/spack" spec "$spec" >"$folder/log" 2>&1 && grep -q '  xgsw@main' "$folder/log"
        check $? "Spack resolves $spec" "$folder/log"
    done
    "$XGSW_SPACK/bin/spack" audit packages xgsw >"$folder/log" 2>&1 && grep -q 'PKG-DIRECTIVES: passed' "$folder/log"
    check $? "spack audit packages xgsw" "$folder/log"
else
    check 0 "Spack # SKIP XGSW_SPACK names no Spack, or there is no clingo"
fi
tap_done
