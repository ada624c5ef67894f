/* The environment variables that CUDA and NCCL read. */
#include "machine/cuda/device/environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS = 32 };

/* The only values with which transfers use the thread blocks and the order that communicators.c sets. NCCL treats an
 * empty value as unset, but it still overrides nccl.conf (documented; read in the source of NCCL 2.18 to 2.30). */
static const struct {
    const char *name, *value;
} required[] = {
    /* thread blocks of a communicator; a minimum of channels overrides a maximum of thread blocks */
    { "NCCL_MAX_CTAS", "" },
    { "NCCL_MIN_CTAS", "" },
    { "NCCL_MIN_NCHANNELS", "" },
    { "NCCL_MIN_NRINGS", "" },
    { "NCCL_MIN_P2P_NCHANNELS", "" },
    { "NCCL_CGA_CLUSTER_SIZE", "" },
    { "NCCL_CTA_POLICY", "" },
    /* with other values, communicators share resources or a launch order, and run one after another */
    { "NCCL_COMM_SPLIT_SHARE_RESOURCES", "" },
    { "NCCL_LAUNCH_ORDER_IMPLICIT", "0" },
    /* NCCL calls block until they are done; kernel launches do not wait for the kernel */
    { "NCCL_COMM_BLOCKING", "1" },
    { "CUDA_LAUNCH_BLOCKING", "0" },
    /* with 1, a communicator takes memory and waits for its peers in its first collective */
    { "NCCL_RUNTIME_CONNECT", "0" },
};
enum { REQUIRED = sizeof required / sizeof *required };

/* If there are more streams than connections, streams share a connection. Then a transfer that waits for its peer may
 * block the operation that the peer waits for. The maximum is 32, CUDA's default is 8. A machine has about nine queues
 * and a staging stream. NCCL has two streams for each communicator without shared resources: 30 streams with tensor,
 * context and pipeline parallelism. A user's value that is too small is kept in a variable for the record. */
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
    for (int i = 0; i < REQUIRED; i++) {
        const char *given = getenv(required[i].name);
        if (!given || !*given) setenv(required[i].name, required[i].value, 1);
    }
}

/* If one of these variables is set, NCCL 2.28 creates windows but does not use copy engines. */
bool cuda_environment_allows_windows(char *why, size_t length)
{
    static const char *const disabling[] = { "NCCL_WIN_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_P2P_DISABLE",
                                             "NCCL_P2P_LEVEL" };
    for (size_t i = 0; i < sizeof disabling / sizeof *disabling; i++) {
        const char *value = getenv(disabling[i]);
        if (!value || !*value) continue;
        snprintf(why, length, "%s is set", disabling[i]);
        return false;
    }
    return true;
}

void cuda_environment_disable_nvls(void)
{
    setenv("NCCL_ALGO", "^NVLS,NVLSTree", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
}

bool cuda_environment_suits(char *why, size_t length)
{
    char names[256] = "";
    for (int i = 0; i < REQUIRED; i++) {
        const char *value = getenv(required[i].name);
        size_t used = strlen(names);
        if (!value || strcmp(value, required[i].value) == 0) continue;
        snprintf(names + used, sizeof names - used, " %s", required[i].name);
    }
    if (!names[0]) return true;
    snprintf(why, length,
             "the environment changes how transfers share a GPU with computation, but the deck decides that: unset%s",
             names);
    return false;
}
