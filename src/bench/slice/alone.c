/* Operands of one operation. */
#include "bench/slice/alone.h"
#include "base/fp8.h"
#include "base/memory.h"
#include "base/random.h"
#include "machine/queue/submit.h"
#include <math.h>
#include <string.h>

/* ---- places ---- */

/* Lists the operands that have bytes, by address. Returns how many. */
static int by_address(const op *o, int list[OP_OPERANDS])
{
    int count = 0;
    for (int i = 0; i < o->operands; i++) {
        const tensor *t = &o->operand[i].tensor;
        if (tensor_span(t) == 0) continue;
        int at = count++;
        for (; at > 0 && o->operand[list[at - 1]].tensor.data > t->data; at--) list[at] = list[at - 1];
        list[at] = i;
    }
    return count;
}

op alone_on_paper(const op *noted, size_t *bytes)
{
    enum { ALIGNMENT = 256 }; /* of device memory */
    op o = *noted;
    arena paper;
    int list[OP_OPERANDS], count = by_address(noted, list);
    size_t end = 0, moved = 0; /* of the overlapping operands so far: their end before, and by how much they move */
    arena_open(&paper, NULL, 0);
    *bytes = 0;
    for (int i = 0; i < o.operands; i++)
        if (tensor_present(&o.operand[i].tensor)) o.operand[i].tensor.data = paper.base;
    for (int i = 0; i < count; i++) {
        const tensor *from = &noted->operand[list[i]].tensor;
        size_t begin = arena_paper_offset(from->data);
        if (begin >= end) moved = begin - (*bytes + (begin - *bytes) % ALIGNMENT);
        if (begin + tensor_span(from) > end) end = begin + tensor_span(from);
        o.operand[list[i]].tensor.data = paper.base + (begin - moved);
        *bytes = end - moved;
    }
    return o;
}

op alone_in(const op *on_paper, char *memory)
{
    op o = *on_paper;
    for (int i = 0; i < o.operands; i++) {
        tensor *t = &o.operand[i].tensor;
        if (tensor_present(t)) t->data = memory + arena_paper_offset(t->data);
    }
    return o;
}

/* ---- values ---- */

/* All elements that the tensor spans, gaps included. */
static tensor spanned(tensor t) { return tensor_2d(t.data, t.type, 1, (int64_t)(tensor_span(&t) / dtype_bytes(t.type))); }

static bool is_named(const char *name, const char *ending)
{
    size_t length = strlen(name), of_ending = strlen(ending);
    return length >= of_ending && strcmp(name + length - of_ending, ending) == 0;
}

/* Returns the number that the operand has everywhere, or NaN: normal numbers. In place, rotations keep magnitudes. */
static double constant_of(const op *o, const char *name)
{
    bool rotates = o->kind == OP_ROPE_FORWARD || o->kind == OP_ROPE_BACKWARD;
    if (is_named(name, "rstd")) return 1.0;
    if (is_named(name, "second")) return 1e-4;
    if (is_named(name, "lse")) return log((double)o->operand[1].tensor.dim[0]) + 0.5; /* of so many normal scores */
    return rotates && is_named(name, "table") ? sqrt(0.5) : (double)NAN;
}

/* Returns how many values an index may have; 0: it is no index, and zero. */
static int64_t values_of(const op *o, const char *name, int64_t vocabulary)
{
    const tensor *first = &o->operand[0].tensor, *second = &o->operand[1].tensor;
    if (is_named(name, "tokens") || is_named(name, "labels")) return vocabulary;
    if (is_named(name, "choices")) return first->dim[first->dims - 1];
    if (is_named(name, "place")) return second->dim[0];
    if (is_named(name, "source")) return CHOICES * (o->kind == OP_PERMUTE ? second : first)->dim[0];
    return is_named(name, "order") ? first->dim[0] : 0;
}

static void fill_indices(const filler *f, tensor t, int64_t values)
{
    int64_t n = (int64_t)(tensor_span(&t) / sizeof(int32_t));
    int32_t *index = allocate(n, sizeof *index, "indices of an operation");
    for (int64_t i = 0; values && i < n; i++)
        index[i] = (int32_t)mulhi(philox4x32((philox_block){ { (uint32_t)i } }, 1, 1).word[0], (uint32_t)values);
    machine_upload(queue_machine(f->queue), t, index);
    free(index);
}

static void fill_normal(const filler *f, tensor t, double deviation)
{
    tensor all = spanned(t);
    initialize_args args = { .seed = 1, .key = 1, .scale = normal_scale(deviation), .rows = 1, .columns = all.dim[1] };
    submit(f->queue, "normal numbers", initialize_op(all, &args));
}

static void fill_scale(const filler *f, tensor t, float scale)
{
    float factors[FP8_FACTORS] = { [FP8_SCALE] = scale, [FP8_INVERSE] = 1.0f / scale };
    machine_upload(queue_machine(f->queue), t, factors);
}

/* Few normal numbers exceed LARGEST deviations. */
static void fill_fp8(const filler *f, tensor t)
{
    enum { LARGEST = 5, FACTORS_BYTES = 256, MOST = (FILLER_BYTES - FACTORS_BYTES) / 2 };
    tensor factors = tensor_1d(f->seed, F32, FP8_FACTORS), all = spanned(t);
    fill_scale(f, factors, fp8_largest(t.type) / LARGEST);
    fill_normal(f, tensor_1d(f->seed + FACTORS_BYTES, BF16, MOST), 1.0);
    for (int64_t at = 0; at < all.dim[1]; at += MOST) {
        int64_t n = all.dim[1] - at < MOST ? all.dim[1] - at : MOST;
        tensor codes = tensor_slice(all, 1, at, n);
        codes.scale = factors.data;
        submit(f->queue, "FP8 values",
               quantize_op(tensor_2d(f->seed + FACTORS_BYTES, BF16, 1, n), (encoding){ .codes = codes }));
    }
}

static void fill_operand(const filler *f, const op *o, int i)
{
    const char *name = op_rules[o->kind].operand[i].name;
    tensor t = o->operand[i].tensor;
    double constant = t.type == F64 ? 1.0 : constant_of(o, name);
    if (t.type == I32) fill_indices(f, t, values_of(o, name, f->vocabulary));
    else if (t.type == U64) machine_memory_clear(f->kind, t.data, 0, tensor_span(&t));
    else if (t.type == E4M3 || t.type == E5M2) fill_fp8(f, t);
    else if (is_named(name, "scale")) fill_scale(f, t, 64.0f);
    else if (isnan(constant)) fill_normal(f, t, 1.0);
    else submit(f->queue, "constants", fill_op(tensor_flat(spanned(t)), constant));
}

void filler_fill(const filler *f, const op *o)
{
    for (int i = 0; i < o->operands; i++)
        if (o->operand[i].access != WRITE && tensor_span(&o->operand[i].tensor)) fill_operand(f, o, i);
    machine_sync(queue_machine(f->queue));
}
