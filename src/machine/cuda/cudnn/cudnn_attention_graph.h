/* Attention as graphs of cuDNN (Dao 2023). cuDNN's engines recognize them as flash attention. */
#pragma once
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/cudnn/cudnn_graph.h"

/* The key of a plan. Shapes are [b, heads, s, d] with the strides of the operands. Every format is BF16. */
enum { SPEC_SHAPES = 9 };
typedef struct {
    bool backward, causal;
    int32_t sms;                    /* SMs that the plan may use; 0: all */
    graph_shape shape[SPEC_SHAPES]; /* in the order of attention_kernels.h; LSE: unused; from D_OUT on: backward */
} attention_spec;

/* uids of the tensors that a plan reads and writes. SUM and ACCUMULATOR: FP32 scratch [b, heads, s, 1] and [.., d]. */
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
    UID_KEY_OFFSET /* I32: t - s */
};

/* Returns the key of one part of a call (attention_staging.h). */
attention_spec attention_spec_of(const cuda_call *c, bool backward);
void attention_graph(cudnn_graph *g, const attention_spec *a);
/* Returns the bytes of workspace that engines may use, from shapes alone. */
size_t attention_workspace(const attention_spec *a);
