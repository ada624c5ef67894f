/* Stands for the CUDA machine in a build without CUDA. It cannot run; on paper, scratch sizes are unknown. */
#include "base/fail.h"
#include "machine/queue/backend.h"
#include <stdio.h>

static const char absent[] = "this build has no CUDA backend (build where nvcc is, or set CUDA_HOME)";

static bool usable(char *why, size_t length)
{
    snprintf(why, length, "%s", absent);
    return false;
}

static const char *library(char *text, size_t length)
{
    snprintf(text, length, "not built");
    return text;
}

static void *open_state(const machine_options *options, history *h) { FAIL("%s", absent); }

const backend *cuda_backend(void)
{
    static const backend table = { .usable = usable, .library = library, .engines = library, .open = open_state };
    return &table;
}
