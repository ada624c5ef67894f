/* Places and values of the operands of one operation. */
#include "bench/slice/alone.h"
#include "base/fp8.h"
#include "base/memory.h"
#include "base/random.h"
#include "machine/queue/submit.h"
#include <string.h>

/* Lists the operands that have memory, sorted by address. Returns their number. */
static int sort_by_address(const op *o, int list[OP_OPERANDS])
{
    int count = 0;
    for (int i = 0; i < o->operands; i++) {
        if (tensor_span(&o->operand[i].tensor) == 0) continue;
        int at = count++;
        for (; at > 0 && o->operand[list[at - 1]].tensor.data > o->operand[i].tensor.data; at--)
            list[at] = list[at - 1];
        list[at] = i;
    }
    return count;
}

op alone_on_paper(const op *original, size_t *bytes)
{
    enum { ALIGNMENT = 256 }; /* of device memory in bytes */
    op o = *original;
    arena paper;
    int list[OP_OPERANDS], count = sort_by_address(original, list);
    size_t end = 0, displacement = 0; /* end of the current overlapping operands, and their displacement */
    arena_open(&paper, NULL, 0);
    *bytes = 0;
    for (int i = 0; i < o.operands; i++)
        if (tensor_present(&o.operand[i].tensor)) o.operand[i].tensor.data = paper.base;
    for (int i = 0; i < count; i++) {
        const tensor *from = &original->operand[list[i]].tensor;
        size_t begin = arena_paper_offset(from->data);
        if (begin >= end) displacement = begin - (*bytes + (begin - *bytes) % ALIGNMENT);
        if (begin + tensor_span(from) > end) end = begin + tensor_span(from);
        o.operand[list[i]].tensor.data = paper.base + (begin - displacement);
        *bytes = end - displacement;
    }
    return o;
}

/* ---- values ---- */

/* Returns the number of valid values of an index; 0 if the operand is no index, and gets zeros. */
static int64_t index_values(const op *o, const char *name, int64_t vocabulary)
{
    const tensor *first = &o->operand[0].tensor, *second = &o->operand[1].tensor;
    if (strcmp(name, "tokens") == 0 || strcmp(name, "labels") == 0) return vocabulary;
    if (strcmp(name, "choices") == 0) return first->dim[first->dims - 1];
    if (strcmp(name, "place") == 0) return second->dim[0];
    return strcmp(name, "source") ? 0 : CHOICES * (o->kind == OP_PERMUTE ? second : first)->dim[0];
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

/* Includes the gaps between rows. */
static tensor flat_span(tensor t)
{
    return tensor_2d(t.data, t.type, 1, (int64_t)(tensor_span(&t) / dtype_bytes(t.type)));
}

static void fill_normal(const filler *f, tensor t)
{
    initialize_args args = { .seed = 1, .key = 1, .scale = normal_scale(1.0), .rows = 1, .columns = t.dim[1] };
    submit(f->queue, "normal numbers", initialize_op(t, &args));
}

static void fill_scale(const filler *f, tensor t, float scale)
{
    float factors[FP8_FACTORS];
    fp8_set_factors(factors, scale);
    machine_upload(queue_machine(f->queue), t, factors);
}

static void fill_fp8(const filler *f, tensor t)
{
    enum { DEVIATIONS = 5, FACTORS_BYTES = 256, MOST = (FILLER_BYTES - FACTORS_BYTES) / 2 };
    fill_scale(f, tensor_1d(f->seed, F32, FP8_FACTORS), fp8_largest(t.type) / DEVIATIONS);
    fill_normal(f, tensor_2d(f->seed + FACTORS_BYTES, BF16, 1, t.dim[1] < MOST ? t.dim[1] : MOST));
    for (int64_t at = 0; at < t.dim[1]; at += MOST) {
        int64_t n = t.dim[1] - at < MOST ? t.dim[1] - at : MOST;
        tensor part = tensor_slice(t, 1, at, n), normal = tensor_2d(f->seed + FACTORS_BYTES, BF16, 1, n);
        part.scale = (float *)f->seed;
        submit(f->queue, "FP8 values", quantize_op(normal, (encoding){ .codes = part }));
    }
}

/* Returns whether the operand gets ones, which keep repeated rotations, norms and moments from growing. */
static bool gets_ones(const op *o, const char *name)
{
    bool rotates = o->kind == OP_ROPE_FORWARD || o->kind == OP_ROPE_BACKWARD;
    return (rotates && strcmp(name, "table") == 0) || strcmp(name, "rstd") == 0 || strcmp(name, "second") == 0;
}

static void fill_operand(const filler *f, const op *o, int i)
{
    const char *name = op_rules[o->kind].operand[i].name, *scale = strstr(name, "scale");
    tensor t = o->operand[i].tensor;
    if (t.type == I32) fill_indices(f, t, index_values(o, name, f->vocabulary));
    else if (t.type == U64) machine_memory_clear(f->kind, t.data, 0, tensor_span(&t));
    else if (t.type == E4M3 || t.type == E5M2) fill_fp8(f, flat_span(t));
    else if (scale) fill_scale(f, t, 64.0f);
    else if (t.type == F64 || gets_ones(o, name)) submit(f->queue, "ones", fill_op(flat_span(t), 1.0));
    else fill_normal(f, flat_span(t));
}

void filler_fill(const filler *f, const op *o)
{
    for (int i = 0; i < o->operands; i++)
        if (o->operand[i].access != WRITE && tensor_span(&o->operand[i].tensor)) fill_operand(f, o, i);
    machine_sync(queue_machine(f->queue));
}
