#!/usr/bin/env bash
# Kernels on a GPU whose thread blocks have 99 KiB of shared memory, as those of compute capability 8.6, 8.9 and 12.0.
set -euo pipefail
export XGSW_TEST_MACHINE=cuda XGSW_BACKEND=cuda CMOCKA_MESSAGE_OUTPUT=TAP EMULATOR_SHARED_KIB=99
status=0
said=$( (build/emulator/units/operations && XGSW_TEST_SMALL_BLOCKS=1 build/emulator/units/operations_attention) 2>&1) ||
    status=$?
[ $status = 0 ] || { sed 's/^/# /' <<<"$said" | tail -20; printf 'not '; }
echo "ok 1 - norms of all lengths, and heads of at most 192 (FP32: 128), are computed"
status=0
said=$(build/emulator/units/operations_attention 2>&1) || status=$?
refusal='attention_.* needs 1[0-9]* bytes of shared memory for a thread block; GPU 0, .* has 101376'
[ $status = 1 ] && grep -q "$refusal" <<<"$said" || { sed 's/^/# /' <<<"$said" | tail -20; printf 'not '; }
echo "ok 2 - larger heads are refused: kernel, bytes needed and bytes there"
echo "1..2"
