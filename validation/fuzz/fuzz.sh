#!/usr/bin/env bash
# Builds a fuzzer with clang's libFuzzer under sanitizers and runs it:
#   validation/fuzz/fuzz.sh deck|op_file EXECUTIONS [LONGEST]   (libFuzzer's own lines go to stderr)
# Status 0 and one line if nothing was found; what was found lies in build/fuzz/.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=$1 executions=$2 longest=${3:-300}
here=build/fuzz
rm -rf "${here:?}/$name"
mkdir -p $here/$name
base="$(find src/base -name '*.c' ! -name 'kernel_call_*') src/base/kernel_call_other.c"
case $name in
deck) sources="$(find src/plan -name '*.c') $base" ;;
op_file) sources="$(echo src/machine/{op_file,op_rules,shadow_limits,tensor,watch/state}.c) $base" ;;
esac
clang -std=c11 -D_GNU_SOURCE -O2 -g1 -fsanitize=fuzzer,address,undefined,float-cast-overflow -fno-sanitize-recover=all \
    -DXGSW_SHARED="static inline" -DXGSW_EXTERN=extern -DBUILD_DEBUG=1 -Isrc -Ivalidation \
    validation/fuzz/$name.c $sources -lm -o $here/fuzz_$name
[ $name != deck ] || for deck in inputs/*.dat inputs/reference/*.dat validation/decks/bad/*.dat; do
    [ "$(stat -c %s "$deck")" -ge "$longest" ] || { printf '\002'; cat "$deck"; } >"$here/$name/$(basename "$deck")"
done
FUZZ_SEEDS=$here/$name $here/fuzz_$name -runs="$executions" -max_len="$longest" -seed=1 -timeout=60 -rss_limit_mb=4096 \
    -artifact_prefix=$here/ -verbosity=0 -print_final_stats=1 $here/$name >"$here/$name.said" 2>&1 ||
    { tail -40 "$here/$name.said" >&2; exit 1; }
done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$here/$name.said")
echo "$name: ${done:-0} executions of at most $longest bytes, 0 findings"
[ "${done:-0}" -ge "$executions" ]
