# TAP of a script in bash, which sources this file from the top of the tree and calls tap_done at its end.
count=0 failed=0
check() { # STATUS DESCRIPTION [LOG]: of a failed one the end of the log is printed
    count=$((count + 1))
    [ "$1" = 0 ] && { echo "ok $count - $2"; return; }
    failed=1
    echo "not ok $count - $2"
    [ $# -lt 3 ] || tail -n 20 "$3" | cut -c1-200 | sed 's/^/#   /'
}
skip() { check 0 "$1 # SKIP $2"; } # DESCRIPTION REASON
tap_done() {
    echo "1..$count"
    exit $failed
}
