/* Parts of operations, kind by kind. Operands stand in the order in which kernels.h names them. */
#include "machine/shadow_part.h"
#include "base/random.h"

enum {
    PRODUCT_ROWS = 4,
    PRODUCT_COLUMNS = 64,
    ELEMENTS = 1 << 16,
    POSITIONS = 32,
    EMBEDDING_COLUMNS = 64,
    WHOLE_BYTES = 1 << 28
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void slice(op *o, int which, int dim, int64_t start, int64_t length)
{
    tensor *t = &o->operand[which].tensor;
    if (which < o->operands && tensor_present(t)) *t = tensor_slice(*t, dim, start, length);
}

/* Where a part of so many out of n begins. */
static int64_t start_of(uint32_t *draws, int64_t n, int64_t part)
{
    philox_block counter = { { (*draws)++, 0, 0, 5 } };
    philox_block drawn = philox4x32(counter, 0, 0);
    return (int64_t)((drawn.word[0] | (uint64_t)drawn.word[1] << 32) % (uint64_t)(n - part + 1));
}

static void product_part(op *o, uint32_t *draws)
{
    const int64_t m = o->operand[0].tensor.dim[0], n = o->operand[0].tensor.dim[1];
    int64_t rows = smaller(PRODUCT_ROWS, m), columns = smaller(PRODUCT_COLUMNS, n);
    int64_t row = start_of(draws, m, rows), column = start_of(draws, n, columns);
    slice(o, 1, 0, row, rows);
    slice(o, 2, 1, column, columns);
    slice(o, 0, 0, row, rows);
    slice(o, 0, 1, column, columns);
}

/* One batch row's heads that share keys; [s, b, heads, d], statistics [b, heads, s]. Of a forward only one of them. */
static void attention_part(op *o, uint32_t *draws)
{
    enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV };
    static const int by_query[] = { Q, OUT, D_OUT, DQ }, by_key[] = { K, V, DK, DV };
    const int64_t batch = o->operand[Q].tensor.dim[1], key_heads = o->operand[K].tensor.dim[2],
                  group = o->operand[Q].tensor.dim[2] / key_heads;
    int64_t row = start_of(draws, batch, 1), key = start_of(draws, key_heads, 1);
    int64_t heads = o->kind == OP_ATTENTION_FORWARD ? 1 : group, head = key * group + start_of(draws, group, heads);
    slice(o, LSE, 0, row, 1);
    slice(o, LSE, 1, head, heads);
    for (int i = 0; i < 4; i++) {
        slice(o, by_key[i], 1, row, 1);
        slice(o, by_key[i], 2, key, 1);
        slice(o, by_query[i], 1, row, 1);
        slice(o, by_query[i], 2, head, heads);
    }
}

static void merge_part(op *o, uint32_t *draws)
{
    const int64_t batch = o->operand[0].tensor.dim[1], heads = o->operand[0].tensor.dim[2];
    int64_t row = start_of(draws, batch, 1), head = start_of(draws, heads, 1);
    for (int i = 0; i < 4; i++) {
        bool statistics = i % 2;
        slice(o, i, statistics ? 0 : 1, row, 1);
        slice(o, i, statistics ? 1 : 2, head, 1);
    }
}

/* Elements of operands that all have as many, from operand `from` on; one with gaps leaves all whole. */
static void element_part(op *o, uint32_t *draws, int from)
{
    int64_t n = tensor_elements(&o->operand[from].tensor), part = smaller(ELEMENTS, n);
    for (int i = from; i < o->operands; i++)
        if (tensor_present(&o->operand[i].tensor) && !tensor_contiguous(&o->operand[i].tensor)) return;
    int64_t first = start_of(draws, n, part);
    for (int i = from; i < o->operands; i++) {
        tensor *t = &o->operand[i].tensor;
        if (tensor_present(t)) *t = tensor_slice(tensor_flat(*t), 0, first, part);
    }
}

/* Positions, along dimension dim[i] of operand i; -1: the operand stays whole. One that counts them otherwise leaves
 * all whole. */
static void position_part(op *o, uint32_t *draws, const int8_t *dim)
{
    int64_t n = o->operand[0].tensor.dim[0], part = smaller(POSITIONS, n), first = start_of(draws, n, part);
    for (int i = 0; i < o->operands; i++) {
        const tensor *t = &o->operand[i].tensor;
        if (tensor_present(t) && dim[i] >= 0 && t->dim[dim[i]] != n) return;
    }
    for (int i = 0; i < o->operands; i++)
        if (dim[i] >= 0) slice(o, i, dim[i], first, part);
}

static void copy_part(op *o, uint32_t *draws)
{
    bool dense = tensor_contiguous(&o->operand[0].tensor) && tensor_contiguous(&o->operand[1].tensor);
    if (dense) element_part(o, draws, 0);
    else position_part(o, draws, (int8_t[]){ 0, 0 });
}

/* A norm's statistics may be of another shape than its rows. */
static void norm_part(op *o, uint32_t *draws, const int8_t *dim, int rstd)
{
    tensor *t = &o->operand[rstd].tensor;
    if (t->dims != 1) *t = tensor_flat(*t);
    position_part(o, draws, dim);
}

/* Partials of all ranks are [ranks, s, b, 3], of one [s, b, 3]. */
static void loss_part(op *o, uint32_t *draws)
{
    int8_t dim[] = { 0, 0, (int8_t)(o->operand[2].tensor.dims == 4), -1 };
    position_part(o, draws, dim);
}

/* Columns of table (or its gradient) and of the rows taken from it. */
static void column_part(op *o, uint32_t *draws)
{
    const tensor *last = &o->operand[2].tensor;
    int64_t n = last->dim[last->dims - 1], part = smaller(EMBEDDING_COLUMNS, n), first = start_of(draws, n, part);
    for (int i = 1; i < 3; i++) slice(o, i, o->operand[i].tensor.dims - 1, first, part);
}

static void take_part(op *o, uint32_t *draws)
{
    static const int8_t all[OP_OPERANDS], forward[] = { 0, 0, -1, 0, 0, 0 }, backward[] = { 0, 0, 0, -1, 0, -1 };
    switch (o->kind) {
    case OP_MATMUL: product_part(o, draws); break;
    case OP_ATTENTION_FORWARD:
    case OP_ATTENTION_BACKWARD: attention_part(o, draws); break;
    case OP_ATTENTION_MERGE: merge_part(o, draws); break;
    case OP_ADAMW: element_part(o, draws, 1); break;
    case OP_ADD:
    case OP_FILL: element_part(o, draws, 0); break;
    case OP_COPY: copy_part(o, draws); break;
    case OP_NORM_FORWARD: norm_part(o, draws, forward, 5); break;
    case OP_NORM_BACKWARD: norm_part(o, draws, backward, 2); break;
    case OP_ROPE_FORWARD:
    case OP_ROPE_BACKWARD:
    case OP_SWIGLU_FORWARD:
    case OP_SWIGLU_BACKWARD: position_part(o, draws, all); break;
    case OP_CROSS_ENTROPY: loss_part(o, draws); break;
    case OP_EMBEDDING_FORWARD:
    case OP_EMBEDDING_BACKWARD: column_part(o, draws); break;
    default: break;
    }
}

shadow_part shadow_part_whole(const op *o)
{
    shadow_part p = { .op = *o };
    for (int i = 0; i < o->operands; i++)
        p.compared[i] = tensor_present(&o->operand[i].tensor) && o->operand[i].access != READ;
    return p;
}

/* The sums over rows: a norm's gradient of its gain, a batch row's loss. */
static bool is_sum_over_rows(op_kind kind, int which)
{
    return (kind == OP_NORM_BACKWARD && which == 5) || (kind == OP_CROSS_ENTROPY && which == 3);
}

static double dense_bytes(const op *o)
{
    double bytes = 0.0;
    for (int i = 0; i < o->operands; i++)
        bytes += (double)tensor_elements(&o->operand[i].tensor) * (double)dtype_bytes(o->operand[i].tensor.type);
    return bytes;
}

shadow_part shadow_part_of(const op *o, uint32_t *draws)
{
    shadow_part p = shadow_part_whole(o);
    take_part(&p.op, draws);
    bool whole = tensor_elements(&p.op.operand[0].tensor) == tensor_elements(&o->operand[0].tensor);
    for (int i = 0; i < o->operands; i++) p.compared[i] = p.compared[i] && (whole || !is_sum_over_rows(o->kind, i));
    if (dense_bytes(&p.op) > WHOLE_BYTES && p.op.kind != OP_ATTENTION_BACKWARD && p.op.kind != OP_ATTENTION_FORWARD)
        p.op.operands = 0;
    return p;
}
