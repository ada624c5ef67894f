#!/usr/bin/env bash
# The default deck on four emulated devices, one step of each case after its check: all are PASSED.
set -uo pipefail
export OMP_NUM_THREADS=1
program=build/emulator/xgsw-emulator
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

[ -x $program ] || { echo "Bail out! no $program: make emulator"; exit 1; }
echo 1..2
sed 's/^warmup .*/warmup = 0/; s/^steps .*/steps = 1/; s/^size .*/size = small/
    s/^precision = fp32 bf16/&\nbackend = cuda\nrecord = none/' \
    inputs/gsw.dat >"$folder/gsw.dat"
said=$(run/local -q -n 4 -x $program "$folder/gsw.dat" --verbose 2>&1)
status=$?
passed=$(grep -c '^XGSW_RESULT.*"backend":"cuda".*"verdict":"PASSED"' <<<"$said")
ok=ok
[ $status = 0 ] && [ "$passed" = 10 ] &&
    grep -q '^PASSED.* 10 of 10 cases computed correctly' <<<"$said" || ok="not ok"
echo "$ok 1 - the default deck on emulated devices: 10 cases PASSED"
[ "$ok" = ok ] || sed 's/^/# /' <<<"$said"
grep '^Check\|^  engines\|^PASSED' <<<"$said" | sed 's/^/# /'
ok=ok
grep -q 'own kernels (FP32)' <<<"$said" && grep -q 'own kernels (mma.sync)' <<<"$said" || ok="not ok"
echo "$ok 2 - in FP32 and on tensor cores"
