#!/usr/bin/env bash
# Compiles every C file of the program for aarch64 (Grace), with and without the CUDA machine where nvcc is here, by a
# cross compiler of Debian. Headers of MPI, HDF5, oneDNN, CUDA and NVTX are this machine's. Nothing is linked or run.
set -euo pipefail

compiler=aarch64-linux-gnu-gcc packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
command -v $compiler >/dev/null || [ "$(id -u)" != 0 ] ||
    timeout 300 apt-get install -y --no-install-recommends $packages >/dev/null 2>&1 || true
if ! command -v $compiler >/dev/null; then
    echo "1..0 # SKIP no $compiler: apt-get install $packages"
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/include"
for header in /usr/include/dnnl* /usr/include/oneapi /usr/include/nvtx3 /usr/local/include/nvtx3; do
    [ ! -e "$header" ] || ln -s "$header" "$folder/include"
done

count=0
compile() { # NAME MAKE_VARIABLE...
    local name=$1 said result=ok
    said=$(env -u MAKEFLAGS -u MAKELEVEL OMPI_CC=$compiler MPICH_CC=$compiler make -j2 BUILD="$folder/$name" \
        MARCH=armv8-a WERROR=1 ONEDNN_DIR="$folder" "${@:2}" objects 2>&1) || result="not ok"
    [ "$result" = ok ] || sed 's/^/# /' <<<"$(tail -n 20 <<<"$said")"
    count=$((count + 1))
    echo "$result $count - $name: $(find "$folder/$name" -name '*.o' | wc -l) files for aarch64, without a warning"
}

compile host CUDA=0
[ ! -x "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)" ] || compile cuda CUDA=1
echo "1..$count"
