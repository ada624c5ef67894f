#!/usr/bin/env bash
# Plants faults in a small tree, those of one check at a time, and sees that architecture.sh names each and nothing
# else, and that it praises a sound tree.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
limit() { sed -n "s/.*MOST_$1=\([0-9]*\).*/\1/p" "$here/architecture.sh"; }
modules=$(limit MODULES) lists=$(limit LONG_LISTS)
trap 'rm -rf "$tree"' EXIT
. "$here/../tap.sh"

verdict() { check "$1" "$2" <(echo "$report"); } # STATUS DESCRIPTION

put() { # FILE LINE...: writes a source that is sound but for these lines
    local file=$tree/$1 line
    shift
    mkdir -p "$(dirname "$file")"
    { echo "/* Opens with a comment. */"
      case $file in *.h) echo "#pragma once" ;; esac
      for line in "$@"; do echo "$line"; done
    } >"$file"
}

sound_tree() {
    rm -rf "$tree"
    put src/main.c '#include <stdio.h>' '#include "bench/run/run_case.h"' '#include "base/say.h"' \
        'int main(void) { return 0; }'
    put src/base/say.h 'void say(const char *, ...);'
    put src/base/say.c '#include "base/say.h"' 'static int calls; /* base may remember */'
    put src/plan/deck/deck.h '#include "base/say.h"' 'extern const char *const deck_names[];'
    put src/plan/deck/deck.c '#include "plan/deck/deck.h"' 'typedef struct { int rows; } table;' \
        'const char *const deck_names[] = {"a;", "b{", 0};' 'static const struct { int key; } rows[] = {{1}, {2}};' \
        'static int (*const first)(int) = 0;' 'struct forward;' 'enum { COUNT = 3 };' \
        'void each(int (*visit)(int), table *t);' \
        'static inline int twice(int x)' '{' '    static const char quote = '"'\"'"';' \
        '    return 2 * x; /* int lost; */' '}'
    put src/machine/world.c '#include <mpi.h>' 'static int rank;'
    put src/machine/queue/backend.h
    put src/machine/kind.c '#include "machine/queue/backend.h"' '#include <pthread.h>'
    put src/machine/host/host.h
    put src/machine/host/fabric.c '#include <mpi.h>' '#include <omp.h>'
    put src/machine/host/onednn_v2.c '#include "machine/host/host.h"' '#include <oneapi/dnnl/dnnl.h>'
    put src/machine/cuda/cuda.h '#include <cuda_runtime.h>' '#include <nccl.h>' '#include <nvml.h>'
    put src/machine/world.h 'int f(int a, int b, int c, int d, int e);'
    put src/parallel/mesh.c '#include "plan/deck/deck.h"' '#include "machine/world.h"'
    put src/model/up.c 'static void aside(void) {}' 'void up(const walk *w) { w->down(), aside(); }'
    put src/model/down.c 'void aside(void) {}' 'const walk steps = {down};' 'void down(void) { up(&steps); }'
    put src/train/checkpoint/save.c '#include <hdf5.h>'
    put src/bench/run/run_case.h '#include "train/step.h"'
    put src/bench/record/file.c '#include <hdf5.h>'
    put validation/units/plan/deck.c
    mkdir -p "$tree/validation/smoke" "$tree/run" "$tree/inputs"
    touch "$tree/validation/smoke/hello.t" "$tree/run/local" "$tree/inputs/gsw.dat"
    touch "$tree/README.md" "$tree/LICENSE" "$tree/Makefile"
    chmod +x "$tree/validation/smoke/hello.t"
    printf '# fast first\ndeck\ndeck 2 4 emulator\nsmoke/hello.t long\n' >"$tree/validation/tests.list"
}

judge() { report=$(ARCHITECTURE_ROOT=$tree "$here/architecture.sh" 2>&1); }

planted=()
plant() { # FILE LINE...: the fault is the last line; a file x gets a number, so that faults can lie in one tree
    local file=${1/\/x./\/x${#planted[@]}.}
    put "$file" "${@:2}"
    planted+=("$file:$(wc -l <"$tree/$file")")
}

caught() { # CHECK [OFFENDER...]: the report fails CHECK alone, and names what was planted, the OFFENDERs and no other
    local check=$1 status offender
    judge
    status=$?
    planted+=("${@:2}")
    [[ $status = 1 && $(grep '^not ok' <<<"$report") = "not ok "*" - $check"* ]] &&
        [ "$(grep -c '^not ok' <<<"$report")" = 1 ] &&
        [ "$(grep -c '^#   ' <<<"$report")" = "${offenders:-${#planted[@]}}" ] || status=2
    for offender in "${planted[@]}"; do
        grep -qF "#   $offender" <<<"$report" || status=3
    done
    [ $status = 1 ]
    verdict $? "$check: ${planted[*]}"
    planted=()
    sound_tree
}

sound_tree
judge && ! grep -q '^not ok' <<<"$report"
verdict $? "a sound tree passes"
grep -q 'top level .* # SKIP' <<<"$report"
verdict $? "without git the top level is skipped aloud"

plant src/base/x.c '#include "bench/run/run_case.h"'
plant src/plan/x.c '#include "machine/world.h"'
plant src/machine/x.c '#include "plan/deck/deck.h"'
plant src/model/deep/x.h '  #  include "train/step.h"'
plant src/model/x.c '#include "step.h"'
plant src/model/x.c '#include "model/../train/step.h"'
plant src/model/x.c '#include <base/say.h>'
plant src/extra.c '#include "base/say.h"'
plant src/attic/x.c '#include "base/say.h"'
caught "includes go down"
plant src/machine/host/x.c '#include "machine/cuda/cuda.h"'
plant src/machine/paper/x.c '#include "machine/host/host.h"'
plant src/machine/kind.c '#include "machine/host/host.h"'
plant src/train/x.c '#include "machine/cuda/cuda.h"'
caught "backends"
plant src/machine/queue/tally.c '#include <mpi.h>'
plant src/bench/x.c '#include <mpi.h>'
plant src/machine/x.c '#include <cuda.h>'
plant src/machine/cuda/x.c '#include <nvtx3/nvToolsExt.h>'
plant src/machine/host/x.c '#include <cublasLt.h>'
plant src/bench/x.c '#include <nvml.h>'
plant src/model/x.c '#include <dnnl.h>'
plant src/bench/x.c '#include <hdf5.h>'
plant src/machine/x.c '#include <omp.h>'
plant src/train/x.c '#include <pthread.h>'
caught "third-party"
plant src/base/x.c '# ifdef DEBUG'
plant src/base/x.h '#if 1'
caught "no preprocessor"
plant src/plan/x.c 'static int calls;'
plant src/train/x.c 'double total = 0;'
plant src/model/x.c 'int f(void) { return 1; }' 'static struct { int a; } state = {0};'
plant src/model/x.c 'static const char *names[] = {"a", "b"};'
plant src/bench/x.c 'static void (*handler)(int);'
plant src/parallel/x.c 'static _Thread_local int depth;'
plant src/main.c 'int main(void)' '{' '    static int calls = 0;'
caught "no mutable"

put src/plan/deck/keys.h '#include "plan/deck/deck.h"'
plant src/plan/deck/deck.h '#include "plan/deck/keys.h"'
caught "no circle of modules" src/plan/deck/keys.h:3
put src/plan/keys.h '#include "plan/deck/deck.h"'
plant src/plan/deck/x.c '#include "plan/keys.h"'
caught "no circle of folders" src/plan/keys.h:3
plant src/model/up.c 'void up(const walk *w)' '{' '    down(); }'
caught "no circle of calls" src/model/down.c:4
plant src/base/x.c '#include "base/say.c"'
plant validation/units/plan/deck.c '#include "deck_long.c"'
caught "no source includes"
put run/wide "# $(printf '%118d' 0)"
touch "$tree/run/narrow.dat"
plant run/wide "# $(printf '%119d' 0)"
caught "no line over"
for i in $(seq "$modules"); do put "src/train/part_$i.c"; done
put src/train/part_2/part_2.c
put src/train/part_last.h
caught "no folder" "src/train:1: $((modules + 1)) modules"
put src/base/x.h 'int f(int a, int b, int c,' '    int d, int e, int (*f)(int, int))' '{' '}'
for i in $(seq $((lists - 1))); do
    echo "void f$i(int a, int b, int c, int d, int e, int f) {}" >>"$tree/src/base/x.h"
done
put src/base/x.c 'int five(int a, int b, int c, int d, int (*e)(int, int)) {}'
judge && grep -q "^# functions .*: $lists, of them in machine/cuda 0" <<<"$report"
verdict $? "parameters are counted"
plant src/base/x.c '' \
    'static int six(int a, /* b, */ int b, int c, int d, int e, int f) { }'
offenders=$((lists + 1)) caught "at most $lists functions"

echo 'int x(void);' >"$tree/src/base/bare.c"
echo '/* No pragma. */' >"$tree/src/base/bare.h"
caught "files open" src/base/bare.{c,h}:1
for long in src/plan/long.c validation/units/plan/long.h validation/smoke/long.py run/long Makefile; do
    put "$long"
    yes '' | head -n 500 >>"$tree/$long"
    planted+=("$long:501")
done
caught "no file over 500"
put validation/units/plan/forgotten.c
put validation/emulator/tests/lost.cpp
put validation/units/bench/deck.c
touch "$tree/validation/smoke/forgotten.t"
echo ghost >>"$tree/validation/tests.list"
caught "every test" validation/{units/plan/forgotten.c,emulator/tests/lost.cpp,smoke/forgotten.t}:1 \
    "validation/units/plan/deck.c:1: a second test deck" "tests.list:1: no test ghost"
echo 'deck 4 often' >>"$tree/validation/tests.list"
offenders=6 caught "every test" "validation/tests.list:5: often is not a number of ranks"

if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
    printf '%s\n' 'BasedOnStyle: LLVM' 'IndentWidth: 4' >"$tree/.clang-format"
    find "$tree" -name '*.[ch]' -exec clang-format -i {} +
    judge && ! grep -q 'format.*SKIP' <<<"$report"
    verdict $? "a tree that is laid out passes"
    echo 'int  x;' >>"$tree/src/machine/world.c"
    caught "make format changes" "src/machine/world.c:$(wc -l <"$tree/src/machine/world.c")"
else
    skip "make format changes nothing" "no clang-format 14 here"
fi

if command -v git >/dev/null; then
    git init -q "$tree" && touch "$tree/notes.txt" && rm "$tree/LICENSE" && git -C "$tree" add -A
    caught "top level" notes.txt:1 LICENSE:1
    git init -q "$tree" && touch "$tree/.hidden" "$tree/untracked" &&
        git -C "$tree" add .hidden src Makefile run inputs validation README.md LICENSE
    judge
    verdict $? "dot files and untracked files are no offence"
else
    skip "top level" "no git here"
fi

tap_done
