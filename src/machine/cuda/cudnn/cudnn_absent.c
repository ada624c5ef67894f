/* Stands for cuDNN in a build without its headers. xgsw's own kernels then compute attention. */
#include "machine/cuda/attention/attention_library.h"
#include <stdio.h>

/* Returns true, so that the caller tries to run attention and gets the reason. */
bool library_attention_takes(const cuda_call *c, bool backward) { return true; }

size_t library_attention_scratch(const cuda_call *c, bool backward) { return 0; }

void library_attention_limit_sms(int sms) {}

void library_attention_note(const cuda_call *c, bool backward) {}

void library_attention_tune(void) {}

bool library_attention_run(const cuda_call *c, bool backward, const char **why)
{
    *why = "built without cuDNN";
    return false;
}

const char *library_attention_version(char *text, size_t length)
{
    snprintf(text, length, "cuDNN not built");
    return text;
}
