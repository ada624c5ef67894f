#!/usr/bin/env bash
# Runs a fuzzer, which make builds with clang's libFuzzer and sanitizers:
#   validation/fuzz/fuzz.sh deck|op_file EXECUTIONS [LONGEST]   (libFuzzer's own lines go to stderr)
# Status 0 and one line if nothing was found; what was found lies in build/fuzz/.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=$1 executions=$2 longest=${3:-300}
here=build/fuzz
rm -rf "${here:?}/$name"
mkdir -p $here/$name
make -s "$here/fuzz_$name"
[ $name != deck ] || for deck in inputs/*.dat inputs/reference/*.dat; do
    [ "$(stat -c %s "$deck")" -ge "$longest" ] || { printf '\002'; cat "$deck"; } >"$here/$name/$(basename "$deck")"
done
# The first lines of the refused decks, but for those with a repetition; the table says how they are written.
titles='title\ntitle\n'
[ $name != deck ] || sed -n '/^[# ]\|{/!s/ |//p' validation/decks/refused.list | while read -r row deck; do
    deck=${deck/#@/"$titles[llama3.1-8b]\\n"}
    printf '\002%b' "${deck/#\$/"$titles"}" >"$here/$name/$row"
done
FUZZ_SEEDS=$here/$name $here/fuzz_$name -runs="$executions" -max_len="$longest" -seed=1 -timeout=60 -rss_limit_mb=4096 \
    -artifact_prefix=$here/ -verbosity=0 -print_final_stats=1 $here/$name >"$here/$name.said" 2>&1 ||
    { tail -40 "$here/$name.said" >&2; exit 1; }
done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$here/$name.said")
echo "$name: ${done:-0} executions of at most $longest bytes, 0 findings"
[ "${done:-0}" -ge "$executions" ]
