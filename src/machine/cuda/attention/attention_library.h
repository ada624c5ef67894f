/* Attention by cuDNN. cudnn_absent.c replaces it in a build without cuDNN. */
#pragma once
#include "machine/cuda/device/call.h"

/* Returns whether cuDNN could compute these shapes, formats and strides. Its backward is not deterministic. */
bool library_attention_takes(const cuda_call *c, bool backward);
/* Returns the bytes of scratch, from shapes alone. */
size_t library_attention_scratch(const cuda_call *c, bool backward);
/* Limits later plans to that many SMs, if an engine has such a setting. 0: all SMs. */
void library_attention_limit_sms(int sms);
/* Notes that a plan for this call will be needed. Uses no GPU. */
void library_attention_note(const cuda_call *c, bool backward);
/* Makes the noted plans. Takes seconds. */
void library_attention_tune(void);
/* Queues the call. Returns false and sets *why if cuDNN is missing or none of its engines takes the call. */
bool library_attention_run(const cuda_call *c, bool backward, const char **why);
/* Writes "cuDNN 9.19.0 (loaded 9.19.0)", or that it was not built or not found. Returns text. */
const char *library_attention_version(char *text, size_t length);
