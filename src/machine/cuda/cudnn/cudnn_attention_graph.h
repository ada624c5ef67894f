/* Attention as cuDNN's graphs (Dao 2023; the library's engines recognize them as flash attention). */
#pragma once
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/cudnn/cudnn_graph.h"

/* What a plan depends on. Shapes are [b, heads, s, d] with the strides that the tensors have; every format is BF16. */
enum { SPEC_SHAPES = 9 };
typedef struct {
    bool backward, causal;
    int32_t sms;                    /* on how many SMs it runs; 0: on all */
    graph_shape shape[SPEC_SHAPES]; /* in the order of attention.h's operands; that of LSE is unused, from D_OUT on:
                                       backward only */
} attention_spec;

/* uids of what a plan reads and writes. SUM and ACCUMULATOR: FP32 scratch [b, heads, s, 1] and [b, heads, s, d]. */
enum {
    UID_Q = 1,
    UID_K,
    UID_V,
    UID_OUT,
    UID_LSE,
    UID_SCALE,
    UID_MASKED,
    UID_D_OUT,
    UID_DQ,
    UID_DK,
    UID_DV,
    UID_SUM,
    UID_ACCUMULATOR,
    UID_ONE,
    UID_AHEAD /* I32: t - s */
};

/* Of a part of a call (attention_staging.h). */
attention_spec attention_spec_of(const cuda_call *c, bool backward);
void attention_graph(cudnn_graph *g, const attention_spec *a);
/* Bytes that engines get for it, from shapes only. */
size_t attention_workspace(const attention_spec *a);
