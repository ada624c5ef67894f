#!/usr/bin/env bash
# Fuzzers under sanitizers find nothing: 30,000 executions on the deck's parser, a tenth of them on decks three times as
# long (their sweeps take most of the time), and 3,000 on the reader of --replay's files; marked long, 300 times as
# many. Needs clang with its libFuzzer (Debian: clang, libclang-rt-dev).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
fuzzing=$(clang -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-$(uname -m).a
[ -e "$fuzzing" ] || { echo "1..0 # SKIP no clang with libFuzzer"; exit 0; }
echo 1..3
times=${XGSW_TEST_LONG:+300}
failures=0 count=0
times=${times:-1}
for run in "deck $((30000 * times)) 100" "deck $((3000 * times)) 300" "op_file $((3000 * times)) 8192"; do
    count=$((count + 1))
    # shellcheck disable=SC2086
    if said=$(validation/fuzz/fuzz.sh $run 2>&1); then echo "ok $count - $said"
    else
        failures=$((failures + 1))
        echo "not ok $count - $run"
        tail -20 <<<"$said" | sed 's/^/# /'
    fi
done
exit $((failures > 0))
