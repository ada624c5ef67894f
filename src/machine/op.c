/* What can be said of an operation without running it. */
#include "machine/op.h"
#include <stdio.h>

static const char *const kind_names[OP_KINDS] = {
    [OP_MATMUL] = "matmul",
    [OP_EMBEDDING_FORWARD] = "embedding_forward",
    [OP_EMBEDDING_BACKWARD] = "embedding_backward",
    [OP_NORM_FORWARD] = "norm_forward",
    [OP_NORM_BACKWARD] = "norm_backward",
    [OP_ROPE_FORWARD] = "rope_forward",
    [OP_ROPE_BACKWARD] = "rope_backward",
    [OP_ATTENTION_FORWARD] = "attention_forward",
    [OP_ATTENTION_BACKWARD] = "attention_backward",
    [OP_ATTENTION_MERGE] = "attention_merge",
    [OP_ADD] = "add",
    [OP_SWIGLU_FORWARD] = "swiglu_forward",
    [OP_SWIGLU_BACKWARD] = "swiglu_backward",
    [OP_CROSS_ENTROPY] = "cross_entropy",
    [OP_ADAMW] = "adamw",
    [OP_ALL_GATHER] = "all_gather",
    [OP_REDUCE_SCATTER] = "reduce_scatter",
    [OP_ALL_REDUCE] = "all_reduce",
    [OP_EXCHANGE] = "exchange",
    [OP_FILL] = "fill",
    [OP_COPY] = "copy",
    [OP_SUM] = "sum",
    [OP_TOKENS] = "tokens",
    [OP_STEP_BEGIN] = "step_begin",
    [OP_SQUARE_SUM] = "square_sum",
    [OP_STEP_CLIP] = "step_clip",
    [OP_INITIALIZE] = "initialize",
    [OP_SCALE] = "scale",
    [OP_FLIP] = "flip",
};

static const char *const phase_names[PHASES] = {
    [PHASE_SETUP] = "setup",         [PHASE_BATCH] = "batch",         [PHASE_FORWARD] = "forward",
    [PHASE_BACKWARD] = "backward",   [PHASE_RECOMPUTE] = "recompute", [PHASE_GRADIENT] = "gradient",
    [PHASE_OPTIMIZER] = "optimizer",
};

const char *op_kind_name(op_kind kind) { return kind_names[kind]; }
const char *phase_name(phase p) { return phase_names[p]; }

op_kind op_kind_named(const char *name)
{
    op_kind kind = 0;
    while (kind < OP_KINDS && strcmp(kind_names[kind], name) != 0) kind++;
    return kind;
}

bool op_is_transfer(op_kind kind) { return kind >= OP_ALL_GATHER && kind <= OP_EXCHANGE; }

static double matmul_flops(const op *o)
{
    const tensor *c = &o->operand[0].tensor, *a = &o->operand[1].tensor;
    return 2.0 * (double)c->dim[0] * (double)c->dim[1] * (double)a->dim[1];
}

/* One product over the pairs of query and key that are seen, d each, per batch row and head: causal half of the square.
 */
static double attention_product_flops(const op *o)
{
    const int64_t *q = o->operand[0].tensor.dim,
                  *k = o->operand[1].tensor.dim; /* [s, b, heads, d], [t, b, kv_heads, d] */
    return (o->args.attention.causal ? 1.0 : 2.0) * (double)(q[0] * k[0]) * (double)(q[1] * q[2] * q[3]);
}

double op_flops(const op *o)
{
    switch (o->kind) {
    case OP_MATMUL: return matmul_flops(o);
    case OP_ATTENTION_FORWARD: return 2 * attention_product_flops(o);
    case OP_ATTENTION_BACKWARD: return 4 * attention_product_flops(o);
    default: return 0;
    }
}

double op_bytes(const op *o)
{
    double bytes = 0;
    for (int i = 0; i < o->operands; i++) bytes += (double)tensor_span(&o->operand[i].tensor);
    return bytes;
}

const char *op_describe(const op *o, char *text, size_t length)
{
    char numbers[160] = "";
    const origin *at = &o->origin;
    size_t used = 0;
    const struct {
        const char *word;
        int64_t value;
    } item[] = {
        { "step", at->step }, { "microbatch", at->microbatch }, { "chunk", at->chunk }, { "layer", at->layer }
    };
    for (int i = 0; i < 4; i++)
        if (item[i].value >= 0)
            used += (size_t)snprintf(numbers + used, sizeof numbers - used, "%s %lld, ", item[i].word,
                                     (long long)item[i].value);
    snprintf(text, length, "%s %s (%s%s)", op_kind_name(o->kind), at->name ? at->name : "", numbers,
             phase_name(at->phase));
    return text;
}
