#!/usr/bin/env bash
# Fuzzers under sanitizers find nothing: 10^7 executions on the deck's parser, a tenth of them on decks three times as
# long (their sweeps take most of the time), and 10^6 on the reader of --replay's files.
# Needs clang with its libFuzzer (Debian: clang, libclang-rt-dev).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
echo 1..3
failures=0 count=0
for run in "deck 9000000 100" "deck 1000000 300" "op_file 1000000 8192"; do
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
