/* Do cuDNN's engines for an H100 take the graphs of attention, with the workspace that they are promised? Asked of the library by
 * the description of the device; without a GPU and its driver a plan is made up to the loading of its kernel. */
#include "machine/cuda/cudnn_attention_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char h100[] =
    "{\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":84929347584,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,"
    "\"l2CacheSize\":52428800,\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000}";

/* s, b, heads, kv_heads, d, causal */
typedef struct { int64_t s, b, heads, kv_heads, d; bool causal; } shape;
static const shape shapes[] = {
    { 8192, 1, 32, 8, 128, true }, { 8192, 1, 64, 8, 128, true }, { 4096, 2, 64, 8, 128, true }, { 8192, 1, 8, 2, 128, false },
    { 4096, 1, 12, 1, 192, true }, { 500, 1, 4, 2, 64, true }, { 128, 1, 4, 2, 16, true },
};

/* Heads of one slice of fused rows of `row` elements: [b, heads, s, d]. */
static graph_shape heads_of(const shape *n, int64_t heads, int64_t row)
{
    return (graph_shape){ CUDNN_DATA_BFLOAT16, { n->b, heads, n->s, n->d }, { row, n->d, row * n->b, 1 } };
}

static attention_spec spec_of(const shape *n, bool backward)
{
    int64_t fused = (n->heads + 2 * n->kv_heads) * n->d, row = n->heads * n->d;
    attention_spec a = { .backward = backward, .causal = n->causal };
    a.shape[Q] = a.shape[DQ] = heads_of(n, n->heads, fused);
    a.shape[K] = a.shape[V] = a.shape[DK] = a.shape[DV] = heads_of(n, n->kv_heads, fused);
    a.shape[OUT] = a.shape[D_OUT] = heads_of(n, n->heads, row);
    return a;
}

static cudnnBackendDescriptor_t device;

/* The reason that no plan was made; empty: one was. */
static void try_plan(const attention_spec *a, size_t most, char reason[GRAPH_REASON])
{
    cudnn_graph g;
    attention_graph(&g, a);
    cudnnBackendDescriptor_t plan = graph_plan(&g, device, most);
    memcpy(reason, g.reason, GRAPH_REASON);
    if (plan) cudnnBackendDestroyDescriptor(plan);
    graph_close(&g);
}

static void engines_take_the_graphs(void **state)
{
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        attention_spec a = spec_of(&shapes[i / 2], i % 2);
        char reason[GRAPH_REASON];
        try_plan(&a, attention_workspace(&a), reason);
        if (reason[0] && !strstr(reason, "cuLibraryLoadData")) fail_msg("s %lld, d %lld, %s: %s", (long long)shapes[i / 2].s,
                                                                        (long long)shapes[i / 2].d, i % 2 ? "backward" : "forward", reason);
    }
}

static void too_little_workspace_is_refused(void **state)
{
    attention_spec a = spec_of(&shapes[0], true);
    char reason[GRAPH_REASON];
    try_plan(&a, 1 << 20, reason);
    assert_non_null(strstr(reason, "bytes of workspace"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(engines_take_the_graphs), cmocka_unit_test(too_little_workspace_is_refused) };
    char why[GRAPH_REASON] = "";
    if (cudnn_load(why, sizeof why)) device = graph_device_described(h100, why);
    if (!device) printf("1..1\nnot ok 1 - cuDNN, which this was built with: %s\n", why);
    return device ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
