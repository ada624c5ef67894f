/* The shadow. */
#include "machine/shadow.h"
#include "base/fail.h"
#include "base/random.h"
#include "machine/backend.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a sampled product so many rows and columns, of an update so many elements; of every SAMPLED_OPERATIONS one is taken. */
enum { SAMPLED_ROWS = 4, SAMPLED_COLUMNS = 64, SAMPLED_ELEMENTS = 1 << 16, SAMPLED_OPERATIONS = 8 };

struct shadow {
    shadow_mode mode;
    int rank;
    const backend *host; void *state; tally tally; uint64_t serial;
    op part;                            /* of the operation at hand: what is compared, on the machine's tensors */
    op_copy before, reference;          /* what went in; what the host made of it */
    uint64_t draws;
    shadow_report report;
};

shadow *shadow_open(int rank)
{
    shadow *s = calloc(1, sizeof *s);
    machine_options options = { .kind = MACHINE_HOST, .world_rank = rank };
    if (!s) FAIL("no memory for a shadow");
    s->rank = rank;
    s->host = host_backend();
    s->state = s->host->open(&options, &s->tally);
    return s;
}

void shadow_set(shadow *s, shadow_mode mode) { s->mode = mode; }

void shadow_close(shadow *s)
{
    s->host->close(s->state);
    free(s);
}

const shadow_report *shadow_read(const shadow *s) { return &s->report; }

/* A function of what the operation is, so that all ranks and runs take the same ones. */
static uint32_t draw_of(const op *o)
{
    philox_block counter = { { fnv1a(o->origin.name ? o->origin.name : ""), (uint32_t)o->kind, (uint32_t)o->origin.phase, 4 } };
    return philox4x32(counter, 0, 0).word[0];
}

bool shadow_wants(const shadow *s, const op *o)
{
    if (s->mode == SHADOW_OFF || op_is_transfer(o->kind) || o->operands == 0) return false;
    return s->mode == SHADOW_FULL || (o->origin.microbatch <= 0 && draw_of(o) % SAMPLED_OPERATIONS == 0);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void slice(op *o, int which, int dim, int64_t start, int64_t length)
{
    tensor *t = &o->operand[which].tensor;
    if (tensor_present(t)) *t = tensor_slice(*t, dim, start, length);
}

/* Where a part of so many out of n begins. */
static int64_t start_of(shadow *s, int64_t n, int64_t part)
{
    philox_block counter = { { (uint32_t)s->draws++, 0, 0, 5 } };
    return (int64_t)(philox4x32(counter, 0, 0).word[0] % (uint32_t)(n - part + 1));
}

static void product_part(shadow *s, op *o)
{
    const int64_t *dim = o->operand[0].tensor.dim;
    int64_t rows = smaller(SAMPLED_ROWS, dim[0]), columns = smaller(SAMPLED_COLUMNS, dim[1]);
    int64_t row = start_of(s, dim[0], rows), column = start_of(s, dim[1], columns);
    slice(o, 1, 0, row, rows);
    slice(o, 2, 1, column, columns);
    slice(o, 0, 0, row, rows);
    slice(o, 0, 1, column, columns);
}

/* One group of heads of one batch row: dims [s, b, heads, d], statistics [b, heads, s]. */
static void attention_part(shadow *s, op *o)
{
    enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV };
    static const int by_query[] = { Q, OUT, D_OUT, DQ }, by_key[] = { K, V, DK, DV };
    const int64_t *q = o->operand[Q].tensor.dim, heads = o->operand[K].tensor.dim[2], group = q[2] / heads;
    int64_t head = start_of(s, heads, 1), row = start_of(s, q[1], 1);
    slice(o, LSE, 0, row, 1);
    slice(o, LSE, 1, head * group, group);
    for (int i = 0; i < 4; i++) {
        slice(o, by_key[i], 1, row, 1);
        slice(o, by_key[i], 2, head, 1);
        slice(o, by_query[i], 1, row, 1);
        slice(o, by_query[i], 2, head * group, group);
    }
}

static void update_part(shadow *s, op *o)
{
    int64_t n = tensor_elements(&o->operand[2].tensor), part = smaller(SAMPLED_ELEMENTS, n), first = start_of(s, n, part);
    for (int i = 1; i < o->operands; i++) {
        tensor *t = &o->operand[i].tensor;
        if (tensor_present(t)) *t = tensor_slice(tensor_flat(*t), 0, first, part);
    }
}

/* What is compared of a sampled operation: such a part of its operands that the host makes the same part of its results from it. */
static op part_of(shadow *s, const op *o)
{
    op part = *o;
    if (s->mode != SHADOW_SAMPLED) return part;
    if (o->kind == OP_MATMUL) product_part(s, &part);
    if (o->kind == OP_ATTENTION_FORWARD || o->kind == OP_ATTENTION_BACKWARD) attention_part(s, &part);
    if (o->kind == OP_ADAMW) update_part(s, &part);
    return part;
}

static void copy_bytes(void *from, void *to, tensor t)
{
    (void)from;
    memcpy(to, t.data, tensor_span(&t));
}

static void run_on_host(shadow *s, const op *o)
{
    size_t bytes = s->host->prepare(s->state, o);
    void *scratch = s->host->take((bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT);
    s->host->scratch(s->state, 0, scratch, bytes);
    s->host->submit(s->state, 0, ++s->serial, o);
    s->host->sync(s->state, 0, s->serial);
    s->host->give_back(scratch);
}

void shadow_before(shadow *s, const op *o, op_reader *read, void *from)
{
    s->part = part_of(s, o);
    s->before = op_copy_take(&s->part, read, from);
    s->reference = op_copy_take(&s->before.op, copy_bytes, NULL);
    run_on_host(s, &s->reference.op);
}

static int64_t place_of(const tensor *t, int64_t i)
{
    int64_t place = 0;
    for (int d = t->dims - 1; d >= 0; d--) {
        place += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return place;
}

/* An element, and all its bits: 64-bit integers do not fit a double. */
typedef struct { double value; uint64_t bits; } element;

static element element_of(const tensor *t, const void *data, int64_t place)
{
    element e = { 0.0, 0 };
    memcpy(&e.bits, (const char *)data + (size_t)place * dtype_bytes(t->type), dtype_bytes(t->type));
    if (t->type == F32) e.value = (double)float_from_bits((uint32_t)e.bits);
    if (t->type == BF16) e.value = (double)bf16_widen((uint16_t)e.bits);
    if (t->type == F64) memcpy(&e.value, &e.bits, sizeof e.value);
    if (t->type == I32) e.value = (double)(int32_t)e.bits;
    if (t->type == U64) e.value = (double)e.bits;
    return e;
}

static double largest_of(const tensor *t)
{
    double largest = 0.0;
    for (int64_t i = 0; i < tensor_elements(t); i++) largest = fmax(largest, fabs(element_of(t, t->data, place_of(t, i)).value));
    return largest;
}

/* Error in units of what is allowed; infinite where nothing is. */
static double ratio_of(element x, element want, shadow_limit limit, double largest)
{
    double error = fabs(x.value - want.value), units = fmax(fabs(x.value), fabs(want.value));
    double allowed = limit.exact ? 0.0 : limit.roundings * units + limit.absolute * largest;
    if (x.bits == want.bits || (isnan(x.value) && isnan(want.value))) return 0.0;
    return allowed > 0.0 && isfinite(error) ? error / allowed : INFINITY;
}

/* The worst element of one operand. */
typedef struct { double ratio; int which; int64_t index; double got, want; } finding;

static finding compare_operand(shadow *s, int i, const void *got)
{
    const tensor *t = &s->reference.op.operand[i].tensor;
    shadow_limit limit = shadow_limit_of(&s->part, i);
    double largest = largest_of(t);
    finding worst = { .ratio = -1.0, .which = i };
    for (int64_t k = 0; k < tensor_elements(t); k++) {
        int64_t place = place_of(t, k);
        element x = element_of(t, got, place), want = element_of(t, t->data, place);
        double ratio = ratio_of(x, want, limit, largest);
        if (ratio > worst.ratio) worst = (finding){ ratio, i, k, x.value, want.value };
    }
    s->report.elements += tensor_elements(t);
    return worst;
}

static void keep_mismatch(shadow *s, const op *o, const finding *f)
{
    char what[200], reason[200];
    shadow_report *r = &s->report;
    if (r->failed++) return;
    snprintf(r->sentence, sizeof r->sentence, "%s: element %lld of operand %d is %.9g, the host has %.9g, %.3g times what is allowed",
             op_describe(o, what, sizeof what), (long long)f->index, f->which, f->got, f->want, f->ratio);
    if (s->rank < 0) return;
    snprintf(r->file, sizeof r->file, "xgsw-mismatch-%d.op", s->rank);
    if (!op_file_write(r->file, &s->before.op, reason, sizeof reason)) r->file[0] = 0;
}

static void keep(shadow *s, const op *o, const finding *f)
{
    shadow_report *r = &s->report;
    r->operations++;
    if (f->ratio >= r->worst) {
        r->worst = f->ratio;
        op_describe(o, r->worst_operation, sizeof r->worst_operation);
    }
    if (!(f->ratio <= 1.0)) keep_mismatch(s, o, f);
}

void shadow_after(shadow *s, const op *o, op_reader *read, void *from)
{
    finding worst = { .ratio = 0.0 };
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &s->part.operand[i];
        if (!tensor_present(&x->tensor)) continue;
        void *got = malloc(tensor_span(&x->tensor) + 1);
        if (!got) FAIL("no memory for a copy of %zu bytes", tensor_span(&x->tensor));
        read(from, got, x->tensor);
        finding f = x->access == READ ? worst : compare_operand(s, i, got);
        if (f.ratio > worst.ratio) worst = f;
        free(got);
    }
    keep(s, o, &worst);
    op_copy_free(&s->before);
    op_copy_free(&s->reference);
}
