/* Judging goes through the fillers: the operands are handed to the filler of the kind, whose needs are then noted
 * instead of fatal, and what it would submit is compared with the operation at hand. */
#include "machine/op_judge.h"
#include "base/fail.h"
#include "machine/kernels.h"
#include <stdio.h>
#include <string.h>

enum { NAMES = 9 };
static const char *const names[OP_KINDS][NAMES] = {
    [OP_MATMUL] = { "c", "a", "b" },
    [OP_EMBEDDING_FORWARD] = { "tokens", "table", "out" },
    [OP_EMBEDDING_BACKWARD] = { "tokens", "d_out", "gradient" },
    [OP_NORM_FORWARD] = { "x", "delta", "gain", "sum", "out", "rstd" },
    [OP_NORM_BACKWARD] = { "d_out", "x", "rstd", "gain", "dx", "gain_gradient" },
    [OP_ROPE_FORWARD] = { "x", "table" },
    [OP_ROPE_BACKWARD] = { "x", "table" },
    [OP_ATTENTION_FORWARD] = { "q", "k", "v", "out", "lse" },
    [OP_ATTENTION_BACKWARD] = { "q", "k", "v", "out", "lse", "d_out", "dq", "dk", "dv" },
    [OP_ATTENTION_MERGE] = { "out", "lse", "part", "part_lse" },
    [OP_ADD] = { "out", "a", "b" },
    [OP_SWIGLU_FORWARD] = { "gate_up", "out" },
    [OP_SWIGLU_BACKWARD] = { "gate_up", "d_out", "d_gate_up" },
    [OP_CROSS_ENTROPY] = { "logits", "labels", "partial", "loss" },
    [OP_ADAMW] = { "scalars", "gradient", "weight", "master", "first", "second" },
    [OP_FILL] = { "out" },
    [OP_COPY] = { "to", "from" },
    [OP_SUM] = { "out", "x" },
    [OP_TOKENS] = { "scalars", "tokens", "labels" },
    [OP_STEP_BEGIN] = { "scalars" },
    [OP_SQUARE_SUM] = { "x", "limbs" },
    [OP_STEP_CLIP] = { "limbs", "loss", "scalars" },
    [OP_INITIALIZE] = { "out" },
    [OP_SCALE] = { "x" },
    [OP_FLIP] = { "x" },
};

int op_operand_count(op_kind kind)
{
    int count = 0;
    while (count < NAMES && names[kind][count]) count++;
    return count;
}

const char *op_operand_name(op_kind kind, int which)
{
    return which < op_operand_count(kind) ? names[kind][which] : "operand";
}

/* One operation of the process is judged at a time. */
static struct {
    bool on;
    const char *lack;
    op filled;
} judged;

void op_lacks(const op *o, const char *what)
{
    char text[OP_TEXT];
    if (!judged.on) FAIL("%s: %s", op_describe(o, text, sizeof text), what);
    if (!judged.lack) judged.lack = what;
}

bool op_is_judged(const op *o)
{
    if (judged.on) judged.filled = *o;
    return judged.on;
}

static bool is_byte_bool(const void *flag)
{
    unsigned char byte;
    memcpy(&byte, flag, 1);
    return byte <= 1;
}

enum { LARGEST = 1 << 30, LONGEST_STREAM = 1 << 24 };
static bool within(int64_t x, int64_t limit) { return x >= 0 && x <= limit; }

/* Constants that a kernel counts or chooses by; others are numbers, any of which may be computed with. */
static bool args_are_sane(const op *o)
{
    const op_args *a = &o->args;
    switch (o->kind) {
    case OP_ATTENTION_FORWARD:
    case OP_ATTENTION_BACKWARD: return is_byte_bool(&a->attention.causal);
    case OP_EMBEDDING_FORWARD:
    case OP_EMBEDDING_BACKWARD: return within(a->vocabulary.first, LARGEST);
    case OP_CROSS_ENTROPY:
        return within((int64_t)a->cross_entropy.part, CROSS_ENTROPY_FINISH) &&
               within(a->cross_entropy.first, LARGEST) && within(a->cross_entropy.valid, LARGEST);
    case OP_TOKENS:
        return within((int64_t)a->tokens.stream, STREAM_ZEROS) && is_byte_bool(&a->tokens.labels_next) &&
               a->tokens.vocabulary > 2 && within(a->tokens.vocabulary, LARGEST) &&
               within(a->tokens.first_sample, LARGEST) && within(a->tokens.first, LONGEST_STREAM) &&
               within(a->tokens.skip, LONGEST_STREAM);
    case OP_STEP_BEGIN:
        return is_byte_bool(&a->step_begin.constant) && is_byte_bool(&a->step_begin.from_zero) &&
               within(a->step_begin.warmup, LARGEST) && within(a->step_begin.total, LARGEST);
    case OP_INITIALIZE:
        return within(a->initialize.first_row, LARGEST) && within(a->initialize.first_column, LARGEST) &&
               within(a->initialize.rows, LARGEST) && within(a->initialize.columns, LARGEST);
    case OP_FLIP: return within(a->flip.index, tensor_elements(&o->operand[0].tensor) - 1);
    default: return true;
    }
}

static void fill_network(queue *q, const op *o, const tensor x[NAMES])
{
    access_mode how[NAMES];
    const op_args *a = &o->args;
    for (int i = 0; i < NAMES; i++) how[i] = o->operand[i].access;
    switch (o->kind) {
    case OP_MATMUL: matmul(q, "", x[0], how[0], x[1], x[2]); break;
    case OP_NORM_FORWARD:
        norm_forward(q, "", (norm_forward_operands){ x[0], x[1], x[2], x[3], x[4], x[5] }, a->norm.epsilon);
        break;
    case OP_NORM_BACKWARD:
        norm_backward(q, "", (norm_backward_operands){ x[0], x[1], x[2], x[3], x[4], x[5], how[4], how[5] });
        break;
    case OP_ROPE_FORWARD: rope_forward(q, "", x[0], x[1]); break;
    case OP_ROPE_BACKWARD: rope_backward(q, "", x[0], x[1]); break;
    case OP_ATTENTION_FORWARD:
        attention_forward(q, "", (attention_forward_operands){ x[0], x[1], x[2], x[3], x[4] }, a->attention);
        break;
    case OP_ATTENTION_BACKWARD:
        attention_backward(
            q, "",
            (attention_backward_operands){ x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], how[6], how[7] },
            a->attention);
        break;
    case OP_ATTENTION_MERGE: attention_merge(q, "", x[0], x[1], x[2], x[3]); break;
    case OP_ADD: add(q, "", x[0], x[1], x[2]); break;
    case OP_SWIGLU_FORWARD: swiglu_forward(q, "", x[0], x[1]); break;
    case OP_SWIGLU_BACKWARD: swiglu_backward(q, "", x[0], x[1], x[2]); break;
    case OP_EMBEDDING_FORWARD: embedding_forward(q, "", x[0], x[1], x[2], a->vocabulary.first); break;
    case OP_EMBEDDING_BACKWARD: embedding_backward(q, "", x[0], x[1], x[2], how[2], a->vocabulary.first); break;
    default: op_lacks(o, "operations of this kind are not run alone");
    }
}

static void fill_loss(queue *q, const op *o, const tensor x[NAMES])
{
    const cross_entropy_args *a = &o->args.cross_entropy;
    cross_entropy_operands all = { x[0], x[1], x[2], x[3], a->first, a->valid, a->gradient_scale };
    if (a->part == CROSS_ENTROPY_FINISH) cross_entropy_finish(q, "", &all);
    else cross_entropy_partial(q, "", &all);
}

/* What planted faults do to a tensor has no filler. */
static void fill_strike(const op *o)
{
    const tensor *t = &o->operand[0].tensor;
    op filled = { .kind = o->kind, .operands = 1, .operand = { { *t, UPDATE } }, .args = o->args };
    if (t->type != F32 && t->type != BF16 && t->type != F64) op_lacks(o, "only floating-point numbers are struck");
    op_is_judged(&filled);
}

static void fill_step(queue *q, const op *o, const tensor x[NAMES])
{
    const op_args *a = &o->args;
    switch (o->kind) {
    case OP_CROSS_ENTROPY: fill_loss(q, o, x); break;
    case OP_ADAMW: adamw(q, "", &(adamw_operands){ x[0], x[1], x[2], x[3], x[4], x[5] }, a->adamw); break;
    case OP_INITIALIZE: initialize(q, "", x[0], &a->initialize); break;
    case OP_FILL: fill(q, "", x[0], a->fill.value); break;
    case OP_COPY: copy(q, "", x[0], o->operand[0].access, x[1]); break;
    case OP_SUM: sum(q, "", x[0], o->operand[0].access, x[1]); break;
    case OP_TOKENS: tokens(q, "", x[0], x[1], x[2], &a->tokens); break;
    case OP_STEP_BEGIN: step_begin(q, "", x[0], &a->step_begin); break;
    case OP_SQUARE_SUM: square_sum(q, "", x[0], x[1]); break;
    case OP_STEP_CLIP: step_clip(q, "", x[0], x[1], x[2], &a->step_clip); break;
    case OP_SCALE:
    case OP_FLIP: fill_strike(o); break;
    default: fill_network(q, o, x);
    }
}

/* The operands whose access a caller chooses, WRITE or UPDATE. */
static bool is_chosen(const op *o, int i)
{
    switch (o->kind) {
    case OP_MATMUL:
    case OP_COPY:
    case OP_SUM: return i == 0;
    case OP_EMBEDDING_BACKWARD: return i == 2;
    case OP_NORM_BACKWARD: return i == 4 || i == 5;
    case OP_ATTENTION_BACKWARD: return i >= 6;
    default: return false;
    }
}

static bool accesses_are_those(const op *o)
{
    bool same = judged.filled.operands == o->operands;
    for (int i = 0; same && i < o->operands; i++)
        same = judged.filled.operand[i].access == o->operand[i].access &&
               !(is_chosen(o, i) && o->operand[i].access == READ);
    return same;
}

static bool writes_something(const op *o)
{
    bool any = false;
    for (int i = 0; i < o->operands; i++)
        any = any || (o->operand[i].access != READ && tensor_elements(&o->operand[i].tensor) > 0);
    return any;
}

/* delta, sum, master and a partial's loss may be absent. */
static bool may_be_absent(const op *o, int i)
{
    return (o->kind == OP_NORM_FORWARD && (i == 1 || i == 3)) || (o->kind == OP_ADAMW && i == 3) ||
           (o->kind == OP_CROSS_ENTROPY && i == 3);
}

const char *op_judge(const op *o)
{
    tensor x[NAMES];
    machine_options paper = { .kind = MACHINE_HOST, .on_paper = true };
    if (op_operand_count(o->kind) == 0 || o->operands != op_operand_count(o->kind))
        return "it has not the operands of its kind";
    for (int i = 0; i < NAMES; i++) x[i] = o->operand[i].tensor;
    for (int i = 0; i < o->operands; i++)
        if (tensor_elements(&x[i]) == 0 && !(x[i].dims == 0 && may_be_absent(o, i))) return "an operand is empty";
    if (!args_are_sane(o)) return "its constants are out of bounds";
    if (!writes_something(o)) return "it writes nothing";
    machine *m = machine_open(&paper);
    judged.on = true;
    judged.lack = NULL;
    judged.filled = (op){ .kind = OP_KINDS };
    fill_step(machine_queue(m, "judge"), o, x);
    judged.on = false;
    machine_close(m);
    return judged.lack             ? judged.lack
           : accesses_are_those(o) ? NULL
                                   : "its operands are accessed otherwise than by its kind";
}
