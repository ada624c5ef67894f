#!/usr/bin/env bash
# Asks cuDNN whether its engines take the graphs of attention; skipped only by a build without it. Its compiler wants a
# driver to be there: without one, the toolkit's stand-in is enough.
set -euo pipefail
test=${BUILD:-build/mpicc}/units/cudnn_graphs
[ -x "$test" ] || { echo "1..0 # SKIP built without cuDNN"; exit 0; }
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=${CUDA_HOME:-$(dirname "$(dirname "$(realpath "$nvcc")")")}
driver=$(mktemp -d)
trap 'rm -rf "$driver"' EXIT
for file in "$cuda"/lib64/stubs/libcuda.so "$cuda"/lib/stubs/libcuda.so; do
    [ ! -e "$file" ] || ln -sf "$file" "$driver/libcuda.so.1"
done
ldconfig -p | grep -q 'libcuda\.so\.1' ||
    export LD_LIBRARY_PATH=$cuda/lib64:$cuda/lib:$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
"$test"
