/* The rules of all kinds of operations. The shadow samples one batch row and one key head of attention, some positions
 * of operations on rows, some columns or elements of others; products have a separate check (shadow.h). */
#include "machine/op/limits.h"
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 64, POSITIONS = 32, ELEMENTS = 1 << 16 };

static double product_flops(const op *o)
{
    const tensor *c = &o->operand[0].tensor, *a = &o->operand[1].tensor;
    return 2.0 * (double)c->dim[0] * (double)c->dim[1] * (double)a->dim[1];
}

static double grouped_flops(const op *o)
{
    const tensor *c = &o->operand[0].tensor, *a = &o->operand[1].tensor;
    return 2.0 * (double)c->dim[0] * (double)c->dim[1] * (double)c->dim[2] * (double)a->dim[2];
}

/* A product of attention takes 2 d flops for every visible pair; pairs of a position with itself count half. */
static double pairs_flops(const op *o)
{
    const int64_t *q = o->operand[0].tensor.dim, *k = o->operand[1].tensor.dim;
    int64_t hidden = o->args.attention.causal ? q[0] : 0;
    return (double)(q[0] * (2 * k[0] - hidden)) * (double)(q[1] * q[2] * q[3]);
}

static double attention_forward_flops(const op *o) { return 2 * pairs_flops(o); }
static double attention_backward_flops(const op *o) { return 4 * pairs_flops(o); }

/* BY_CALLER: the caller of the filler chooses the access. */
#define OPERAND(...)                                                                                                   \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define READS(name, axes) OPERAND(name, axes, READ, false, false)
#define WRITES(name, axes) OPERAND(name, axes, WRITE, false, false)
#define UPDATES(name, axes) OPERAND(name, axes, UPDATE, false, false)
#define BY_CALLER(name, axes) OPERAND(name, axes, READ, true, false)
#define OPTIONAL(name, axes, access) OPERAND(name, axes, access, false, true)
/* ENCODED: an output that encode_op can replace. CODES: the operands that it adds, of rows [s, n] or columns "*f". */
#define ENCODED(name, axes) OPERAND(name, axes, WRITE, false, true, ENCODED_INSTEAD)
#define CODES(axes, transposed_axes)                                                                                   \
    OPTIONAL("codes", axes, WRITE), OPTIONAL("transposed", transposed_axes, WRITE), OPTIONAL("scale", "", READ),       \
        OPTIONAL("amax", "", UPDATE), OPTIONAL("counts", "", UPDATE)
#define CODES_OF_ROWS CODES("s", "*ns")
#define CODES_OF_COLUMNS CODES("*f", "*fm")

const op_rule op_rules[OP_KINDS] = {
    [OP_MATMUL] = { .operand = { BY_CALLER("c", "mn"), READS("a", "mk"), READS("b", "kn"), OPTIONAL("bias", "n", READ),
                                 OPTIONAL("a_scale", "", READ), OPTIONAL("b_scale", "", READ) },
                    .flops = product_flops,
                    .limit = limit_of_product },
    [OP_EMBEDDING_FORWARD] = { .operand = { READS("tokens", ""), READS("table", "*h"), WRITES("out", "*h"),
                                            OPTIONAL("positions", "*h", READ) },
                               .sample = { { 'h', COLUMNS } } },
    [OP_EMBEDDING_BACKWARD] = { .operand = { READS("tokens", ""), READS("d_out", "*h"), BY_CALLER("gradient", "*h") },
                                .limit = limit_of_embedding_backward,
                                .sample = { { 'h', COLUMNS } } },
    [OP_NORM_FORWARD] = { .operand = { READS("x", "s"), OPTIONAL("delta", "s", READ), READS("gain", ""),
                                       OPTIONAL("sum", "s", WRITE), ENCODED("out", "s"), WRITES("rstd", "s"),
                                       OPTIONAL("bias", "", READ), OPTIONAL("mean", "s", WRITE), CODES_OF_ROWS },
                          .limit = limit_of_rows,
                          .sample = { { 's', POSITIONS } } },
    [OP_NORM_BACKWARD] = { .operand = { READS("d_out", "s"), READS("x", "s"), READS("rstd", "s"), READS("gain", ""),
                                        OPERAND("dx", "s", READ, true, false, ENCODED_ALSO),
                                        BY_CALLER("gain_gradient", ""), OPTIONAL("mean", "s", READ),
                                        OPERAND("bias_gradient", "", READ, true, true), CODES_OF_ROWS },
                           .limit = limit_of_norm_backward,
                           .sample = { { 's', POSITIONS } } },
    [OP_ROPE_FORWARD] = { .operand = { UPDATES("x", "s"), READS("table", "s") }, .sample = { { 's', POSITIONS } } },
    [OP_ROPE_BACKWARD] = { .operand = { OPERAND("x", "s", UPDATE, false, false, ENCODED_INSTEAD), READS("table", "s"),
                                        CODES_OF_ROWS },
                           .sample = { { 's', POSITIONS } } },
    [OP_ATTENTION_FORWARD] = { .operand = { READS("q", "sbhd"), READS("k", "tbhd"), READS("v", "tbhd"),
                                            WRITES("out", "sbhd"), WRITES("lse", "bhs") },
                               .flops = attention_forward_flops,
                               .limit = limit_of_attention_forward,
                               .sample = { { 'b', 1 }, { 'h', 1 } } },
    [OP_ATTENTION_BACKWARD] = { .operand = { READS("q", "sbhd"), READS("k", "tbhd"), READS("v", "tbhd"),
                                             READS("out", "sbhd"), READS("lse", "bhs"), READS("d_out", "sbhd"),
                                             WRITES("dq", "sbhd"), BY_CALLER("dk", "tbhd"), BY_CALLER("dv", "tbhd") },
                                .flops = attention_backward_flops,
                                .limit = limit_of_attention_backward,
                                .sample = { { 'b', 1 }, { 'h', 1 } } },
    [OP_ADD] = { .operand = { WRITES("out", "e"), READS("a", "e"), READS("b", "e") }, .sample = { { 'e', ELEMENTS } } },
    [OP_SWIGLU_FORWARD] = { .operand = { READS("gate_up", "s"), ENCODED("out", "s"), CODES_OF_ROWS },
                            .sample = { { 's', POSITIONS } } },
    [OP_SWIGLU_BACKWARD] = { .operand = { READS("gate_up", "s"), READS("d_out", "s"), ENCODED("d_gate_up", "s"),
                                          CODES_OF_ROWS },
                             .sample = { { 's', POSITIONS } } },
    [OP_GELU_FORWARD] = { .operand = { READS("x", "*f"), READS("bias", "f"), ENCODED("out", "*f"), CODES_OF_COLUMNS },
                          .sample = { { 'f', COLUMNS } } },
    [OP_GELU_BACKWARD] = { .operand = { READS("x", "*f"), READS("bias", "f"), READS("d_out", "*f"), ENCODED("dx", "*f"),
                                        BY_CALLER("bias_gradient", "f"), CODES_OF_COLUMNS },
                           .limit = limit_of_gelu_backward,
                           .sample = { { 'f', COLUMNS } } },
    [OP_COLUMN_SUMS] = { .operand = { READS("x", "*n"), BY_CALLER("sums", "*n") },
                         .limit = limit_of_column_sums,
                         .sample = { { 'n', COLUMNS } } },
    [OP_GEGLU_FORWARD] = { .operand = { READS("gate_up", "s"), ENCODED("out", "s"), CODES_OF_ROWS },
                           .sample = { { 's', POSITIONS } } },
    [OP_GEGLU_BACKWARD] = { .operand = { READS("gate_up", "s"), READS("d_out", "s"), ENCODED("d_gate_up", "s"),
                                         CODES_OF_ROWS },
                            .sample = { { 's', POSITIONS } } },
    [OP_GROUPED_MATMUL] = { .operand = { BY_CALLER("c", "gmn"), READS("a", "gmk"), READS("b", "gkn"),
                                         OPTIONAL("a_scale", "", READ), OPTIONAL("b_scale", "", READ) },
                            .flops = grouped_flops,
                            .limit = limit_of_product },
    [OP_ROUTER_FORWARD] = { .operand = { READS("logits", ""), OPTIONAL("order", "", READ), BY_CALLER("choices", ""),
                                         WRITES("weights", ""), WRITES("place", ""), WRITES("source", ""),
                                         WRITES("statistics", "") },
                            .limit = limit_of_router },
    [OP_ROUTER_BACKWARD] = { .operand = { READS("logits", ""), READS("choices", ""), READS("d_weights", ""),
                                          READS("statistics", ""), WRITES("d_logits", ""), OPTIONAL("loss", "", UPDATE),
                                          OPTIONAL("load", "", UPDATE) } },
    [OP_PERMUTE] = { .operand = { WRITES("out", "*h"), READS("x", "*h"), READS("source", "") },
                     .sample = { { 'h', COLUMNS } } },
    [OP_UNPERMUTE_FORWARD] = { .operand = { WRITES("out", "*h"), READS("y", "*h"), OPTIONAL("weights", "", READ),
                                            READS("place", "") },
                               .sample = { { 'h', COLUMNS } } },
    [OP_UNPERMUTE_BACKWARD] = { .operand = { READS("d_out", ""), READS("y", ""), READS("weights", ""),
                                             READS("place", ""), READS("source", ""), WRITES("d_y", ""),
                                             WRITES("d_weights", "") },
                                .limit = limit_of_unpermute_backward },
    [OP_SQUARED_RELU_FORWARD] = { .operand = { READS("x", "s"), ENCODED("out", "s"), CODES_OF_ROWS },
                                  .sample = { { 's', POSITIONS } } },
    [OP_SQUARED_RELU_BACKWARD] = { .operand = { READS("x", "s"), READS("d_out", "s"), ENCODED("dx", "s"),
                                                CODES_OF_ROWS },
                                   .sample = { { 's', POSITIONS } } },
    [OP_QUANTIZE] = { .operand = { READS("x", "*n"), CODES("*n", "*nm") }, .sample = { { 'n', COLUMNS } } },
    [OP_TRANSPOSE] = { .operand = { WRITES("out", "*nm"), READS("x", "*n") }, .sample = { { 'n', COLUMNS } } },
    [OP_CROSS_ENTROPY] = { .operand = { BY_CALLER("logits", "s"), READS("labels", "s"), BY_CALLER("partial", "*sb3"),
                                        OPTIONAL("loss", "", WRITE) },
                           .limit = limit_of_rows,
                           .sample = { { 's', POSITIONS } } },
    [OP_ADAMW] = { .operand = { READS("scalars", ""), READS("gradient", "e"), BY_CALLER("weight", "e"),
                                OPTIONAL("master", "e", UPDATE), UPDATES("first", "e"), UPDATES("second", "e"),
                                OPTIONAL("scale", "", READ), OPTIONAL("amax", "", UPDATE),
                                OPTIONAL("counts", "", UPDATE) },
                   .sample = { { 'e', ELEMENTS } } },
    [OP_ALL_GATHER] = { .operand = { BY_CALLER("to", ""), OPTIONAL("from", "", READ) }, .passes = 1 },
    [OP_REDUCE_SCATTER] = { .operand = { UPDATES("x", "") }, .passes = 1 },
    [OP_ALL_REDUCE] = { .operand = { UPDATES("x", "") }, .passes = 2 },
    [OP_ALL_TO_ALL] = { .operand = { WRITES("to", ""), READS("from", "") }, .passes = 1 },
    [OP_FILL] = { .operand = { OPTIONAL("out", "e", WRITE) }, .sample = { { 'e', ELEMENTS } } },
    [OP_COPY] = { .operand = { BY_CALLER("to", "e"), READS("from", "e") }, .sample = { { 'e', ELEMENTS } } },
    [OP_SUM] = { .operand = { BY_CALLER("out", ""), READS("x", "") }, .limit = limit_of_doubles },
    [OP_SUM_PARTS] = { .operand = { WRITES("out", "s"), READS("parts", "ps") }, .sample = { { 's', POSITIONS } } },
    [OP_TOKENS] = { .operand = { READS("scalars", ""), WRITES("tokens", ""), WRITES("labels", "") } },
    [OP_STEP_BEGIN] = { .operand = { UPDATES("scalars", "") }, .limit = limit_of_scalars },
    [OP_SQUARE_SUM] = { .operand = { READS("x", ""), UPDATES("squares", "") } },
    [OP_STEP_CLIP] = { .operand = { READS("squares", ""), READS("loss", ""), UPDATES("scalars", "") },
                       .limit = limit_of_doubles },
    [OP_FP8_SCALES] = { .operand = { OPTIONAL("scalars", "", READ), UPDATES("amax", ""),
                                     OPTIONAL("history", "", UPDATE), WRITES("scales", "") } },
    [OP_DIGEST] = { .operand = { READS("x", ""), UPDATES("sum", "") } },
    [OP_SIGNED_SUMS] = { .operand = { READS("x", ""), READS("scalars", ""), WRITES("totals", "") },
                         .limit = limit_of_signed_sums },
    [OP_INITIALIZE] = { .operand = { WRITES("out", "") } },
    [OP_SCALE] = { .operand = { UPDATES("x", "") } },
    [OP_FLIP] = { .operand = { UPDATES("x", "") } },
};

double op_flops(const op *o)
{
    const op_rule *r = &op_rules[o->kind];
    return r->flops ? r->flops(o) : 0.0;
}

int op_encoding(const op *o)
{
    int at = o->operands - ENCODING_OPERANDS;
    if (o->kind == OP_QUANTIZE || at < 1 || strcmp(op_rules[o->kind].operand[at].name, "codes") != 0) return -1;
    bool encodes = tensor_present(&o->operand[at + ENCODING_SCALE].tensor);
    return encodes ? at : -1;
}

/* ---- descriptions of operations ---- */

static const char *const phase_names[PHASES] = {
    [PHASE_SETUP] = "setup",         [PHASE_BATCH] = "batch",         [PHASE_FORWARD] = "forward",
    [PHASE_BACKWARD] = "backward",   [PHASE_RECOMPUTE] = "recompute", [PHASE_GRADIENT] = "gradient",
    [PHASE_OPTIMIZER] = "optimizer",
};

const char *phase_name(phase p) { return phase_names[p]; }

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

activity op_activity(op_kind kind, const origin *at)
{
    activity e = { .step = at->step, .microbatch = (int32_t)at->microbatch, .layer = at->layer };
    activity_text(e.kind, sizeof e.kind, op_kind_name(kind));
    activity_text(e.name, sizeof e.name, at->name);
    activity_text(e.phase, sizeof e.phase, phase_name(at->phase));
    return e;
}
