#!/usr/bin/env bash
# What threads share is shared without a race: ThreadSanitizer looks on.
set -uo pipefail
build=build/thread
make -s CUDA=0 BUILD=$build OPTIMIZE='-g -O1 -fsanitize=thread -DBUILD_DEBUG=1' $build/units/stall_threads >&2 ||
    { echo "Bail out! it does not build"; exit 1; }
said=$(TSAN_OPTIONS=exitcode=66 CMOCKA_MESSAGE_OUTPUT=TAP $build/units/stall_threads 2>&1)
status=$?
if [ $status = 0 ] && ! grep -q "WARNING: ThreadSanitizer" <<<"$said"; then
    echo "ok 1 - what one thread says another reads whole"
else
    echo "not ok 1 - what one thread says another reads whole (status $status)"
    sed 's/^/# /' <<<"$said"
fi
echo "1..1"
