/* What the host asks of oneDNN. onednn.c answers, with one file per major version of its interface. */
#pragma once
#include "machine/op.h"

/* x: c[m, n], a[m, k], b[k, n]; c = a b (WRITE) or c += a b (UPDATE), accumulated in FP32 and rounded once. Rows of c
 * are contiguous; of a and b, rows or columns. a and b are both F32, or both BF16 if onednn_multiplies_bf16; c is F32
 * or like a. */
void onednn_multiply(const tensor x[3], access_mode how, void *scratch);
/* Bytes of scratch that onednn_multiply needs; builds what it runs. */
size_t onednn_scratch(const tensor x[3], access_mode how);

/* Does this processor multiply BF16 by itself? Where it does not, oneDNN refuses, or is slower than in FP32. */
bool onednn_multiplies_bf16(void);
/* "oneDNN 2.6.3 (avx512_core_bf16)" as loaded. */
const char *onednn_library(char *text, size_t length);
