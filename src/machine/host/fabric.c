/* The host fabric: every transfer is a set of non-blocking MPI messages, polled by the executor. Sums are made here,
 * in rank order. Messages of one transfer are told from others of the
 * communicator by its channel and sequence number. */
#include "base/fail.h"
#include "machine/host/host.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 30, GATHER_ALL_BYTES = 1 << 14, SUM_BLOCK = 1024 };

typedef struct { int peer, bytes; } expectation;         /* of a receive; bytes of a send: -1 */

struct host_transfer {
    const op *op;
    char *scratch;
    int stage;                              /* all_reduce has two */
    int requests, capacity;
    MPI_Request *request;                   /* [capacity], as the next two */
    MPI_Status *status;
    expectation *expected;
};

static void check(int code, const op *o)
{
    char words[MPI_MAX_ERROR_STRING] = "", what[200];
    int length = 0;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, words, &length);
    FAIL("%s: %s", op_describe(o, what, sizeof what), words);
}

host_transfer *host_transfer_open(void)
{
    host_transfer *t = calloc(1, sizeof *t);
    if (!t) FAIL("no memory for a transfer");
    return t;
}

void host_transfer_close(host_transfer *t)
{
    free(t->request);
    free(t->status);
    free(t->expected);
    free(t);
}

static void *enlarged(void *memory, int count, size_t bytes)
{
    memory = realloc(memory, (size_t)count * bytes);
    if (!memory) FAIL("no memory for %d requests", count);
    return memory;
}

static MPI_Request *next_request(host_transfer *t, expectation expected)
{
    if (t->requests == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 16;
        t->request = enlarged(t->request, t->capacity, sizeof *t->request);
        t->status = enlarged(t->status, t->capacity, sizeof *t->status);
        t->expected = enlarged(t->expected, t->capacity, sizeof *t->expected);
    }
    t->expected[t->requests] = expected;
    return &t->request[t->requests++];
}

/* What must not be confused between two ranks of a communicator, below 32768, which every MPI can do. */
static int transfer_tag(const fabric_args *f, int stage)
{
    enum { TAGS = 32768, STAGES = 2 };
    uint64_t sequences = TAGS / (STAGES * CHANNELS);
    return (int)((f->sequence % sequences * CHANNELS + (uint64_t)f->group->channel) * STAGES) + stage;
}

static void post(host_transfer *t, bool send, void *data, size_t bytes, int peer)
{
    const fabric_args *f = &t->op->args.fabric;
    MPI_Comm comm = MPI_Comm_f2c((MPI_Fint)f->group->handle);
    int rank = f->group->handle_first + peer * f->group->handle_step, tag = transfer_tag(f, t->stage);
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        int piece = (int)(bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES);
        char *from = (char *)data + done;
        MPI_Request *request = next_request(t, (expectation){ peer, send ? -1 : piece });
        check(send ? MPI_Isend(from, piece, MPI_BYTE, rank, tag, comm, request)
                   : MPI_Irecv(from, piece, MPI_BYTE, rank, tag, comm, request), t->op);
    }
}

/* MPI takes a shorter message than expected for success. */
static void check_received(const host_transfer *t, int i)
{
    int bytes;
    char what[200];
    if (t->expected[i].bytes < 0) return;
    check(MPI_Get_count(&t->status[i], MPI_BYTE, &bytes), t->op);
    if (bytes != t->expected[i].bytes)
        FAIL("%s: rank %d of the group sent %d bytes, not %d", op_describe(t->op, what, sizeof what), t->expected[i].peer, bytes,
             t->expected[i].bytes);
}

/* Have all messages of this stage come and gone? */
static bool messages_done(host_transfer *t)
{
    if (t->requests == 0) return true;
    int done = 0, code = MPI_Testall(t->requests, t->request, &done, t->status);
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < t->requests; i++)
        if (t->status[i].MPI_ERROR != MPI_ERR_PENDING) check(t->status[i].MPI_ERROR, t->op);
    check(code, t->op);
    for (int i = 0; done && i < t->requests; i++) check_received(t, i);
    return done != 0;
}

static float widen(const void *x, dtype type, int64_t i)
{
    return type == BF16 ? bf16_widen(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

/* to[i] = sum over ranks r of part(r)[i], in rank order, FP32, rounded once. */
static void sum_f32(void *to, dtype to_type, char *const *part, dtype type, int ranks, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > 4 * SUM_BLOCK)
    for (int64_t block = 0; block < n; block += SUM_BLOCK) {
        float total[SUM_BLOCK] = { 0 };
        int64_t length = n - block < SUM_BLOCK ? n - block : SUM_BLOCK;
        for (int64_t i = 0; i < length; i++) total[i] = widen(part[0], type, block + i);
        for (int r = 1; r < ranks; r++)
            for (int64_t i = 0; i < length; i++) total[i] += widen(part[r], type, block + i);
        for (int64_t i = 0; i < length; i++)
            if (to_type == BF16) ((uint16_t *)to)[block + i] = bf16_round(total[i]);
            else ((float *)to)[block + i] = total[i];
    }
}

static void sum_f64(double *to, char *const *part, int ranks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double total = 0.0;
        for (int r = 0; r < ranks; r++) total += ((const double *)part[r])[i];
        to[i] = total;
    }
}

static void sum_u64(uint64_t *to, char *const *part, int ranks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t total = 0;
        for (int r = 0; r < ranks; r++) total += ((const uint64_t *)part[r])[i];
        to[i] = total;
    }
}

/* The sum over ranks of n elements, own ones at `own`, the others' in scratch at rank * stride bytes. */
static void sum_parts(const host_transfer *t, void *to, dtype to_type, char *own, dtype type, size_t stride, int64_t n)
{
    const group *g = t->op->args.fabric.group;
    char *part[g->size];
    for (int r = 0; r < g->size; r++) part[r] = r == g->rank ? own : t->scratch + (size_t)r * stride;
    if (type == F64) sum_f64(to, part, g->size, n);
    else if (type == U64) sum_u64(to, part, g->size, n);
    else sum_f32(to, to_type, part, type, g->size, n);
}

static void all_gather_start(host_transfer *t)
{
    const group *g = t->op->args.fabric.group;
    const tensor *to = &t->op->operand[0].tensor, *from = &t->op->operand[1].tensor;
    size_t bytes = tensor_span(to) / (size_t)g->size;
    char *whole = to->data, *own = whole + (size_t)g->rank * bytes;
    if (tensor_present(from)) memcpy(own, from->data, bytes);
    for (int r = 0; r < g->size; r++) {
        if (r == g->rank) continue;
        post(t, false, whole + (size_t)r * bytes, bytes, r);
        post(t, true, own, bytes, r);
    }
}

static void reduce_scatter_start(host_transfer *t)
{
    const group *g = t->op->args.fabric.group;
    const tensor *from = &t->op->operand[1].tensor;
    size_t bytes = tensor_span(from) / (size_t)g->size;
    for (int r = 0; r < g->size; r++) {
        if (r == g->rank) continue;
        post(t, false, t->scratch + (size_t)r * bytes, bytes, r);
        post(t, true, (char *)from->data + (size_t)r * bytes, bytes, r);
    }
}

static void reduce_scatter_finish(host_transfer *t)
{
    const group *g = t->op->args.fabric.group;
    const tensor *to = &t->op->operand[0].tensor, *from = &t->op->operand[1].tensor;
    size_t bytes = tensor_span(from) / (size_t)g->size;
    char *own = (char *)from->data + (size_t)g->rank * bytes;
    bool in_place = !tensor_present(to);
    sum_parts(t, in_place ? own : to->data, in_place ? from->type : to->type, own, from->type, bytes,
              tensor_elements(from) / g->size);
}

/* Elements of rank r's part of an all_reduce: small tensors go whole to everybody, larger ones in nearly equal parts. */
static int64_t part_begin(const tensor *x, int ranks, int r)
{
    int64_t n = tensor_elements(x), part = (n + ranks - 1) / ranks, begin = part * r;
    return begin < n ? begin : n;
}

static bool gathers_all(const tensor *x) { return tensor_span(x) <= GATHER_ALL_BYTES; }

static size_t all_reduce_stride(const tensor *x, int ranks)
{
    int64_t n = gathers_all(x) ? tensor_elements(x) : part_begin(x, ranks, 1);
    return (size_t)n * dtype_bytes(x->type);
}

static void all_reduce_start(host_transfer *t)
{
    const group *g = t->op->args.fabric.group;
    const tensor *x = &t->op->operand[0].tensor;
    size_t element = dtype_bytes(x->type), stride = all_reduce_stride(x, g->size);
    bool all = gathers_all(x);
    int64_t own = part_begin(x, g->size, g->rank + 1) - part_begin(x, g->size, g->rank);
    for (int r = 0; r < g->size; r++) {
        int64_t begin = all ? 0 : part_begin(x, g->size, r), end = all ? tensor_elements(x) : part_begin(x, g->size, r + 1);
        if (r == g->rank) continue;
        post(t, false, t->scratch + (size_t)r * stride, all ? stride : (size_t)own * element, r);
        post(t, true, (char *)x->data + (size_t)begin * element, (size_t)(end - begin) * element, r);
    }
}

/* Sums own part; for a large tensor then sends it to everybody (second stage). True when nothing is left to do. */
static bool all_reduce_finish(host_transfer *t)
{
    const group *g = t->op->args.fabric.group;
    const tensor *x = &t->op->operand[0].tensor;
    size_t element = dtype_bytes(x->type);
    bool all = gathers_all(x);
    int64_t begin = all ? 0 : part_begin(x, g->size, g->rank), end = all ? tensor_elements(x) : part_begin(x, g->size, g->rank + 1);
    char *data = x->data, *own = data + (size_t)begin * element;
    if (t->stage == 1) return true;
    sum_parts(t, own, x->type, own, x->type, all_reduce_stride(x, g->size), end - begin);
    if (all) return true;
    t->stage = 1;
    for (int r = 0; r < g->size; r++) {
        int64_t other = part_begin(x, g->size, r), stop = part_begin(x, g->size, r + 1);
        if (r == g->rank) continue;
        post(t, false, data + (size_t)other * element, (size_t)(stop - other) * element, r);
        post(t, true, own, (size_t)(end - begin) * element, r);
    }
    return false;
}

static void exchange_start(host_transfer *t)
{
    const op *o = t->op;
    for (int i = 0; i < o->operands; i++)
        post(t, o->operand[i].access == READ, o->operand[i].tensor.data, tensor_span(&o->operand[i].tensor), o->args.fabric.peer[i]);
}

size_t host_transfer_scratch(const op *o)
{
    size_t ranks = (size_t)o->args.fabric.group->size;
    if (o->kind == OP_REDUCE_SCATTER) return tensor_span(&o->operand[1].tensor);
    if (o->kind == OP_ALL_REDUCE) return ranks * all_reduce_stride(&o->operand[0].tensor, (int)ranks);
    return 0;
}

void host_transfer_start(host_transfer *t, const op *o, void *scratch)
{
    t->op = o;
    t->scratch = scratch;
    t->stage = t->requests = 0;
    if (o->kind == OP_ALL_GATHER) all_gather_start(t);
    if (o->kind == OP_REDUCE_SCATTER) reduce_scatter_start(t);
    if (o->kind == OP_ALL_REDUCE) all_reduce_start(t);
    if (o->kind == OP_EXCHANGE) exchange_start(t);
}

bool host_transfer_test(host_transfer *t)
{
    if (!messages_done(t)) return false;
    t->requests = 0;
    if (t->op->kind == OP_REDUCE_SCATTER) reduce_scatter_finish(t);
    return t->op->kind != OP_ALL_REDUCE || all_reduce_finish(t);
}
