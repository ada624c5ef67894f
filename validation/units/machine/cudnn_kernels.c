/* Plans attention for an H100. For machine/cudnn_kernels.t, which runs cuDNN on a fake driver and examines what the
 * library loads. Each line of standard input is a call with s queries and t keys: FILE s t b heads kv_heads d ROWS. The
 * program that the forward plan loads is kept in FILE, that of the backward plan in FILE-backward. ROWS: fused (keys
 * and values follow the queries in a row) or apart (separate rows). Each output line reports the plans of a call. The
 * argument is another compute capability: 800, 1000. */
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/attention/attention_staging.h"
#include "machine/cuda/cudnn/cudnn_attention_graph.h"
#include "units/machine/cudnn_h100.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    long long s, t, b, heads, kv_heads, d;
    char rows[8];
} shape;

/* Returns some heads of rows [positions, b, heads, d]. */
static tensor heads_of(const shape *n, int64_t positions, int64_t heads, int64_t first, int64_t count)
{
    return tensor_slice(tensor_4d(NULL, BF16, positions, n->b, heads, n->d), 2, first, count);
}

/* Builds the call as model/attention.c does. Fused: queries are the first heads of a row, keys and values follow, and
 * so do their gradients. Apart: gathered over the context ranks in separate rows, with FP32 gradients. */
static cuda_call call_of(const shape *n)
{
    bool apart = strcmp(n->rows, "apart") == 0;
    int64_t fused = n->heads + 2 * n->kv_heads, rows = apart ? 2 * n->kv_heads : fused, before = apart ? 0 : n->heads;
    cuda_call c = { .args.attention = { .scale = 1.0f, .causal = true } };
    c.x[Q] = c.x[DQ] = heads_of(n, n->s, fused, 0, n->heads);
    c.x[K] = c.x[DK] = heads_of(n, n->t, rows, before, n->kv_heads);
    c.x[V] = c.x[DV] = heads_of(n, n->t, rows, before + n->kv_heads, n->kv_heads);
    c.x[OUT] = c.x[D_OUT] = heads_of(n, n->s, n->heads, 0, n->heads);
    c.x[LSE] = tensor_3d(NULL, F32, n->b, n->heads, n->s);
    if (apart) c.x[DK].type = c.x[DV].type = F32;
    return c;
}

/* Returns whether cuDNN has a plan for the part; sets reason if not. */
static bool plan_part(const cuda_call *part, bool backward, cudnnBackendDescriptor_t device, char reason[GRAPH_REASON])
{
    cudnn_graph g;
    attention_spec a = attention_spec_of(part, backward);
    attention_graph(&g, &a);
    cudnnBackendDescriptor_t made = graph_plan(&g, device, (plan_limits){ attention_workspace(&a), 0 });
    memcpy(reason, g.reason, GRAPH_REASON);
    if (made) cudnnBackendDestroyDescriptor(made);
    graph_close(&g);
    return made;
}

/* Prints whether there is a plan for each part, or the reason why not. */
static void plan(const shape *n, bool backward, const char *file, cudnnBackendDescriptor_t device)
{
    char name[512], reason[GRAPH_REASON] = "not for the library";
    const cuda_call c = call_of(n);
    attention_parts p = attention_parts_of(&c, backward, 0);
    bool made = library_attention_takes(&c, backward);
    snprintf(name, sizeof name, "%s%s", file, backward ? "-backward" : "");
    setenv("XGSW_DRIVER_KEEPS", name, 1);
    for (int i = 0; made && i < p.parts; i++) made = plan_part(&p.part[i], backward, device, reason);
    printf("%s %s\n", name, made ? "planned" : reason);
    fflush(stdout);
}

/* Replaces the number after the key. */
static void describe(char text[2 * sizeof h100], const char *key, const char *number)
{
    char rest[sizeof h100];
    char *at = strstr(text, key) + strlen(key);
    snprintf(rest, sizeof rest, "%s", at + strspn(at, "0123456789"));
    snprintf(at, 2 * sizeof h100 - (size_t)(at - text), "%s%s", number, rest);
}

/* Returns the H100's description with another compute capability and its shared memory. Other differences do not affect
 * the choice of kernels. */
static const char *described(const char *capability)
{
    static char text[2 * sizeof h100];
    int number = atoi(capability);
    memcpy(text, h100, sizeof h100);
    describe(text, "\"deviceVer\":", capability);
    if (number == 890 || number >= 1200) describe(text, "\"maxSharedMemoryPerBlockOptin\":", "101376");
    return text;
}

int main(int count, char **arguments)
{
    char why[GRAPH_REASON] = "", file[400];
    const char *text = described(count == 2 ? arguments[1] : "900");
    shape n;
    cudnnBackendDescriptor_t device = cudnn_load(why, sizeof why) ? graph_device_described(text, why) : NULL;
    if (!device) printf("%s\n", why);
    while (device && scanf("%399s %lld %lld %lld %lld %lld %lld %7s", file, &n.s, &n.t, &n.b, &n.heads, &n.kv_heads,
                           &n.d, n.rows) == 8)
        for (int backward = 0; backward < 2; backward++) plan(&n, backward, file, device);
    return device ? 0 : 1;
}
