/* Fillers of the transfers. */
#include "machine/fabric.h"
#include "base/fail.h"

static op transfer_op(queue *q, op_kind kind, const char *name, group *g)
{
    op o = { .kind = kind, .args.fabric.group = g, .origin = *machine_origin_now(queue_machine(q)) };
    o.origin.name = name;
    return o;
}

static void need(bool condition, const char *name, const char *what)
{
    if (!condition) FAIL("%s: %s", name, what);
}

/* Formats whose sums are defined, and what a sum may be rounded to. */
static bool sums(dtype from, dtype to)
{
    bool floats = (from == F32 || from == BF16) && (to == F32 || to == BF16);
    return floats || (from == to && (from == F64 || from == U64));
}

mark all_gather(queue *q, const char *name, group *g, tensor to, tensor from)
{
    bool in_place = !tensor_present(&from);
    need(tensor_contiguous(&to) && tensor_elements(&to) % g->size == 0, name, "all_gather into equal contiguous parts");
    need(in_place || (tensor_contiguous(&from) && from.type == to.type &&
                      tensor_elements(&from) * g->size == tensor_elements(&to)),
         name, "all_gather of parts that do not make the whole");
    op o = transfer_op(q, OP_ALL_GATHER, name, g);
    o.operands = 2;
    o.operand[0] = (operand){ to, in_place ? UPDATE : WRITE };
    o.operand[1] = (operand){ from, READ };
    return op_submit(q, &o);
}

mark reduce_scatter(queue *q, const char *name, group *g, tensor to, tensor from)
{
    bool in_place = !tensor_present(&to);
    need(tensor_contiguous(&from) && tensor_elements(&from) % g->size == 0, name,
         "reduce_scatter from equal contiguous parts");
    need(in_place || (tensor_contiguous(&to) && tensor_elements(&to) * g->size == tensor_elements(&from)), name,
         "reduce_scatter into something that is not one part");
    need(sums(from.type, in_place ? from.type : to.type), name, "reduce_scatter of formats that do not add");
    op o = transfer_op(q, OP_REDUCE_SCATTER, name, g);
    o.operands = 2;
    o.operand[0] = (operand){ to, WRITE };
    o.operand[1] = (operand){ from, in_place ? UPDATE : READ };
    return op_submit(q, &o);
}

mark all_reduce(queue *q, const char *name, group *g, tensor x)
{
    need(tensor_contiguous(&x), name, "all_reduce of a tensor with gaps");
    need(sums(x.type, x.type), name, "all_reduce of numbers that do not add");
    op o = transfer_op(q, OP_ALL_REDUCE, name, g);
    o.operands = 1;
    o.operand[0] = (operand){ x, UPDATE };
    return op_submit(q, &o);
}

mark fabric_exchange(queue *q, const char *name, group *g, const transfer *list, int count)
{
    need(count <= OP_OPERANDS, name, "more transfers in one exchange than an operation has operands");
    need(count == 0 || g->size > 1, name, "exchange in a group of one");
    op o = transfer_op(q, OP_EXCHANGE, name, g);
    o.operands = count;
    for (int i = 0; i < count; i++) {
        need(tensor_contiguous(&list[i].tensor), name, "exchange of a tensor with gaps");
        need(list[i].peer >= 0 && list[i].peer < g->size, name, "exchange with a rank that is not of the group");
        o.operand[i] = (operand){ list[i].tensor, list[i].send ? READ : WRITE };
        o.args.fabric.peer[i] = (int16_t)list[i].peer;
    }
    return op_submit(q, &o);
}
