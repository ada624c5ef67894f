/* Operations on their way to a queue: what fillers made is named and handed over. */
#pragma once
#include "base/fail.h"
#include "machine/fabric.h"
#include "machine/kernels.h"
#include "machine/machine.h"

/* Queued, not finished; touches no data. Who asks is the machine's origin, by that name, which must outlive the queue
 * (string constants, table names). Ends the program if the operation lacks something. */
static inline mark submit(queue *q, const char *name, op o)
{
    char text[OP_TEXT];
    o.origin = *machine_origin_now(queue_machine(q));
    o.origin.name = name;
    if (o.lacks) FAIL("%s: %s", op_describe(&o, text, sizeof text), o.lacks);
    return op_submit(q, &o);
}

static inline mark matmul(queue *q, const char *name, tensor c, access_mode c_access, tensor a, tensor b)
{
    return submit(q, name, matmul_op(c, c_access, a, b));
}
static inline mark norm_forward(queue *q, const char *name, norm_forward_operands o, float epsilon)
{
    return submit(q, name, norm_forward_op(o, epsilon));
}
static inline mark norm_backward(queue *q, const char *name, norm_backward_operands o)
{
    return submit(q, name, norm_backward_op(o));
}
static inline mark rope_forward(queue *q, const char *name, tensor x, tensor table)
{
    return submit(q, name, rope_forward_op(x, table));
}
static inline mark rope_backward(queue *q, const char *name, tensor x, tensor table)
{
    return submit(q, name, rope_backward_op(x, table));
}
static inline mark attention_forward(queue *q, const char *name, attention_forward_operands o, attention_args args)
{
    return submit(q, name, attention_forward_op(o, args));
}
static inline mark attention_backward(queue *q, const char *name, attention_backward_operands o, attention_args args)
{
    return submit(q, name, attention_backward_op(o, args));
}
static inline mark attention_merge(queue *q, const char *name, tensor out, tensor lse, tensor part, tensor part_lse)
{
    return submit(q, name, attention_merge_op(out, lse, part, part_lse));
}
static inline mark add(queue *q, const char *name, tensor out, tensor a, tensor b)
{
    return submit(q, name, add_op(out, a, b));
}
static inline mark swiglu_forward(queue *q, const char *name, tensor gate_up, tensor out)
{
    return submit(q, name, swiglu_forward_op(gate_up, out));
}
static inline mark swiglu_backward(queue *q, const char *name, tensor gate_up, tensor d_out, tensor d_gate_up)
{
    return submit(q, name, swiglu_backward_op(gate_up, d_out, d_gate_up));
}
static inline mark embedding_forward(queue *q, const char *name, tensor tokens, tensor table, tensor out, int64_t first)
{
    return submit(q, name, embedding_forward_op(tokens, table, out, first));
}
static inline mark embedding_backward(queue *q, const char *name, tensor tokens, tensor d_out, tensor gradient,
                                      access_mode gradient_access, int64_t first)
{
    return submit(q, name, embedding_backward_op(tokens, d_out, gradient, gradient_access, first));
}
static inline mark cross_entropy_partial(queue *q, const char *name, const cross_entropy_operands *o)
{
    return submit(q, name, cross_entropy_partial_op(o));
}
static inline mark cross_entropy_finish(queue *q, const char *name, const cross_entropy_operands *o)
{
    return submit(q, name, cross_entropy_finish_op(o));
}
static inline mark adamw(queue *q, const char *name, const adamw_operands *o, adamw_rule rule)
{
    return submit(q, name, adamw_op(o, rule));
}
static inline mark initialize(queue *q, const char *name, tensor out, const initialize_args *args)
{
    return submit(q, name, initialize_op(out, args));
}
static inline mark fill(queue *q, const char *name, tensor out, double value)
{
    return submit(q, name, fill_op(out, value));
}
static inline mark copy(queue *q, const char *name, tensor to, access_mode to_access, tensor from)
{
    return submit(q, name, copy_op(to, to_access, from));
}
static inline mark sum(queue *q, const char *name, tensor out, access_mode out_access, tensor x)
{
    return submit(q, name, sum_op(out, out_access, x));
}
static inline mark tokens(queue *q, const char *name, tensor scalars, tensor tokens, tensor labels,
                          const tokens_args *args)
{
    return submit(q, name, tokens_op(scalars, tokens, labels, args));
}
static inline mark step_begin(queue *q, const char *name, tensor scalars, const step_begin_args *args)
{
    return submit(q, name, step_begin_op(scalars, args));
}
static inline mark square_sum(queue *q, const char *name, tensor x, tensor limbs)
{
    return submit(q, name, square_sum_op(x, limbs));
}
static inline mark step_clip(queue *q, const char *name, tensor limbs, tensor loss, tensor scalars,
                             const step_clip_args *args)
{
    return submit(q, name, step_clip_op(limbs, loss, scalars, args));
}
static inline mark all_gather(queue *q, const char *name, group *g, tensor to, tensor from)
{
    return submit(q, name, all_gather_op(g, to, from));
}
static inline mark reduce_scatter(queue *q, const char *name, group *g, tensor to, tensor from)
{
    return submit(q, name, reduce_scatter_op(g, to, from));
}
static inline mark all_reduce(queue *q, const char *name, group *g, tensor x)
{
    return submit(q, name, all_reduce_op(g, x));
}
static inline mark fabric_exchange(queue *q, const char *name, group *g, const transfer *list, int count)
{
    return submit(q, name, exchange_op(g, list, count));
}
