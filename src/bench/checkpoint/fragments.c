/* Fragments of a rank's share, and what they have in common with others. */
#include "bench/checkpoint/fragments.h"
#include "base/memory.h"

const char *const state_names[STATES] = { "weight", "first_moment", "second_moment" };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t block_rows(int64_t columns) { return ((int64_t)1 << 32) / columns; }

/* Cuts what is owned of a row of the table where a block of the parameter ends. */
static void add_row(own_fragments *own, const trainer *t, int row)
{
    const param *p = &t->stage.params.row[row];
    const bucket *b = &t->stage.params.buckets[p->bucket];
    fragment f = param_owned(&t->stage.params, row);
    int64_t columns = p->part.columns, rows = block_rows(p->rule.columns);
    int64_t end = smaller(f.first + f.count, p->part.filled_rows * columns);
    for (int64_t at = f.first, next; at < end; at = next) {
        int64_t block = (p->part.first_row + at / columns) / rows;
        next = smaller(end, ((block + 1) * rows - p->part.first_row) * columns);
        own->list[own->count++] = (own_fragment){ .of = { .logical = p->logical,
                                                          .block = block,
                                                          .rank = t->mesh->rank,
                                                          .first_row = p->part.first_row,
                                                          .first_column = p->part.first_column,
                                                          .columns = columns,
                                                          .first = at,
                                                          .count = next - at },
                                                  .p = p,
                                                  .b = b,
                                                  .in_shard = p->offset + at - b->shard_first,
                                                  .counts = bucket_first_owner(b) };
    }
}

own_fragments fragments_of(const trainer *t)
{
    own_fragments own = { 0 };
    int64_t most = 0;
    for (int i = 0; t && i < t->stage.params.rows; i++)
        most += 2 + t->stage.params.row[i].rule.rows / block_rows(t->stage.params.row[i].rule.columns);
    own.list = allocate(most, sizeof *own.list, "the fragments of a checkpoint");
    for (int i = 0; t && i < t->stage.params.rows; i++) add_row(&own, t, i);
    return own;
}

void fragments_free(own_fragments *own) { free(own->list); }

tensor state_of(const bucket *b, saved_state s)
{
    return s == STATE_WEIGHT ? master_shard(b) : s == STATE_FIRST_MOMENT ? b->first : b->second;
}

tensor fragment_view(const own_fragment *o, saved_state s, int64_t from, int64_t count)
{
    return tensor_slice(state_of(o->b, s), 0, o->in_shard + from, count);
}

/* Rows that are whole follow one another in the parameter, too. */
void fragment_sums(const saved_fragment *f, int64_t whole, int64_t from, int64_t count, const void *x, size_t bytes,
                   uint64_t sum[SUMS])
{
    int64_t first_row = f->first_row - f->block * block_rows(whole);
    for (int64_t done = 0, n; done < count; done += n) {
        int64_t at = f->first + from + done, column = at % f->columns;
        n = f->columns == whole ? count - done : smaller(f->columns - column, count - done);
        int64_t place = (first_row + at / f->columns) * whole + f->first_column + column;
        bits_add((const char *)x + (size_t)done * bytes, bytes, n, place, sum);
    }
}

int fragment_order(const saved_fragment *a, const saved_fragment *b)
{
    if (a->logical != b->logical) return a->logical < b->logical ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

/* A span of elements, numbered as a fragment numbers them from the start of its matrix. */
typedef struct {
    int64_t from, end;
} span_of_elements;

/* Where elements of one fragment's matrix lie in the other's, if both have the same columns. */
static int64_t shift_between(const saved_fragment *own, const saved_fragment *saved)
{
    return (own->first_row - saved->first_row) * own->columns;
}

static span_of_elements meet(span_of_elements a, span_of_elements b)
{
    return (span_of_elements){ larger(a.from, b.from), smaller(a.end, b.end) };
}

/* The elements of a row of the parameter that the span has, as columns of the parameter. */
static span_of_elements columns_in_row(const saved_fragment *f, span_of_elements s, int64_t row)
{
    int64_t start = (row - f->first_row) * f->columns;
    span_of_elements in = meet(s, (span_of_elements){ start, start + f->columns });
    return (span_of_elements){ in.from - start + f->first_column, in.end - start + f->first_column };
}

/* Sets the run to what both have of a row; its count is 0 or less if that is nothing. */
static void run_in_row(const saved_fragment *own, span_of_elements a, const saved_fragment *saved, span_of_elements b,
                       int64_t row, shared_run *r)
{
    span_of_elements both = meet(columns_in_row(own, a, row), columns_in_row(saved, b, row));
    r->own = (row - own->first_row) * own->columns + both.from - own->first_column - own->first;
    r->saved = (row - saved->first_row) * saved->columns + both.from - saved->first_column - saved->first;
    r->count = both.end - both.from;
}

static bool next_row(const saved_fragment *own, span_of_elements a, const saved_fragment *saved, span_of_elements b,
                     shared_run *r)
{
    int64_t row = r->count ? own->first_row + (own->first + r->own) / own->columns + 1
                           : larger(own->first_row + a.from / own->columns, saved->first_row + b.from / saved->columns);
    int64_t last =
        smaller(own->first_row + (a.end - 1) / own->columns, saved->first_row + (b.end - 1) / saved->columns);
    for (r->count = 0; row <= last && r->count <= 0; row++) run_in_row(own, a, saved, b, row, r);
    return r->count > 0;
}

/* Matrices of the same columns share one run; others have one in each row. */
bool fragment_next_run(const saved_fragment *own, int64_t from, int64_t count, const saved_fragment *saved,
                       shared_run *r)
{
    span_of_elements a = { own->first + from, own->first + from + count },
                     b = { saved->first, saved->first + saved->count };
    if (own->columns != saved->columns || own->first_column != saved->first_column)
        return next_row(own, a, saved, b, r);
    int64_t shift = shift_between(own, saved);
    span_of_elements both = meet(a, (span_of_elements){ b.from - shift, b.end - shift });
    if (r->count || both.from >= both.end) return false;
    *r = (shared_run){ both.from - own->first, both.from + shift - saved->first, both.end - both.from };
    return true;
}
