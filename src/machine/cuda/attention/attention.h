/* Attention: which engine computes it, cuDNN or own kernels. The launchers are in kernels.h. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"
#include "machine/machine.h"

/* A machine opens: its settings hold until the next does. */
void cuda_attention_open(const machine_options *options);
/* A measuring machine met the operation: what the library will need to know. Needs no device. */
void cuda_attention_prepare(const op *o);
/* Makes the library's plans; takes seconds. */
void cuda_attention_tune(void);
/* What computed attention since a machine that runs was opened, in words, for the report. */
const char *cuda_attention_engine(char *text, size_t length);
