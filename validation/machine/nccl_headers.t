#!/usr/bin/env bash
# The newest NCCL on PyPI: what this program uses of its header is where the installed header has it, and the program's
# transfers compile with it. NCCL_HEADER=FILE names a header instead. Prints TAP.
set -uo pipefail
skip() { echo "1..0 # SKIP $1"; exit 0; }
home=${CUDA_HOME:-/usr/local/cuda}
installed=$home/include/nccl.h
[ -f "$installed" ] || skip "no header of NCCL in $home"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -n "${NCCL_HEADER:-}" ]; then
    mkdir -p "$folder/nvidia/nccl/include" && cp "$NCCL_HEADER" "$folder/nvidia/nccl/include/nccl.h"
else
    timeout 300 python3 -m pip download -q --no-deps -d "$folder" nvidia-nccl-cu13 2>/dev/null &&
        (cd "$folder" && python3 -m zipfile -e ./*.whl .) || skip "pip cannot download nvidia-nccl-cu13"
fi
newest=$folder/nvidia/nccl/include/nccl.h
version=$(awk '/define NCCL_(MAJOR|MINOR|PATCH) / { printf "%s%s", dot, $3; dot = "." }' "$newest")

# Places and values that are compiled into the program.
cat >"$folder/used.c" <<'END'
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>
#define PLACE(field) printf("%s at %zu\n", #field, offsetof(ncclConfig_t, field));
#define VALUE(name) printf("%s is %lld\n", #name, (long long)name);
int main(void)
{
    ncclConfig_t made = NCCL_CONFIG_INITIALIZER;
    PLACE(size) PLACE(magic) PLACE(version) PLACE(blocking) PLACE(splitShare) PLACE(cgaClusterSize) PLACE(CTAPolicy)
    PLACE(maxCTAs) VALUE(made.magic) VALUE(sizeof(ncclUniqueId)) VALUE(NCCL_CTA_POLICY_ZERO)
    VALUE(NCCL_WIN_COLL_SYMMETRIC) VALUE(NCCL_SPLIT_NOCOLOR) VALUE(ncclInProgress) VALUE(ncclSum) VALUE(ncclMax)
    VALUE(ncclUint8) VALUE(ncclInt32) VALUE(ncclUint64) VALUE(ncclFloat32) VALUE(ncclFloat64) VALUE(ncclBfloat16)
    return 0;
}
END
used() { gcc -I"$1" -I"$home/include" -o "$folder/used" "$folder/used.c" && "$folder/used"; }
used "${installed%/*}" >"$folder/old" 2>&1 && used "${newest%/*}" >"$folder/new" 2>&1 &&
    said=$(diff "$folder/old" "$folder/new")
[ $? = 0 ] && echo "ok 1 - what is used of NCCL $version lies where the installed header has it" ||
    { echo "not ok 1 - NCCL $version differs"; sed 's/^/# /' <<<"${said:-$(cat "$folder/new")}"; }
said=$(for file in src/machine/cuda/transfers/*.c src/machine/cuda/device/libraries.c; do
    gcc -std=c11 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Wno-unused-parameter -Werror -DXGSW_SHARED="static inline" \
        -DXGSW_EXTERN=extern -DXGSW_NCCL=0 -DXGSW_CUBLASLT=0 -I"${newest%/*}" -Isrc -isystem "$home/include" \
        "$file" || exit
done 2>&1)
[ $? = 0 ] && echo "ok 2 - the program's transfers compile with it" ||
    { echo "not ok 2 - the program's transfers do not compile with it"; sed 's/^/# /' <<<"$said"; }
echo "1..2"
