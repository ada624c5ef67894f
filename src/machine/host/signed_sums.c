/* What a sum of gradients over ranks conserves: sums of elements with random signs, and of squares. */
#include "machine/host/host.h"
#include "machine/host/row.h"

typedef struct {
    double of[SLICE_TOTALS];
} slice_totals;

/* n: whole runs of signs, of which the first has this number. */
static void add_tile(slice_totals *t, const float *restrict x, int64_t n, uint64_t key, int64_t run)
{
    float with_sign[TILE];
    double sum = 0.0, squares = 0.0;
    for (int64_t at = 0; at < n; at += SIGN_RUN) {
        uint32_t signs = signs_of(key, run++);
#pragma omp simd
        for (int i = 0; i < SIGN_RUN; i++) with_sign[at + i] = signed_value(x[at + i], signs, i);
    }
#pragma omp simd reduction(+ : sum, squares)
    for (int64_t i = 0; i < n; i++) {
        sum += (double)with_sign[i];
        squares += (double)x[i] * (double)x[i];
    }
    t->of[SLICE_SIGNED] += sum;
    t->of[SLICE_SQUARES] += squares;
}

/* Elements from `first` to before `end` of x. */
static void add_elements(slice_totals *t, const op *o, uint64_t key, int64_t first, int64_t end)
{
    const tensor *x = &o->operand[0].tensor;
    for (int64_t at = first; at < end; at += TILE) {
        float tile[TILE];
        int64_t n = smaller(TILE, end - at);
        add_tile(t, row_read(tile, row_at(x->data, x->type, at), x->type, n), n, key,
                 (o->args.signed_sums.place + at) / SIGN_RUN);
    }
}

/* One thread adds up a slice, owner by owner: the order does not depend on the number of threads. */
void host_signed_sums(const op *o, void *scratch)
{
    const signed_sums_args *a = &o->args.signed_sums;
    const double *scalars = o->operand[1].tensor.data;
    double *to = o->operand[2].tensor.data;
    int64_t part = tensor_elements(&o->operand[0].tensor) / a->owners;
    uint64_t key = signs_key(a->key, scalars[SCALAR_STEP]);
#pragma omp parallel for schedule(static) if (part > 4 * TILE)
    for (int slice = 0; slice < SUM_SLICES; slice++) {
        slice_totals t = { { 0.0 } };
        for (int64_t from = 0; from < a->owners * part; from += part)
            add_elements(&t, o, key, from + slice_begin(part, slice), from + slice_begin(part, slice + 1));
        memcpy(&to[slice * SLICE_TOTALS], &t, sizeof t);
    }
}
