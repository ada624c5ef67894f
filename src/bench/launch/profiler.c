/* What attaches a profiler is the environment: CUDA and NVTX load the tool that it names. */
#include "bench/launch/profiler.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *set_to(const char *name) { return getenv(name) ? getenv(name) : ""; }

/* NCCL writes a line for each call if its messages are on and the subsystem of collectives is among them. */
static bool nccl_traces(void)
{
    const char *level = set_to("NCCL_DEBUG"), *parts = set_to("NCCL_DEBUG_SUBSYS");
    return (strcasecmp(level, "INFO") == 0 || strcasecmp(level, "TRACE") == 0) &&
           (strcasestr(parts, "COLL") || strcasestr(parts, "ALL"));
}

void profiler_complaint(char sentence[REASON_LENGTH])
{
    static const char *const tools[] = { "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH" };
    sentence[0] = 0;
    if (nccl_traces())
        snprintf(sentence, REASON_LENGTH, "NCCL_DEBUG_SUBSYS=%.60s on rank %d on %s: NCCL writes its calls",
                 set_to("NCCL_DEBUG_SUBSYS"), world_rank(), world_host());
    for (int i = 0; i < 2 && !sentence[0]; i++)
        if (set_to(tools[i])[0])
            snprintf(sentence, REASON_LENGTH, "%s=%.120s attaches a tool on rank %d on %s", tools[i], set_to(tools[i]),
                     world_rank(), world_host());
    world_hear(sentence, REASON_LENGTH);
}
