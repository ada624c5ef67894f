#!/usr/bin/env bash
# The bundle, unpacked from its archive in a root that has only a shell, some tools, Python and the C library. There it
# runs on one node, and by run/launch on two that share only the bundle and a network (a script replaces ssh). Without
# its folder mpi it runs under the Open MPI of this machine. If CUDA's toolkit is installed, the bundle holds CUDA and
# the tests for GPUs. Prints TAP.
set -uo pipefail
skip() { echo "1..0 # SKIP $1"; exit 0; }
[ "$(id -u)" = 0 ] && unshare --mount --uts true 2>/dev/null ||
    skip "no right to change roots and names: run it as root"
case $(./xgsw --version) in
*'CUDA       not built'*)
    [ -n "${XGSW_TEST_LONG:-}" ] || skip "a build without CUDA: make check-long makes its bundle" ;;
esac
case $(./xgsw --version) in *'MPI        Open MPI'*) ;; *) skip "the bundle is Open MPI's, ./xgsw is not" ;; esac

. validation/tap.sh
folder=$(mktemp -d)
root=$folder/root bundle=$folder/bundle
python=$(/usr/bin/python3 -c 'import os; print(os.path.dirname(os.__file__))')
trap 'rm -rf "$folder"' EXIT
passed() { # LOG
    tail -n 1 "$1" | grep -q "^PASSED" && [ "$(grep -c '^XGSW_RESULT .*"ranks":2,' "$1")" = 1 ]
}

copy_with_libraries() { # PROGRAM...
    local program library
    for program in "$@"; do
        cp "$(realpath "$(command -v "$program")")" "$root/bin/$program"
        for library in $(ldd "$root/bin/$program" 2>/dev/null | grep -o '/[^ ]*'); do
            mkdir -p "$root${library%/*}"
            cp -L "$library" "$root$library"
        done
    done
}

make_root() {
    local libraries name
    mkdir -p "$root"/{bin,bundle,dev,etc,proc,sys,tmp,usr}
    ln -s ../bin "$root/usr/bin"
    copy_with_libraries bash awk basename cat cut date df dirname env grep head hostname id ldd mkdir mktemp mount \
        nproc printenv realpath rm sed sleep sort tail tee timeout tr unshare
    PATH=/usr/bin:$PATH copy_with_libraries python3
    mkdir -p "$root$python"
    ln -s bash "$root/bin/sh"
    libraries=$(ldd "$root/bin/bash" | grep -o '/[^ ]*libc\.so\.6')
    for name in libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libutil.so.1 libnss_files.so.2; do
        cp -L "${libraries%/*}/$name" "$root${libraries%/*}/"
    done
    echo root:x:0:0:root:/:/bin/bash >"$root/etc/passwd"
    echo 127.0.0.1 localhost >"$root/etc/hosts"
}

# What is mounted goes with the process.
in_root() { # COMMAND
    timeout 300 unshare --mount bash -c 'set -e
        mount --bind "$0" "$0"; cd "$0"; mount --bind "$3" ".$3"
        mount --rbind /dev dev; mount --rbind /sys sys; mount -t proc proc proc; mount --bind "$1" bundle
        exec chroot . /bin/bash -c "cd /tmp; export PATH=/bin OMP_NUM_THREADS=1; $2"' "$root" "$bundle" "$1" "$python"
}

# Builds for the GPUs of ./xgsw, so that no kernel is compiled again.
code() { grep -o "code=$1_[0-9a-z]*" "${BUILD:-build/mpicc}/kernel_flags" 2>/dev/null | sed 's/.*_//' | xargs; }
ptx=$(code compute)
env -u MAKEFLAGS -u MAKELEVEL make -s CUDA_ARCH="$(code sm)" CUDA_PTX="${ptx:-0}" BUNDLE="$folder/made/bundle" \
    bundle >"$folder/make.log" 2>&1
check $? "make bundle: $(tail -n 1 "$folder/make.log" | sed "s|$folder/made/||g")" "$folder/make.log"
bytes=$(stat -c %s "$folder/made/bundle.tar.xz")
[ "$bytes" -lt 30000000 ]
check $? "the archive is under 30 MB"
tar -C "$folder" -xJf "$folder/made/bundle.tar.xz" && rm -r "$folder/made"
make_root

in_root '/bundle/run/gpu-acceptance --list' >"$folder/list.log" 2>&1 && grep -q '^timed-fp8 ' "$folder/list.log" &&
    grep -q '^products ' "$folder/list.log"
check $? "the acceptance's list is printed, with FP8 in it" "$folder/list.log"
if [ -e "$bundle/units/tests" ]; then
    grep -q '^driver  *NVIDIA R[0-9]* or newer' "$bundle/VERSION"
    check $? "VERSION names the driver" "$bundle/VERSION"
    (cd "$bundle" && validation/suite cuda &&
        sed -n 's/^[a-z0-9-]* *[0-9]* check //p' validation/cuda/acceptance.list) |
        while read -r name _; do
            [ -x "$bundle/units/$name" ] || [ -x "$bundle/validation/$name" ] || echo "$name"
        done >"$folder/missing.log"
    [ ! -s "$folder/missing.log" ]
    check $? "it has every test for GPUs" "$folder/missing.log"
    in_root 'cd /bundle; unset CMOCKA_MESSAGE_OUTPUT; . ./environment
        units/operations_moves && units/operations_exact' >"$folder/units.log" 2>&1 &&
        [ "$(grep -o '[0-9]* test(s) run' "$folder/units.log" | sort -u | wc -l)" = 2 ]
    check $? "two tests, which are links to one program, pass" "$folder/units.log"
fi
printf '%s\n' 'a small deck' 'of two ranks' 'backend = host' 'size = check' 'steps = 3' 'tensor = 2' '[llama3.1-8b]' \
    >"$root/tmp/small.dat"
cp "$root/tmp/small.dat" "$folder/"

in_root '/bundle/xgsw-run -n 2 small.dat' >"$folder/one.log" 2>/dev/null && passed "$folder/one.log"
check $? "two ranks PASSED on one node without packages" "$folder/one.log"

# ssh HOST COMMAND: another name, another /dev/shm.
cat >"$root/tmp/agent" <<'END'
#!/bin/bash
exec unshare --uts --mount bash -c 'hostname "$0"; mount -t tmpfs none /dev/shm; exec bash -c "$1"' "$1" "${*:2}"
END
chmod +x "$root/tmp/agent"
printf '%s\n' 'node1 slots=1' 'node2 slots=1' >"$root/tmp/hosts"
in_root 'export HOSTFILE=hosts GPUS_PER_NODE=1 JOB_TOTAL_GPUS=2
    export ADDITIONAL_MPIRUN_PARAMS="--mca plm_rsh_agent /tmp/agent"
    /bundle/run/launch --start mpirun small.dat' >"$folder/two.log" 2>"$folder/two.errors"
check $? "run/launch starts two nodes by a host file" "$folder/two.errors"
passed "$folder/two.log"
check $? "two ranks PASSED on two nodes" "$folder/two.log"
validation/validate.py "$root"/tmp/results/*/small/2/*.h5 >"$folder/record.log" 2>&1 &&
    grep -q '2 ranks on 2 hosts: node1 node2$' "$folder/record.log"
check $? "the record names both" "$folder/record.log"

mv "$bundle/mpi" "$folder/mpi"
(cd "$folder" && OMP_NUM_THREADS=1 bundle/xgsw-run -n 2 small.dat) >"$folder/site.log" 2>/dev/null &&
    passed "$folder/site.log"
check $? "without its mpi folder it runs under this machine's Open MPI" "$folder/site.log"
tap_done
