/* Transfers by NCCL. NCCL chooses the order of its sums and rounds BF16 sums at every hop. */
#include "machine/cuda/transfers/fabric.h"
#include "base/fail.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/transfers/communicators.h"
#include "machine/cuda/transfers/windows.h"

typedef struct {
    const op *op;
    group *group;
    const cuda_communicator *communicator; /* NULL if the group has one rank */
    const char *name;
    ncclComm_t comm;
    cudaStream_t stream;
} cuda_transfer_call;

static ncclDataType_t format(dtype type)
{
    static const ncclDataType_t formats[DTYPES] = {
        [F32] = ncclFloat32, [BF16] = ncclBfloat16, [F64] = ncclFloat64, [I32] = ncclInt32,
        [U64] = ncclUint64,  [E4M3] = ncclUint8,    [E5M2] = ncclUint8
    };
    return formats[type];
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

static void run_reduce_scatter(const cuda_transfer_call *t)
{
    const tensor *x = &t->op->operand[0].tensor;
    size_t count = (size_t)(tensor_elements(x) / t->group->size);
    if (t->group->size == 1) return;
    NCCL(t->name,
         ncclReduceScatter(x->data, part_data(x, t->group), count, format(x->type), ncclSum, t->comm, t->stream));
}

static void run_all_reduce(const cuda_transfer_call *t)
{
    const tensor *x = &t->op->operand[0].tensor;
    size_t count = (size_t)tensor_elements(x);
    if (t->group->size == 1) return;
    ncclRedOp_t how = x->type == I32 ? ncclMax : ncclSum;
    NCCL(t->name, ncclAllReduce(x->data, x->data, count, format(x->type), how, t->comm, t->stream));
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

static void send_to_all(const cuda_transfer_call *t, char *to, const char *from, size_t part, ncclDataType_t type,
                        size_t count)
{
    const int ranks = t->group->size, rank = t->group->rank;
    move(t, to + part * (size_t)rank, from + part * (size_t)rank, part);
    NCCL(t->name, ncclGroupStart());
    for (int i = 1; i < ranks; i++) {
        int next = (rank + i) % ranks, previous = (rank + ranks - i) % ranks;
        NCCL(t->name, ncclSend(from + part * (size_t)next, count, type, next, t->comm, t->stream));
        NCCL(t->name, ncclRecv(to + part * (size_t)previous, count, type, previous, t->comm, t->stream));
    }
    NCCL(t->name, ncclGroupEnd());
}

static void run_all_to_all(const cuda_transfer_call *t)
{
    const tensor *to = &t->op->operand[0].tensor, *from = &t->op->operand[1].tensor;
    size_t part = tensor_span(from) / (size_t)t->group->size, count = part / dtype_bytes(from->type);
    if (t->group->size == 1) move(t, to->data, from->data, part);
    else if (cuda_window_holds(from->data, t->communicator) && cuda_window_holds(to->data, t->communicator))
        NCCL(t->name, ncclAlltoAll(from->data, to->data, count, format(from->type), t->comm, t->stream));
    else send_to_all(t, to->data, from->data, part, format(from->type), count);
}

/* Returns whether there is nothing to move. A collective is empty on all ranks or on none. */
static bool is_empty(const op *o)
{
    return o->operands == 0 || (o->kind != OP_EXCHANGE && tensor_elements(&o->operand[0].tensor) == 0);
}

void cuda_transfer(const op *o, cudaStream_t stream)
{
    group *g = o->args.fabric.group;
    cuda_transfer_call t = { .op = o, .group = g, .stream = stream };
    if (is_empty(o)) return;
    if (g->size > 1) {
        t.communicator = communicator_for(g);
        t.name = t.communicator->name;
        t.comm = t.communicator->comm;
    }
    switch (o->kind) {
    case OP_ALL_GATHER: run_all_gather(&t); break;
    case OP_REDUCE_SCATTER: run_reduce_scatter(&t); break;
    case OP_ALL_REDUCE: run_all_reduce(&t); break;
    case OP_ALL_TO_ALL: run_all_to_all(&t); break;
    default: run_exchange(&t);
    }
}
