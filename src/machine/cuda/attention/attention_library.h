/* Attention by the library cuDNN. cudnn_absent.c answers where the build had none. */
#pragma once
#include "machine/cuda/device/call.h"

/* Could it compute such shapes, formats and strides? Backward its sums come in any order: other bits in each run. */
bool library_attention_takes(const cuda_call *c, bool backward);
/* Bytes, from shapes only. */
size_t library_attention_scratch(const cuda_call *c, bool backward);
/* Plans to come run on so many SMs, where an engine can be told; 0: on all. */
void library_attention_on(int sms);
/* A plan for such a call will be wanted. No GPU is touched. */
void library_attention_note(const cuda_call *c, bool backward);
/* Makes the plans; takes seconds. */
void library_attention_tune(void);
/* Queues it; false, and why: the library is not there, or none of its engines takes it. */
bool library_attention_run(const cuda_call *c, bool backward, const char **why);
/* "cuDNN 9.19.0 (loaded 9.19.0)", or why there is none. */
const char *library_attention_version(char *text, size_t length);
