/* Fragments of a rank, their sums, and the runs that they share with others. */
#include "bench/checkpoint/fragments.h"
#include "base/memory.h"
#include <stdio.h>

const char *const state_names[STATES] = { "weight", "first_moment", "second_moment" };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t block_rows(int64_t columns) { return ((int64_t)1 << 32) / columns; }

static tensor state_of(const bucket *b, saved_state s)
{
    return s == STATE_WEIGHT ? master_shard(b) : s == STATE_FIRST_MOMENT ? b->first : b->second;
}

/* Names are like /bucket-0003/first_moment. */
static void add_datasets(own_fragments *own, const bucket *b, int number)
{
    for (int s = 0; s < STATES; s++) {
        tensor x = state_of(b, (saved_state)s);
        raw_dataset *d = &own->dataset[own->datasets++];
        *d = (raw_dataset){ .type = x.type, .elements = tensor_elements(&x) };
        snprintf(d->group, sizeof d->group, "bucket-%04d", number);
        snprintf(d->name, sizeof d->name, "%s", state_names[s]);
        own->bytes += (double)d->elements * (double)dtype_bytes(d->type);
    }
}

/* Cuts the owned part of a parameter at the ends of blocks. */
static void add_row(own_fragments *own, const trainer *t, const param *p, fragment f)
{
    const bucket *b = &t->stage.params.buckets[p->bucket];
    int64_t columns = p->part.columns, rows = block_rows(p->rule.columns);
    int64_t end = smaller(f.first + f.count, p->part.filled_rows * columns);
    for (int64_t at = f.first, next; at < end; at = next) {
        own_fragment *o = &own->list[own->count++];
        int64_t block = (p->part.first_row + at / columns) / rows;
        next = smaller(end, ((block + 1) * rows - p->part.first_row) * columns);
        o->saved = (saved_fragment){ p->logical, block, t->mesh->rank, p->part.first_row, p->part.first_column,
                                     columns,    at,    next - at };
        for (int s = 0; s < STATES; s++) o->saved.bytes[s] = (int64_t)dtype_bytes(state_of(b, (saved_state)s).type);
        o->p = p, o->b = b;
        o->shard_offset = p->offset + at - b->shard_first;
        o->writes = bucket_first_owner(b);
        o->dataset = own->datasets - STATES;
    }
}

own_fragments fragments_of(const trainer *t)
{
    own_fragments own = { 0 };
    const param_table *p = t ? &t->stage.params : NULL;
    int64_t most = 0;
    for (int i = 0; t && i < p->rows; i++) most += 2 + p->row[i].rule.rows / block_rows(p->row[i].rule.columns);
    own.list = allocate(most, sizeof *own.list, "the fragments of a checkpoint");
    own.dataset = allocate(t ? p->bucket_count * STATES : 0, sizeof *own.dataset, "the datasets of a checkpoint");
    for (int i = 0; t && i < p->rows; i++) {
        const bucket *b = &p->buckets[p->row[i].bucket];
        if (i == b->first_param && bucket_first_owner(b)) add_datasets(&own, b, p->row[i].bucket);
        add_row(&own, t, &p->row[i], param_owned(p, i));
    }
    return own;
}

void fragments_free(own_fragments *own)
{
    free(own->list);
    free(own->dataset);
}

bool piece_next(piece *p)
{
    p->from += p->count;
    p->count = smaller(p->fragment->count - p->from, PIECE_ELEMENTS);
    return p->count > 0;
}

int64_t piece_bytes(const piece *p) { return p->count * p->fragment->bytes[p->state]; }
int64_t piece_file_offset(const piece *p) { return p->fragment->at[p->state] + p->from * p->fragment->bytes[p->state]; }

tensor piece_view(const own_fragment *o, const piece *p)
{
    return tensor_slice(state_of(o->b, p->state), 0, o->shard_offset + p->from, p->count);
}

/* Places count from 0 here, so that they fit into 32 bits and a product is one instruction. */
#define ADD_BITS(type)                                                                                                 \
    static void add_##type(const type *x, int64_t count, int64_t first, uint64_t sum[SUMS])                            \
    {                                                                                                                  \
        uint64_t bits = 0, places = 0;                                                                                 \
        _Pragma("omp simd reduction(+ : bits, places)") for (int64_t i = 0; i < count; i++)                            \
        {                                                                                                              \
            bits += x[i];                                                                                              \
            places += (uint64_t)(uint32_t)i * x[i];                                                                    \
        }                                                                                                              \
        sum[SUM_BITS] += bits;                                                                                         \
        sum[SUM_PLACES] += places + (uint64_t)(first + 1) * bits;                                                      \
    }
ADD_BITS(uint32_t)
ADD_BITS(uint16_t)

/* If the fragment has whole rows, its elements are contiguous in the parameter, so all are summed at once. */
void piece_sums(const piece *p, const void *x, uint64_t sum[SUMS])
{
    const saved_fragment *f = p->fragment;
    int64_t first_row = f->first_row - f->block * block_rows(p->width);
    for (int64_t done = 0, n; done < p->count; done += n) {
        int64_t at = f->first + p->from + done, column = at % f->columns;
        n = f->columns == p->width ? p->count - done : smaller(f->columns - column, p->count - done);
        int64_t place = (first_row + at / f->columns) * p->width + f->first_column + column;
        if (f->bytes[p->state] == sizeof(uint32_t)) add_uint32_t((const uint32_t *)x + done, n, place, sum);
        else add_uint16_t((const uint16_t *)x + done, n, place, sum);
    }
}

int fragment_order(const void *a, const void *b)
{
    const saved_fragment *x = a, *y = b;
    if (x->logical != y->logical) return x->logical < y->logical ? -1 : 1;
    return (x->block > y->block) - (x->block < y->block);
}

/* Returns the same elements as one row. Used if both fragments have the same columns of the parameter. */
static saved_fragment flattened(const saved_fragment *f, int64_t first_row)
{
    return (saved_fragment){ .columns = INT64_MAX / 2,
                             .first = (f->first_row - first_row) * f->columns + f->first,
                             .count = f->count };
}

/* Columns of the parameter that a fragment has in one row: [from, end). */
typedef struct {
    int64_t from, end;
} column_span;
static column_span span_in_row(const saved_fragment *f, int64_t row)
{
    int64_t start = (row - f->first_row) * f->columns, shift = f->first_column - start;
    return (column_span){ larger(f->first, start) + shift, smaller(f->first + f->count, start + f->columns) + shift };
}

static int64_t first_row_of(const saved_fragment *f) { return f->first_row + f->first / f->columns; }
static int64_t last_row_of(const saved_fragment *f) { return f->first_row + (f->first + f->count - 1) / f->columns; }

static int64_t offset_in(const saved_fragment *f, int64_t row, int64_t column)
{
    return (row - f->first_row) * f->columns + column - f->first_column - f->first;
}

bool fragment_next_run(const saved_fragment *own, int64_t from, int64_t count, const saved_fragment *saved,
                       shared_run *r)
{
    saved_fragment a = *own, b = *saved;
    a.first += from, a.count = count;
    if (a.columns == b.columns && a.first_column == b.first_column)
        a = flattened(&a, own->first_row), b = flattened(&b, own->first_row);
    int64_t row = r->count ? a.first_row + (a.first + r->own - from) / a.columns + 1
                           : larger(first_row_of(&a), first_row_of(&b)),
            last = smaller(last_row_of(&a), last_row_of(&b));
    for (; row <= last; row++) {
        column_span x = span_in_row(&a, row), y = span_in_row(&b, row);
        int64_t begin = larger(x.from, y.from);
        *r = (shared_run){ from + offset_in(&a, row, begin), offset_in(&b, row, begin), smaller(x.end, y.end) - begin };
        if (r->count > 0) return true;
    }
    return false;
}
