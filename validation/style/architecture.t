#!/usr/bin/env bash
# Plants one fault after another in a small tree and sees that architecture.sh names it, and that it praises a sound
# tree.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
limit() { sed -n "s/.*MOST_$1=\([0-9]*\).*/\1/p" "$here/architecture.sh"; }
modules=$(limit MODULES) lists=$(limit LONG_LISTS)
trap 'rm -rf "$tree"' EXIT
count=0 failures=0

verdict() { # STATUS DESCRIPTION
    count=$((count + 1))
    [ "$1" = 0 ] && { echo "ok $count - $2"; return; }
    failures=$((failures + 1))
    echo "not ok $count - $2"
    sed 's/^/#   /' <<<"$report"
}

skip() { # DESCRIPTION REASON
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

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

caught() { # CHECK OFFENDER: the report fails CHECK alone and names OFFENDER
    judge
    local status=$?
    [ $status = 1 ] && grep -q "^not ok [0-9]* - $1" <<<"$report" && [ "$(grep -c '^not ok' <<<"$report")" = 1 ] &&
        grep -qF "#   $2" <<<"$report"
    verdict $? "$1: $2"
    sound_tree
}

plant() { # CHECK FILE LINE...: the fault is the last line
    local check=$1 file=$2
    shift
    put "$@"
    caught "$check" "$file:$(wc -l <"$tree/$file")"
}

sound_tree
judge && ! grep -q '^not ok' <<<"$report"
verdict $? "a sound tree passes"
grep -q 'top level .* # SKIP' <<<"$report"
verdict $? "without git the top level is skipped aloud"

plant "includes go down" src/base/x.c '#include "bench/run/run_case.h"'
plant "includes go down" src/plan/x.c '#include "machine/world.h"'
plant "includes go down" src/machine/x.c '#include "plan/deck/deck.h"'
plant "includes go down" src/model/deep/x.h '  #  include "train/step.h"'
plant "includes go down" src/model/x.c '#include "step.h"'
plant "includes go down" src/model/x.c '#include "model/../train/step.h"'
plant "includes go down" src/model/x.c '#include <base/say.h>'
plant "includes go down" src/extra.c '#include "base/say.h"'
plant "includes go down" src/attic/x.c '#include "base/say.h"'
plant "backends" src/machine/host/x.c '#include "machine/cuda/cuda.h"'
plant "backends" src/machine/paper/x.c '#include "machine/host/host.h"'
plant "backends" src/machine/kind.c '#include "machine/host/host.h"'
plant "backends" src/train/x.c '#include "machine/cuda/cuda.h"'
plant "third-party" src/machine/queue/tally.c '#include <mpi.h>'
plant "third-party" src/bench/x.c '#include <mpi.h>'
plant "third-party" src/machine/x.c '#include <cuda.h>'
plant "third-party" src/machine/cuda/x.c '#include <nvtx3/nvToolsExt.h>'
plant "third-party" src/machine/host/x.c '#include <cublasLt.h>'
plant "third-party" src/bench/x.c '#include <nvml.h>'
plant "third-party" src/model/x.c '#include <dnnl.h>'
plant "third-party" src/bench/x.c '#include <hdf5.h>'
plant "third-party" src/machine/x.c '#include <omp.h>'
plant "third-party" src/train/x.c '#include <pthread.h>'
plant "no preprocessor" src/base/x.c '# ifdef DEBUG'
plant "no preprocessor" src/base/x.h '#if 1'
plant "no mutable" src/plan/x.c 'static int calls;'
plant "no mutable" src/train/x.c 'double total = 0;'
plant "no mutable" src/model/x.c 'int f(void) { return 1; }' 'static struct { int a; } state = {0};'
plant "no mutable" src/model/x.c 'static const char *names[] = {"a", "b"};'
plant "no mutable" src/bench/x.c 'static void (*handler)(int);'
plant "no mutable" src/parallel/x.c 'static _Thread_local int depth;'
plant "no mutable" src/main.c 'int main(void)' '{' '    static int calls = 0;'

put src/plan/deck/keys.h '#include "plan/deck/deck.h"'
plant "no circle of modules" src/plan/deck/deck.h '#include "plan/deck/keys.h"'
put src/plan/keys.h '#include "plan/deck/deck.h"'
plant "no circle of folders" src/plan/deck/x.c '#include "plan/keys.h"'
plant "no circle of calls" src/model/up.c 'void up(const walk *w)' '{' '    down(); }'
plant "no source includes" src/base/x.c '#include "base/say.c"'
plant "no source includes" validation/units/plan/deck.c '#include "deck_long.c"'
put run/wide "# $(printf '%118d' 0)"
touch "$tree/run/narrow.dat"
plant "no line over" run/wide "# $(printf '%119d' 0)"
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
plant "at most $lists functions" src/base/x.c '' \
    'static int six(int a, /* b, */ int b, int c, int d, int e, int f) { }'

echo 'int x(void);' >"$tree/src/base/bare.c"
caught "files open" src/base/bare.c:1
echo '/* No pragma. */' >"$tree/src/base/bare.h"
caught "files open" src/base/bare.h:1
for long in src/plan/long.c validation/units/plan/long.h validation/smoke/long.py run/long Makefile; do
    put "$long"
    yes '' | head -n 500 >>"$tree/$long"
    caught "no file over 500" "$long:501"
done
put validation/units/plan/forgotten.c
caught "every test" validation/units/plan/forgotten.c:1
put validation/emulator/tests/forgotten.cpp
caught "every test" validation/emulator/tests/forgotten.cpp:1
put validation/units/bench/deck.c
caught "every test" "validation/units/plan/deck.c:1: a second test deck"
touch "$tree/validation/smoke/forgotten.t"
caught "every test" validation/smoke/forgotten.t:1
echo ghost >>"$tree/validation/tests.list"
caught "every test" "tests.list:1: no test ghost"
echo 'deck 4 often' >>"$tree/validation/tests.list"
caught "every test" "validation/tests.list:5: often is not a number of ranks"

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
    git init -q "$tree" && touch "$tree/notes.txt" && git -C "$tree" add -A
    caught "top level" notes.txt:1
    git init -q "$tree" && rm "$tree/LICENSE" && git -C "$tree" add -A
    caught "top level" LICENSE:1
    git init -q "$tree" && touch "$tree/.hidden" "$tree/untracked" &&
        git -C "$tree" add .hidden src Makefile run inputs validation README.md LICENSE
    judge
    verdict $? "dot files and untracked files are no offence"
else
    skip "top level" "no git here"
fi

echo "1..$count"
[ $failures = 0 ]
