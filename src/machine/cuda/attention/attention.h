/* attention/: which engine computes it, cuDNN or own kernels. The launchers are in kernels.h. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"
#include "machine/op/op.h"
#include "machine/queue/kind.h"

/* Under which settings scratch is asked for and operations run, until others are given. Needs no device. */
void cuda_attention_settings(const machine_tuning *t);
/* A machine opens: what computes attention is noted anew. */
void cuda_attention_open(const machine_tuning *t);
/* The operation will be run: what the library's plans will need to know. */
void cuda_attention_prepare(const op *o);
/* Makes the library's plans; takes seconds. */
void cuda_attention_tune(void);
/* While it rehearses, the library's engine and the own one both compute, so that both are loaded. */
void cuda_attention_rehearse(bool yes);
/* If the library failed on any rank, own kernels compute on all from here on. Collective over the world. */
void cuda_attention_agree(void);
/* What computed attention since a machine was opened, in words, for the report. */
const char *cuda_attention_engine(char *text, size_t length);
