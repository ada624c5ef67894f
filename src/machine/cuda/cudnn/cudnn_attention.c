/* Attention by cuDNN: the calls that it takes, the plans for their shapes, and their execution. It is process state. */
#include "base/fail.h"
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/attention/attention_staging.h"
#include "machine/cuda/cudnn/cudnn_attention_graph.h"
#include "machine/op/activity.h"
#include <float.h>
#include <stdio.h>
#include <string.h>

enum { PLANS = 256 };

typedef struct {
    attention_spec spec;
    bool tried;
    cudnnBackendDescriptor_t plan;
    char reason[GRAPH_REASON];
} attention_plan;

static struct {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
    attention_plan plan[PLANS];
    int plans;
    int32_t sms;                /* for later plans; 0: all */
    char refused[GRAPH_REASON]; /* why cuDNN is not used at all; empty: it is used, or was not tried yet */
} library;

/* Returns whether the tensor is BF16 and its rows begin at multiples of 16 bytes. Paper addresses are aligned, too. */
static bool is_regular(const tensor *t)
{
    bool aligned = (uintptr_t)t->data % 16 == 0 && t->type == BF16;
    for (int i = 0; i < 3; i++) aligned = aligned && (t->dim[i] == 1 || t->stride[i] % 8 == 0);
    return aligned;
}

/* FP32 dk and dv are staged in BF16: cuDNN 9.19 refuses FP32 if heads share keys (seen without a GPU), and its
 * documentation lists only 16-bit formats. The graph writes contiguous LSE. */
bool library_attention_takes(const cuda_call *c, bool backward)
{
    int64_t d = c->x[Q].dim[3];
    bool takes = d % 8 == 0 && d <= 256 && tensor_contiguous(&c->x[LSE]);
    for (int i = 0; i <= (backward ? DV : OUT); i++)
        if (i != LSE && !(backward && attention_is_staged(c, i)))
            takes = takes && is_regular(&c->x[i]) && !c->update[i];
    return takes;
}

/* Backward's scratch has UID_SUM, UID_ACCUMULATOR, the staging tensors (attention_staging.h) and the workspace. */
static size_t sum_bytes(const cuda_call *c)
{
    return attention_align((size_t)(c->x[Q].dim[0] * c->x[Q].dim[1] * c->x[Q].dim[2]) * sizeof(float));
}
static size_t accumulator_bytes(const cuda_call *c) { return attention_align(sum_bytes(c) * (size_t)c->x[Q].dim[3]); }

static attention_parts parts_of(const cuda_call *c, bool backward)
{
    return attention_parts_of(c, backward, backward ? sum_bytes(c) + accumulator_bytes(c) : 0);
}

size_t library_attention_scratch(const cuda_call *c, bool backward)
{
    attention_parts p = parts_of(c, backward);
    size_t largest = 0;
    for (int i = 0; i < p.parts; i++) {
        attention_spec a = attention_spec_of(&p.part[i], backward);
        size_t workspace = attention_workspace(&a);
        if (workspace > largest) largest = workspace;
    }
    return attention_align(1) + p.end + largest;
}

static bool is_same_shape(const graph_shape *a, const graph_shape *b)
{
    return memcmp(a->dim, b->dim, sizeof a->dim) == 0 && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

static bool is_same(const attention_spec *a, const attention_spec *b)
{
    bool same = a->backward == b->backward && a->causal == b->causal && a->sms == b->sms;
    for (int i = 0; i < SPEC_SHAPES; i++) same = same && is_same_shape(&a->shape[i], &b->shape[i]);
    return same;
}

static attention_plan *plan_for(const attention_spec *a)
{
    for (int i = 0; i < library.plans; i++)
        if (is_same(&library.plan[i].spec, a)) return &library.plan[i];
    if (library.plans == PLANS) return NULL;
    attention_plan *p = &library.plan[library.plans++];
    p->spec = *a;
    return p;
}

void library_attention_limit_sms(int sms) { library.sms = sms; }

static attention_spec spec_of(const cuda_call *part, bool backward)
{
    attention_spec a = attention_spec_of(part, backward);
    a.sms = library.sms;
    return a;
}

void library_attention_note(const cuda_call *c, bool backward)
{
    attention_parts p = parts_of(c, backward);
    for (int i = 0; i < p.parts; i++) {
        attention_spec a = spec_of(&p.part[i], backward);
        plan_for(&a);
    }
}

/* Results were correct from 9.15.1 on. In backward, earlier versions read beyond the keys if their number is not a
 * multiple of 128. The later versions that are excluded have errors according to release notes and users. */
static bool is_trusted(size_t version)
{
    size_t minor = version / 100;
    return version >= 91501 && minor != 924 && minor != 926 && minor != 927;
}

static bool is_usable(char *why, size_t length)
{
    if (!cudnn_load(why, length)) return false;
    if (!is_trusted(cudnnGetVersion())) snprintf(why, length, "cuDNN %zu has known errors", cudnnGetVersion());
    return is_trusted(cudnnGetVersion());
}

static void check(cudnnStatus_t status, const char *call)
{
    if (status != CUDNN_STATUS_SUCCESS) FAIL("%s: %s", call, cudnnGetErrorString(status));
}

static bool is_open(void)
{
    char why[GRAPH_REASON] = "";
    int device = 0;
    if (library.handle) return true;
    if (library.refused[0] || !is_usable(library.refused, sizeof library.refused)) return false;
    CUDA_CHECK(cudaGetDevice(&device));
    check(cudnnCreate(&library.handle), "cudnnCreate");
    library.device = graph_device(device, why);
    if (!library.device) FAIL("%s", why);
    return true;
}

static void make_plan(attention_plan *p)
{
    cudnn_graph g;
    p->tried = true;
    attention_graph(&g, &p->spec);
    p->plan = graph_plan(&g, library.device, (plan_limits){ attention_workspace(&p->spec), p->spec.sms });
    activity_progress(); /* making a plan may compile for seconds */
    if (p->plan) return;
    memcpy(p->reason, g.reason, sizeof p->reason);
    graph_close(&g);
}

void library_attention_tune(void)
{
    for (int i = 0; i < library.plans && is_open(); i++)
        if (!library.plan[i].tried) make_plan(&library.plan[i]);
}

/* The tensors that a plan reads and writes, with their uids. */
typedef struct {
    int count;
    int64_t uid[16];
    void *data[16];
} bindings;

static void bind(bindings *b, int64_t uid, void *data)
{
    b->uid[b->count] = uid;
    b->data[b->count++] = data;
}

static bindings bindings_of(const cuda_call *c, bool backward, graph_number *numbers)
{
    static const int64_t uid[] = { UID_Q, UID_K, UID_V, UID_OUT, UID_LSE, UID_D_OUT, UID_DQ, UID_DK, UID_DV };
    bindings b = { 0 };
    for (int i = 0; i <= (backward ? DV : LSE); i++) bind(&b, uid[i], c->x[i].data);
    bind(&b, UID_SCALE, &numbers[0]);
    if (c->args.attention.causal) bind(&b, UID_MASKED, &numbers[1]);
    if (c->args.attention.causal && numbers[3].integer) bind(&b, UID_KEY_OFFSET, &numbers[3]);
    if (!backward) return b;
    bind(&b, UID_ONE, &numbers[2]);
    bind(&b, UID_SUM, attention_scratch_at(c, 0));
    bind(&b, UID_ACCUMULATOR, attention_scratch_at(c, sum_bytes(c)));
    return b;
}

/* A plan that fails is not tried again: xgsw's kernels run instead, and the report prints why. */
static bool run_plan(const cuda_call *part, bool backward, void *workspace, attention_plan *p)
{
    graph_number numbers[] = { { .real = part->args.attention.scale },
                               { .real = -FLT_MAX },
                               { .real = 1.0f },
                               { .integer = (int32_t)(part->x[K].dim[0] - part->x[Q].dim[0]) } };
    bindings b = bindings_of(part, backward, numbers);
    check(cudnnSetStream(library.handle, part->stream), "cudnnSetStream");
    bool ran = graph_run(library.handle, p->plan, b.count, b.uid, b.data, workspace, p->reason);
    if (!ran) p->plan = NULL;
    return ran;
}

static bool run_part(const cuda_call *part, bool backward, void *workspace, const char **why)
{
    attention_spec a = spec_of(part, backward);
    attention_plan *p = plan_for(&a);
    if (p && !p->tried) make_plan(p);
    *why = p ? p->reason : "there is no free entry for another cuDNN plan";
    return p && p->plan && run_plan(part, backward, workspace, p);
}

bool library_attention_run(const cuda_call *c, bool backward, const char **why)
{
    attention_parts p = parts_of(c, backward);
    bool ran = is_open();
    *why = library.refused;
    for (int i = 0; i < p.parts && ran; i++) ran = run_part(&p.part[i], backward, attention_scratch_at(c, p.end), why);
    if (ran && backward) attention_unstage(c, &p);
    return ran;
}

const char *library_attention_version(char *text, size_t length)
{
    char why[GRAPH_REASON] = "";
    size_t version = cudnn_load(why, sizeof why) ? cudnnGetVersion() : 0;
    int used = snprintf(text, length, "cuDNN %d.%d.%d ", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
    if (version)
        snprintf(text + used, length - (size_t)used, "(loaded %zu.%zu.%zu)", version / 10000, version % 10000 / 100,
                 version % 100);
    else snprintf(text + used, length - (size_t)used, "(not found)");
    return text;
}
