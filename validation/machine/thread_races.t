#!/usr/bin/env bash
# What threads share is shared without a race: ThreadSanitizer looks on.
set -uo pipefail
build=build/thread count=0 failures=0
make -s CUDA=0 BUILD=$build OPTIMIZE='-g -O1 -fsanitize=thread -DBUILD_DEBUG=1' \
    $build/units/stall_threads $build/units/sampler >&2 || { echo "Bail out! it does not build"; exit 1; }

look_on() { # UNIT DESCRIPTION
    local said status
    said=$(TSAN_OPTIONS=exitcode=66 CMOCKA_MESSAGE_OUTPUT=TAP $build/units/$1 2>&1)
    status=$?
    count=$((count + 1))
    if [ $status = 0 ] && ! grep -q "WARNING: ThreadSanitizer" <<<"$said"; then
        echo "ok $count - $2"
    else
        failures=$((failures + 1))
        echo "not ok $count - $2 (status $status)"
        sed 's/^/# /' <<<"$said"
    fi
}
look_on stall_threads "what one thread says another reads whole"
look_on sampler "samples are read when the thread has taken them"
echo "1..$count"
[ $failures = 0 ]
