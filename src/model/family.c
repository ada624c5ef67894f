/* The family of a case, and the extents of its model on a rank. */
#include "model/family.h"
#include <math.h>

const family *family_of(const bench_case *c)
{
    static const family *const families[] = {
        [FAMILY_LLAMA] = &llama, [FAMILY_NEMOTRON] = &nemotron, [FAMILY_GPT3] = &gpt3, [FAMILY_GROK] = &grok
    };
    return families[c->model.family];
}

/* Returns ceil(tokens of a group x choices / experts x factor), at most all tokens. */
static int64_t capacity_of(const bench_case *c, int64_t tokens)
{
    double even = (double)(tokens * c->model.active) / (double)c->model.experts * c->capacity;
    return c->capacity == 0.0 || even >= (double)tokens ? tokens : (int64_t)ceil(even);
}

/* A rank that stands for those of another layout has their groups. */
static void add_experts(rank_extents *n, const bench_case *c)
{
    n->experts = c->model.experts;
    n->expert_parts = c->imitated.experts ? c->imitated.experts : 1;
    n->expert_ranks = c->layout.expert * n->expert_parts;
    n->capacity_groups = (int64_t)c->capacity_groups.tensor * c->capacity_groups.context;
    if (n->capacity_groups == 0) n->capacity_groups = 1;
    n->expert_rows = n->capacity_groups * capacity_of(c, n->own_positions * n->batch / n->capacity_groups);
}

rank_extents rank_extents_of(const bench_case *c, const mesh *m)
{
    const model_shape *x = &c->model;
    int64_t tensor_ranks = m->layout.degree[AXIS_TENSOR], positions = x->sequence / m->layout.degree[AXIS_CONTEXT];
    rank_extents n = { .type = kept_type(storage_of(c).activation),
                       .positions = positions,
                       .own_positions = positions / tensor_ranks,
                       .batch = c->microbatch,
                       .hidden = x->hidden,
                       .head_dim = x->head_dim,
                       .heads = x->heads / tensor_ranks,
                       .kv_heads = x->kv_heads / tensor_ranks,
                       .ffn = x->ffn / tensor_ranks,
                       .vocabulary = x->padded_vocabulary / tensor_ranks,
                       .tensor_ranks = tensor_ranks };
    if (x->experts) add_experts(&n, c);
    return n;
}
