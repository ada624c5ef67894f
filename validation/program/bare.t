#!/usr/bin/env bash
# make check passes on a bare Debian 12 and on a bare Debian 13, as it does for who clones the tree there.
set -uo pipefail
echo 1..2
failed=0 number=0
for suite in bookworm trixie; do
    number=$((number + 1)) status=0
    said=$(TEST_SECONDS= validation/bare $suite 'make check' 2>&1) || status=$?
    case $status in
    0) echo "ok $number - make check on a bare $suite" ;;
    77) echo "ok $number # SKIP $(tail -1 <<<"$said")" ;;
    *)
        echo "not ok $number - make check on a bare $suite"
        grep -v '^ok' <<<"$said" | tail -60 | sed 's/^/# /'
        failed=1
        ;;
    esac
done
exit $failed
