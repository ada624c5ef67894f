#!/usr/bin/env bash
# Matrix products as on a processor that does not multiply BF16: oneDNN is told to use older instructions.
DNNL_MAX_CPU_ISA=AVX2 exec "${BUILD:-build/mpicc}/units/operations_matmul"
