/* Filling, copying, adding, digests, and planted faults. */
#include "base/fail.h"
#include "base/fp8.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

static void value_set(const tensor *t, int64_t i, double value)
{
    switch (t->type) {
    case F32: ((float *)t->data)[i] = (float)value; break;
    case BF16: ((uint16_t *)t->data)[i] = bf16_round((float)value); break;
    case F64: ((double *)t->data)[i] = value; break;
    case I32: ((int32_t *)t->data)[i] = (int32_t)clamp_number(value, INT32_MIN, INT32_MAX); break;
    case U64: ((uint64_t *)t->data)[i] = (uint64_t)clamp_number(value, 0.0, 0x1.fffffffffffffp63); break;
    case E4M3:
    case E5M2: ((uint8_t *)t->data)[i] = fp8_round(t->type, (float)value); break;
    default: FAIL("a tensor of no known format");
    }
}

static bool is_float(const tensor *t) { return t->type == F32 || t->type == BF16; }

static void fill_floats(const tensor *t, int64_t at, int64_t n, float value)
{
    float tile[TILE];
    for (int64_t i = 0; i < n; i++) tile[i] = value;
    row_store(row_at(t->data, t->type, at), t->type, tile, n);
}

/* Views that a planted fault fills may have gaps. */
void host_fill(const op *o, void *scratch)
{
    const tensor *t = &o->operand[0].tensor;
    bool fast = is_float(t) && tensor_contiguous(t);
    double value = o->args.fill.value;
    int64_t n = tensor_elements(t);
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        if (fast) fill_floats(t, at, part, (float)value);
        else
            for (int64_t i = at; i < at + part; i++) value_set(t, tensor_place(t, i), value);
    }
}

static void copy_floats(const operand *to, void *place, const float *x, int64_t n)
{
    float tile[TILE];
    if (to->access == UPDATE) {
        float *y = row_update(tile, place, to->tensor.type, n);
        for (int64_t i = 0; i < n; i++) y[i] += x[i];
        row_close(place, to->tensor.type, y, n);
    } else {
        row_store(place, to->tensor.type, x, n);
    }
}

static void copy_values(const tensor *to, const tensor *from, int64_t at, int64_t n, bool adds)
{
    for (int64_t i = at; i < at + n; i++) value_set(to, i, tensor_value(from, i) + (adds ? tensor_value(to, i) : 0.0));
}

/* Only float views may have gaps. */
static void copy_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *to = &o->operand[0].tensor, *from = &o->operand[1].tensor;
    void *place = tensor_row(to, row, at), *old = tensor_row(from, row, at);
    float tile[TILE];
    bool adds = o->operand[0].access == UPDATE;
    if (is_float(to) && is_float(from)) copy_floats(&o->operand[0], place, row_read(tile, old, from->type, n), n);
    else if (to->type == from->type && !adds) memcpy(place, old, (size_t)n * dtype_bytes(to->type));
    else copy_values(to, from, at, n, adds);
}

static void add_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *out = &o->operand[0].tensor, *a = &o->operand[1].tensor, *b = &o->operand[2].tensor;
    float tile[3][TILE];
    const float *x = row_read(tile[1], tensor_row(a, row, at), a->type, n);
    const float *y = row_read(tile[2], tensor_row(b, row, at), b->type, n);
    for (int64_t i = 0; i < n; i++) tile[0][i] = x[i] + y[i];
    row_store(tensor_row(out, row, at), out->type, tile[0], n);
}

/* Contiguous operands are processed in whole tiles, even if rows are short. */
static void run_elementwise(const op *o, row_part *f)
{
    op flat = *o;
    bool dense = true;
    for (int i = 0; i < o->operands; i++) dense = dense && tensor_contiguous(&o->operand[i].tensor);
    for (int i = 0; dense && i < o->operands; i++) flat.operand[i].tensor = tensor_flat(o->operand[i].tensor);
    run_row_parts(&flat, &flat.operand[0].tensor, f);
}

void host_copy(const op *o, void *scratch) { run_elementwise(o, copy_tile); }
void host_add(const op *o, void *scratch) { run_elementwise(o, add_tile); }

void host_sum(const op *o, void *scratch)
{
    double *out = o->operand[0].tensor.data, sum = o->operand[0].access == UPDATE ? *out : 0.0;
    const double *x = o->operand[1].tensor.data;
    int64_t n = tensor_elements(&o->operand[1].tensor);
    for (int64_t i = 0; i < n; i++) sum += x[i];
    *out = sum;
}

void host_scale(const op *o, void *scratch)
{
    const tensor *t = &o->operand[0].tensor;
    int64_t n = tensor_elements(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t place = tensor_place(t, i);
        if (t->type == U64) ((uint64_t *)t->data)[place] *= (uint64_t)o->args.scale.factor;
        else value_set(t, place, tensor_value(t, place) * o->args.scale.factor);
    }
}

/* Flips the highest exponent bit, which is the one below the sign. */
void host_flip(const op *o, void *scratch)
{
    const tensor *t = &o->operand[0].tensor;
    size_t bytes = dtype_bytes(t->type);
    unsigned char *last = (unsigned char *)row_at(t->data, t->type, tensor_place(t, o->args.flip.index)) + bytes - 1;
    *last ^= 0x40u;
}

/* ---- digests ---- */

/* a.place: index of the first element. */
#define DIGEST_TILE(type)                                                                                              \
    static uint64_t digest_##type(digest_args a, const type *x, int64_t n)                                             \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        for (int64_t i = 0; i < n; i++) sum += digest_element(a.key, a.place + i, x[i]);                               \
        return sum;                                                                                                    \
    }
DIGEST_TILE(uint8_t)
DIGEST_TILE(uint16_t)
DIGEST_TILE(uint32_t)
DIGEST_TILE(uint64_t)

static uint64_t digest_tile(digest_args a, size_t bytes, const void *x, int64_t n)
{
    switch (bytes) {
    case 1: return digest_uint8_t(a, x, n);
    case 2: return digest_uint16_t(a, x, n);
    case 4: return digest_uint32_t(a, x, n);
    default: return digest_uint64_t(a, x, n);
    }
}

void host_digest(const op *o, void *scratch)
{
    const tensor *x = &o->operand[0].tensor;
    digest_args a = o->args.digest;
    uint64_t *to = o->operand[1].tensor.data, sum = 0;
    int64_t n = tensor_elements(x);
#pragma omp parallel for schedule(static) reduction(+ : sum) if (n > 4 * TILE)
    for (int64_t at = 0; at < n; at += TILE)
        sum += digest_tile((digest_args){ a.key, a.place + at }, dtype_bytes(x->type), row_at(x->data, x->type, at),
                           smaller(TILE, n - at));
    *to += sum;
}
