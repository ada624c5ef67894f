/* attention/: attention by cuDNN or by xgsw's own kernels, and the choice. The launchers are declared in kernels.h. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"
#include "machine/op/op.h"
#include "machine/queue/kind.h"

/* Sets the settings on which scratch and engines depend. Needs no device. */
void cuda_attention_settings(const machine_tuning *t);
/* Does the same for a new machine, and forgets which engines ran or failed. */
void cuda_attention_open(const machine_tuning *t);
/* Notes an operation that will run, for the library's plans. */
void cuda_attention_prepare(const op *o);
/* Makes the library's plans. Takes seconds. */
void cuda_attention_tune(void);
/* Starts or ends the rehearsal, in which cuDNN and xgsw's kernels both run, so that both are loaded. */
void cuda_attention_rehearse(bool yes);
/* Makes all ranks use xgsw's kernels from now on if cuDNN failed on one of them. Collective over the world. */
void cuda_attention_agree(void);
/* Writes which engines computed attention since a machine was opened, for the report. Returns text. */
const char *cuda_attention_engine(char *text, size_t length);
