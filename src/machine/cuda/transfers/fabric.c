/* Transfers by NCCL. Sums in one format are made in NCCL's order, and in BF16 rounded at every hop; a sum from one
 * format into another is made in FP32 and rounded once. */
#include "machine/cuda/transfers/fabric.h"
#include "base/fail.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/kernels/compute.h"
#include "machine/cuda/transfers/communicators.h"

typedef struct {
    const op *op;
    group *group;
    const char *name;
    ncclComm_t comm; /* of the communicator, if the group has more than one rank */
    void *scratch;
    cudaStream_t stream;
} cuda_transfer_call;

static ncclDataType_t format(dtype type)
{
    static const ncclDataType_t formats[DTYPES] = {
        [F32] = ncclFloat32, [BF16] = ncclBfloat16, [F64] = ncclFloat64, [I32] = ncclInt32, [U64] = ncclUint64
    };
    return formats[type];
}

static op conversion(const op *o, tensor to, tensor from)
{
    op copy = { .kind = OP_COPY, .operands = 2, .origin = o->origin };
    copy.operand[0] = (operand){ tensor_flat(to), WRITE };
    copy.operand[1] = (operand){ tensor_flat(from), READ };
    return copy;
}

static void convert(const cuda_transfer_call *t, tensor to, tensor from)
{
    op copy = conversion(t->op, to, from);
    cuda_compute(&copy, NULL, 0, t->stream);
}

static void move(const cuda_transfer_call *t, void *to, const void *from, size_t bytes)
{
    if (to != from && bytes) CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, t->stream));
}

static char *part_data(const tensor *whole, const group *g)
{
    return (char *)whole->data + tensor_span(whole) / (size_t)g->size * (size_t)g->rank;
}

static void run_all_gather(const cuda_transfer_call *t)
{
    const tensor *to = &t->op->operand[0].tensor, *from = &t->op->operand[1].tensor;
    char *own = part_data(to, t->group);
    const void *part = tensor_present(from) ? from->data : own;
    size_t count = (size_t)(tensor_elements(to) / t->group->size);
    if (t->group->size == 1) move(t, own, part, tensor_span(to));
    else NCCL(t->name, ncclAllGather(part, to->data, count, format(to->type), t->comm, t->stream));
}

static void sum_parts(const cuda_transfer_call *t, void *to, const tensor *from)
{
    size_t count = (size_t)(tensor_elements(from) / t->group->size);
    NCCL(t->name, ncclReduceScatter(from->data, to, count, format(from->type), ncclSum, t->comm, t->stream));
}

/* Summed in FP32 before it is rounded, or widened before it is summed. */
static void sum_parts_between(const cuda_transfer_call *t, tensor to, tensor from)
{
    bool widens = to.type == F32;
    tensor apart = tensor_1d(t->scratch, F32, tensor_elements(widens ? &from : &to));
    if (t->group->size == 1) {
        convert(t, to, from);
    } else if (widens) {
        convert(t, apart, from);
        sum_parts(t, to.data, &apart);
    } else {
        sum_parts(t, apart.data, &from);
        convert(t, to, apart);
    }
}

static void run_reduce_scatter(const cuda_transfer_call *t)
{
    const tensor *to = &t->op->operand[0].tensor, *from = &t->op->operand[1].tensor;
    void *sum = tensor_present(to) ? to->data : part_data(from, t->group);
    if (tensor_present(to) && to->type != from->type) sum_parts_between(t, *to, *from);
    else if (t->group->size == 1) move(t, sum, from->data, tensor_span(from));
    else sum_parts(t, sum, from);
}

static void run_all_reduce(const cuda_transfer_call *t)
{
    const tensor *x = &t->op->operand[0].tensor;
    size_t count = (size_t)tensor_elements(x);
    if (t->group->size == 1) return;
    NCCL(t->name, ncclAllReduce(x->data, x->data, count, format(x->type), ncclSum, t->comm, t->stream));
}

static void run_exchange(const cuda_transfer_call *t)
{
    const op *o = t->op;
    NCCL(t->name, ncclGroupStart());
    for (int i = 0; i < o->operands; i++) {
        const tensor *x = &o->operand[i].tensor;
        size_t count = (size_t)tensor_elements(x);
        ncclDataType_t type = format(x->type);
        int peer = o->args.fabric.peer[i];
        if (count == 0) continue;
        if (o->operand[i].access == READ) NCCL(t->name, ncclSend(x->data, count, type, peer, t->comm, t->stream));
        else NCCL(t->name, ncclRecv(x->data, count, type, peer, t->comm, t->stream));
    }
    NCCL(t->name, ncclGroupEnd());
}

static bool converts(const op *o)
{
    const tensor *to = &o->operand[0].tensor;
    return o->kind == OP_REDUCE_SCATTER && tensor_present(to) && to->type != o->operand[1].tensor.type;
}

size_t cuda_transfer_scratch(const op *o)
{
    const tensor *to = &o->operand[0].tensor, *from = &o->operand[1].tensor;
    if (!converts(o) || o->args.fabric.group->size == 1) return 0;
    return (size_t)tensor_elements(to->type == F32 ? from : to) * dtype_bytes(F32);
}

bool cuda_transfer_conversion(const op *o, op *copy)
{
    if (!converts(o)) return false;
    tensor to = o->operand[0].tensor, from = tensor_flat(o->operand[1].tensor);
    *copy = conversion(o, to, tensor_slice(from, 0, 0, tensor_elements(&to)));
    return true;
}

/* Nothing is to be moved, on all ranks alike. */
static bool is_empty(const op *o)
{
    const tensor *whole = &o->operand[o->kind == OP_REDUCE_SCATTER].tensor;
    return o->operands == 0 || (o->kind != OP_EXCHANGE && tensor_elements(whole) == 0);
}

void cuda_transfer(const op *o, void *scratch, cudaStream_t stream, int queue_index)
{
    group *g = o->args.fabric.group;
    cuda_transfer_call t = { .op = o, .group = g, .scratch = scratch, .stream = stream };
    if (is_empty(o)) return;
    if (g->size > 1) {
        const cuda_communicator *c = communicator_for(g, queue_index);
        t.name = c->name;
        t.comm = c->comm;
    }
    switch (o->kind) {
    case OP_ALL_GATHER: run_all_gather(&t); break;
    case OP_REDUCE_SCATTER: run_reduce_scatter(&t); break;
    case OP_ALL_REDUCE: run_all_reduce(&t); break;
    default: run_exchange(&t);
    }
}
