/* This build has no CUDA machine: what stands in its place can measure a case on paper and run none. */
#include "base/fail.h"
#include "machine/backend.h"
#include <stdio.h>

static const char absent[] = "this build has no CUDA machine (build where nvcc is, or set CUDA_HOME)";

static void *open_state(const machine_options *options, tally *t)
{
    (void)t;
    if (!options->measuring) FAIL("%s", absent);
    return NULL;
}

static void close_state(void *state) { (void)state; }

static size_t prepare(void *state, const op *o)
{
    (void)state;
    (void)o;
    return 0;
}

static const char *library(char *text, size_t length)
{
    snprintf(text, length, "not built");
    return text;
}

static int threads(void) { return 0; }

static bool usable(char *why, size_t length)
{
    snprintf(why, length, "%s", absent);
    return false;
}

static machine_device device(void) { return (machine_device){ .name = "none" }; }

const backend *cuda_backend(void)
{
    static const backend table = { .name = "cuda",
                                   .usable = usable,
                                   .device = device,
                                   .open = open_state,
                                   .close = close_state,
                                   .prepare = prepare,
                                   .library = library,
                                   .engines = library,
                                   .threads = threads };
    return &table;
}
