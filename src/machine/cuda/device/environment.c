/* What CUDA and NCCL read of the environment. */
#include "machine/cuda/device/environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS = 32 };

/* The only values with which transfers are laid out as communicators.c says: empty is unset to NCCL, and keeps an
 * nccl.conf from setting it (documented: the environment wins; read in NCCL 2.18 to 2.30). */
static const struct {
    const char *name, *value;
} needed[] = {
    /* thread blocks of a communicator; the least number of channels wins over the most of thread blocks */
    { "NCCL_MAX_CTAS", "" },
    { "NCCL_MIN_CTAS", "" },
    { "NCCL_MIN_NCHANNELS", "" },
    { "NCCL_MIN_NRINGS", "" },
    { "NCCL_MIN_P2P_NCHANNELS", "" },
    { "NCCL_CGA_CLUSTER_SIZE", "" },
    { "NCCL_CTA_POLICY", "" },
    /* what shares resources, or is launched in one order, runs in turn */
    { "NCCL_COMM_SPLIT_SHARE_RESOURCES", "" },
    { "NCCL_LAUNCH_ORDER_IMPLICIT", "0" },
    /* calls return when they are done; a launch does not wait for its peers */
    { "NCCL_COMM_BLOCKING", "1" },
    { "CUDA_LAUNCH_BLOCKING", "0" },
    /* else a communicator takes memory, and waits, in its first collective */
    { "NCCL_RUNTIME_CONNECT", "0" },
};
enum { NEEDED = sizeof needed / sizeof *needed };

/* Streams beyond the connections to a GPU share one, and may stand behind each other: a transfer that waits for its
 * peer then holds up what the peer waits for. 32 is the most there are; CUDA takes 8 by itself. A machine has some nine
 * queues and staging, and NCCL two streams for each communicator that shares nothing: 30 with tensor, context and
 * pipeline neighbours. Where the user's own choice is too small, the record's environment keeps it. */
static void set_connections(void)
{
    char text[16];
    const char *given = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (given && atoi(given) >= CONNECTIONS) return;
    if (given) setenv("XGSW_RAISED_CUDA_DEVICE_MAX_CONNECTIONS_FROM", given, 1);
    snprintf(text, sizeof text, "%d", CONNECTIONS);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", text, 1);
}

void cuda_environment(void)
{
    set_connections();
    for (int i = 0; i < NEEDED; i++) {
        const char *given = getenv(needed[i].name);
        if (!given || !*given) setenv(needed[i].name, needed[i].value, 1);
    }
}

/* With any of them set NCCL 2.28 hands out a window, but its kernels move what lies there. */
bool cuda_environment_lets_windows(char *why, size_t length)
{
    static const char *const against[] = { "NCCL_WIN_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_P2P_DISABLE",
                                           "NCCL_P2P_LEVEL" };
    for (size_t i = 0; i < sizeof against / sizeof *against; i++) {
        const char *value = getenv(against[i]);
        if (!value || !*value) continue;
        snprintf(why, length, "%s is set", against[i]);
        return false;
    }
    return true;
}

/* A switch adds in an order of its own. */
void cuda_environment_repeat_bits(void)
{
    setenv("NCCL_ALGO", "^NVLS,NVLSTree", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
}

bool cuda_environment_suits(char *why, size_t length)
{
    char names[256] = "";
    for (int i = 0; i < NEEDED; i++) {
        const char *value = getenv(needed[i].name);
        size_t used = strlen(names);
        if (!value || strcmp(value, needed[i].value) == 0) continue;
        snprintf(names + used, sizeof names - used, " %s", needed[i].name);
    }
    if (!names[0]) return true;
    snprintf(why, length,
             "the environment changes how transfers share a GPU with computation, which the deck decides: unset%s",
             names);
    return false;
}
