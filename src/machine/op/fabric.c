/* Groups of ranks, and fillers of transfers. */
#include "machine/op/fabric.h"
#include "base/random.h"
#include "machine/op/filler.h"
#include <string.h>

group group_line(const char *axis, int first, int stride, int size, int rank)
{
    return (group){ .axis = axis,
                    .size = size,
                    .rank = rank,
                    .first = first,
                    .dims = 1,
                    .dim = { { size, stride } },
                    .handle = -1,
                    .handle_step = 1 };
}

/* Returns the group for the watch. The key is equal on all members and differs for other axes, channels and ranks. */
static activity_group watched(const group *g)
{
    activity_group w = { .first = g->first, .size = g->size, .dims = g->dims };
    uint64_t key = fnv1a(g->axis) ^ (uint64_t)g->channel << 32;
    for (int i = 0; i < g->dims; i++) {
        w.dim[i] = g->dim[i];
        key = (key * 1000003u + (uint64_t)w.dim[i].count) * 1000003u + (uint64_t)w.dim[i].stride;
    }
    w.key = (key * 1000003u + (uint64_t)g->first) | 1u << 31;
    return w;
}

bool group_same(const group *a, const group *b)
{
    return a->first == b->first && a->channel == b->channel && a->size == b->size && strcmp(a->axis, b->axis) == 0;
}

int group_world_rank(const group *g, int member)
{
    activity_group w = watched(g);
    return rank_of_member(&w, member);
}

activity transfer_activity(const op *o)
{
    const tensor *x = &o->operand[0].tensor;
    activity e = op_activity(o->kind, &o->origin);
    e.group = watched(o->args.fabric.group);
    e.number = (int64_t)o->args.fabric.sequence + 1;
    e.order = o->args.fabric.era << 32 | (uint64_t)e.number;
    activity_text(e.axis, sizeof e.axis, o->args.fabric.group->axis);
    if (o->operands == 0 || !tensor_present(x)) return e;
    e.elements = tensor_elements(x);
    activity_text(e.type, sizeof e.type, dtype_name(x->type));
    return e;
}

group group_reversed(const group *g)
{
    group r = *g;
    r.first = group_world_rank(g, g->size - 1);
    r.rank = g->size - 1 - g->rank;
    r.dim[0].stride = -g->dim[0].stride;
    r.handle_first = g->handle_first + (g->size - 1) * g->handle_step;
    r.handle_step = -g->handle_step;
    r.channel = CHANNEL_REVERSED;
    r.connection = NULL;
    return r;
}

static op transfer_op(op_kind kind, group *g, const tensor *operands, const access_mode *chosen)
{
    op o = op_made(kind, operands, chosen);
    o.args.fabric.group = g;
    return o;
}

op all_gather_op(group *g, tensor to, tensor from)
{
    bool in_place = !tensor_present(&from);
    op o = transfer_op(OP_ALL_GATHER, g, (tensor[]){ to, from }, (access_mode[]){ in_place ? UPDATE : WRITE });
    need(tensor_contiguous(&to) && tensor_elements(&to) % g->size == 0, &o, "the parts are not equal and contiguous");
    need(in_place || (tensor_contiguous(&from) && from.type == to.type &&
                      tensor_elements(&from) * g->size == tensor_elements(&to)),
         &o, "the parts differ in size or type");
    return o;
}

op reduce_scatter_op(group *g, tensor x)
{
    op o = transfer_op(OP_REDUCE_SCATTER, g, (tensor[]){ x }, NULL);
    need(tensor_contiguous(&x) && tensor_elements(&x) % g->size == 0, &o, "the parts are not equal and contiguous");
    need(x.type != I32 && !is_fp8(x), &o, "a type that cannot be summed");
    return o;
}

op all_reduce_op(group *g, tensor x)
{
    op o = transfer_op(OP_ALL_REDUCE, g, (tensor[]){ x }, NULL);
    need(tensor_contiguous(&x) && !is_fp8(x), &o, "a tensor with gaps, or of FP8 values");
    return o;
}

op all_to_all_op(group *g, tensor to, tensor from)
{
    op o = transfer_op(OP_ALL_TO_ALL, g, (tensor[]){ to, from }, NULL);
    need(tensor_contiguous(&from) && tensor_elements(&from) % g->size == 0, &o,
         "the parts are not equal and contiguous");
    need(tensor_contiguous(&to) && to.type == from.type && tensor_elements(&to) == tensor_elements(&from), &o,
         "output and input differ in size or type");
    return o;
}

op exchange_op(group *g, const transfer *list, int count)
{
    op o = transfer_op(OP_EXCHANGE, g, NULL, NULL);
    need(count <= OP_OPERANDS, &o, "more transfers than an operation has operands");
    need(count == 0 || g->size > 1, &o, "a group of one");
    for (int i = 0; i < count && i < OP_OPERANDS; i++) {
        need(tensor_contiguous(&list[i].tensor), &o, "a tensor with gaps");
        need(list[i].peer >= 0 && list[i].peer < g->size, &o, "a peer that is not of the group");
        o.operand[o.operands++] = (operand){ list[i].tensor, list[i].send ? READ : WRITE };
        o.args.fabric.peer[i] = (int16_t)list[i].peer;
    }
    return o;
}
