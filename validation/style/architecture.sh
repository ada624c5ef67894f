#!/usr/bin/env bash
# Checks the architecture that src/README.md describes: floors, doors, no circles, no conditionals, no hidden state;
# and the style: short files, lines and folders, few parameters, the layout of .clang-format.
# Needs no build. Prints TAP and every offender as FILE:LINE, and exits 1 if there is one.
# ARCHITECTURE_ROOT names another tree to check; architecture.t uses it to plant faults.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${ARCHITECTURE_ROOT:-$here/../..}" || exit 1

# Limits of a file, a line, a folder (FILE.c and FILE.h together are one module), and of src/ (the present number of
# functions with more than five parameters, which may only be lowered).
MOST_LINES=500 MOST_COLUMNS=120 MOST_MODULES=12 MOST_LONG_LISTS=42
# Folders with more modules, which may only be lowered. cuda/kernels has a file for each kernel, as nvcc compiles them.
MORE_MODULES="src/machine/cuda/kernels=28 src/model=25 src/base=19"
LAYOUT=14 # the major version of clang-format that laid the tree out: another lays it out otherwise

count=0 failures=0

# check DESCRIPTION COMMAND...: what the command prints are the offenders.
check() {
    local description=$1 offenders
    shift
    count=$((count + 1))
    offenders=$("$@")
    if [ -z "$offenders" ]; then
        echo "ok $count - $description"
    else
        failures=$((failures + 1))
        echo "not ok $count - $description"
        sed 's/^/#   /' <<<"$offenders"
    fi
}

skip() { # DESCRIPTION REASON
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

sources() { find src -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | LC_ALL=C sort; }
# Every include as "FILE:LINE TARGET", the target with its quote or bracket: "floor/file.h or <mpi.h
includes() {
    sources | xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*include' |
        sed -E 's/^([^:]*:[0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*(["<][^">]*).*/\1 \2/'
}

# Floors: includes go down or stay; plan and machine share a height but are two floors.
includes_down() {
    includes | awk '
        BEGIN {
            split("base 0 plan 1 machine 1 parallel 2 model 3 train 4 bench 5", word, " ")
            for (i = 1; i in word; i += 2) height[word[i]] = word[i + 1]
        }
        {
            split($1, place, ":"); parts = split(place[1], path, "/"); from = parts > 2 ? path[2] : "roof"
            target = substr($2, 2); split(target, to, "/")
            if ($2 ~ /^"/ && (!(to[1] in height) || target ~ /\.\./))
                print $1 ": write \"floor/file.h\", not \"" target "\""
            else if ($2 ~ /^</ && target ~ /\// && to[1] in height)
                print $1 ": write \"" target "\" in quotes"
            else if ($2 ~ /^"/ && from == "roof" && place[1] != "src/main.c")
                print $1 ": only main.c lies on the roof"
            else if ($2 ~ /^"/ && from != "roof" && !(from in height))
                print $1 ": src/" from " is not a floor"
            else if ($2 ~ /^"/ && from != "roof" && from != to[1] && height[to[1]] >= height[from])
                print $1 ": " from " may not include " target
        }'
}

# Backends know nothing of each other, and nobody else knows what is in them: queue/backend.h is all there is to see.
backends_apart() {
    includes | awk '
        function backend(path,   part) {
            split(path, part, "/")
            return part[1] == "machine" && part[2] ~ /^(host|cuda|paper)$/ ? part[2] : ""
        }
        $2 ~ /^"/ {
            split($1, place, ":"); target = substr($2, 2)
            from = backend(substr(place[1], 5)); to = backend(target)
            if (to != "" && to != from) print $1 ": may not include " target
        }'
}

# door HEADERS FILES: system headers that match the first pattern are included only in files that match the second.
door() {
    includes | awk -v headers="^($1)" -v files="^src/($2)" '
        { target = substr($2, 2) }
        target ~ /^(base|plan|machine|parallel|model|train|bench)\// { next }
        target ~ headers && $1 !~ files { print $1 ": may not include " target }'
}
doors() {
    door 'mpi\.h' 'machine/world\.c:|machine/host/fabric\.c:'
    door 'nvtx3/' 'machine/ranges/nvtx\.c:'
    door 'cuda|cublas|cudnn|curand|cusolver|nccl|nv[^t]|thrust/|cub/|cutlass|cooperative_groups' 'machine/cuda/'
    door '(oneapi/dnnl/)?dnnl' 'machine/host/'
    door 'hdf5|H5' 'bench/record/|train/checkpoint/'
    door 'omp\.h' 'machine/host/'
    door 'pthread\.h|threads\.h' 'machine/'
}

conditionals() { sources | xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef|elif|else|endif)\b'; }

calls() { sources | xargs -r awk -f "$here/reader.awk" -f "$here/calls.awk"; }
circles() { "$1" | awk -v of="$2" -f "$here/circles.awk" | LC_ALL=C sort; }

# All that is written by hand and no text or data: C, CUDA, C++, scripts, the Makefile.
written() {
    { sources
      find validation -type f ! -path '*/__pycache__/*' \( -name '*.[cht]' -o -name '*.cpp' -o -name '*.cu*' \
          -o -name '*.py' -o -name '*.sh' -o -name '*.awk' -o -name '*.mk' -o -name '*.list' -o -perm -u+x \) \
          2>/dev/null
      find run Makefile -type f ! -path '*/__pycache__/*' 2>/dev/null
    } | LC_ALL=C sort -u
}
long_files() {
    written | xargs -r awk -v most=$MOST_LINES '
        FNR == most + 1 { print FILENAME ":" FNR ": longer than " most " lines" }'
}
long_lines() {
    written | LC_ALL=C.UTF-8 xargs -r grep -nHE "^.{$((MOST_COLUMNS + 1))}" |
        sed -E "s/^([^:]*:[0-9]+):.*/\1: longer than $MOST_COLUMNS columns/"
}

full_folders() {
    sources | sed -E 's/\.[a-z]+$//' | sort -u | sed 's|/[^/]*$||' | sort | uniq -c |
        awk -v most=$MOST_MODULES -v more="$MORE_MODULES" '
            BEGIN { for (i = split(more, row, " "); i > 0; i--) { split(row[i], at, "="); limit[at[1]] = at[2] } }
            $1 > ($2 in limit ? limit[$2] : most) { print $2 ":1: " $1 " modules" }'
}

long_parameter_lists() { sources | xargs -r awk -v most=5 -f "$here/reader.awk" -f "$here/parameters.awk"; }
too_many_parameters() { [ "$(grep -c . <<<"$1")" -le $MOST_LONG_LISTS ] || echo "$1"; }

laid_out_otherwise() {
    { sources; find validation -type f \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cuh' \) 2>/dev/null; } |
        xargs -r clang-format --dry-run 2>&1 | grep -E '^[^ ]*:[0-9]+:[0-9]+: ' |
        sed -E 's/:[0-9]+: .*/: not as make format lays it out/' | sort -u
}

source_includes() { # a .c is compiled, never included
    { sources; find validation -name '*.[ch]' -o -name '*.cpp' 2>/dev/null; } |
        xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*include.*\.(c|cu|cpp)[">]'
}

# Above machine/ nothing is remembered between calls except in structs that are passed.
mutable_state() {
    sources | grep -E '^src/(plan|parallel|model|train|bench)/|^src/main\.c' |
        xargs -r awk -f "$here/reader.awk" -f "$here/mutable_state.awk"
}

openings() {
    sources | xargs -r awk '
        function close_file() { if (header && !once) print name ":1: no #pragma once" }
        FNR == 1 { close_file(); name = FILENAME; header = name ~ /h$/; once = 0 }
        FNR == 1 && !/^(\/\*|\/\/)/ { print name ":1: does not open with a comment" }
        /^#pragma once/ { once = 1 }
        END { close_file() }'
}

# A test that is not in the list never runs, unless a script runs it; a name without a test never passes; tests are
# found by their names.
listed_tests() {
    local names file name units scripts
    units=$(find validation/units validation/emulator/tests -name '*.c' -o -name '*.cpp' 2>/dev/null | LC_ALL=C sort)
    scripts=$(find validation -name '*.t' | LC_ALL=C sort)
    names=$("$here/../suite" all 2>&1) || { echo "$names"; return; }
    names=$(awk '{ print $1 }' <<<"$names" | sort -u)
    for file in $scripts; do
        grep -qxF "${file#validation/}" <<<"$names" || echo "$file:1: not in tests.list"
    done
    for file in $units; do
        name=$(basename "${file%.c*}")
        grep -qxF "$name" <<<"$names" || grep -qs "/units/$name\b" $scripts /dev/null ||
            echo "$file:1: not in tests.list"
    done
    awk -F/ '{ name = $NF; sub(/\.c(pp)?$/, "", name) } seen[name]++ { print $0 ":1: a second test " name }' <<<"$units"
    for name in $names; do
        [ -e "validation/$name" ] || grep -q "/$name\.c" <<<"$units" || echo "tests.list:1: no test $name"
    done
}

top_level() {
    local expected="LICENSE Makefile README.md inputs run src validation" name
    for name in $tracked; do
        case " $expected " in *" $name "*) ;; *) echo "$name:1: does not belong at the top level" ;; esac
    done
    for name in $expected; do
        case " $tracked " in *" $name "*) ;; *) echo "$name:1: not at the top level" ;; esac
    done
}

check "includes go down" includes_down
check "backends are known by machine/queue/backend.h only" backends_apart
check "third-party headers stay behind their doors" doors
check "no preprocessor conditional in src" conditionals
check "no circle of modules" circles includes module
check "no circle of folders" circles includes folder
check "no circle of calls" circles calls module
check "no source includes another" source_includes
check "no file over $MOST_LINES lines" long_files
check "no line over $MOST_COLUMNS columns" long_lines
check "no folder of src with more than $MOST_MODULES modules" full_folders
lists=$(long_parameter_lists)
echo "# functions of src with more than five parameters: $(grep -c . <<<"$lists")," \
    "of them in machine/cuda $(grep -c ^src/machine/cuda <<<"$lists")"
check "at most $MOST_LONG_LISTS functions of src with more than five parameters" too_many_parameters "$lists"
layout=$(clang-format --version 2>/dev/null | sed -nE 's/.*version ([0-9]+).*/\1/p')
if [ ! -f .clang-format ]; then
    skip "make format changes nothing" "no .clang-format here"
elif [ "$layout" != $LAYOUT ]; then
    skip "make format changes nothing" "clang-format ${layout:-none} here, and the tree is laid out by $LAYOUT"
else
    check "make format changes nothing" laid_out_otherwise
fi
check "no mutable state at file scope above machine" mutable_state
check "files open with a comment, headers with pragma once" openings
check "every test is in the list" listed_tests
if tracked=$([ -e .git ] && git ls-files 2>/dev/null) && [ -n "$tracked" ]; then
    tracked=$(cut -d/ -f1 <<<"$tracked" | grep -v '^\.' | sort -u | xargs)
    check "top level holds what it should" top_level
else
    skip "top level holds what it should" "not a git checkout"
fi
echo "1..$count"
[ $failures = 0 ]
