/* Weights lent and gradients added up; what this rank holds and owns. */
#include "model/param.h"
#include "base/fail.h"

/* With what is only the head's gradient. */
static int all_rows(const param_table *t) { return t->rows + (t->head ? 1 : 0); }
static int all_buckets(const param_table *t) { return t->bucket_count + (t->head ? 1 : 0); }

/* Where the weights of a row are. */
static bucket *home_of(const param_table *t, int row)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    return b->tied ? b->tied : b;
}

void param_table_step(param_table *t)
{
    for (int i = 0; i < all_buckets(t); i++) {
        bucket *b = &t->buckets[i];
        b->pending = 0;
        for (int use = 0; use < WEIGHT_USES; use++)
            if (b->borrowed[use]) FAIL("%d weights of a bucket were not returned", b->borrowed[use]);
    }
    for (int i = 0; i < all_rows(t); i++) {
        param *p = &t->row[i];
        p->contributions = 0;
        t->buckets[p->bucket].pending += t->microbatches * param_uses(&p->rule, t->places);
    }
}

static tensor rows_view(const param_table *t, tensor storage, int row, int count)
{
    const param *p = &t->row[row];
    int64_t rows = 0, columns = p->part.columns;
    for (int i = row; i < row + count; i++) rows += t->row[i].part.rows;
    tensor flat = tensor_slice(storage, 0, p->offset, rows * columns);
    return p->rule.columns == 1 ? flat : tensor_2d(flat.data, flat.type, rows, columns);
}

tensor weight_borrow(param_table *t, int row, int count, weight_use use, queue *q)
{
    bucket *b = home_of(t, row);
    queue_wait(q, b->gathered);
    b->gathered = (mark){ 0 };
    b->borrowed[use] += count;
    return rows_view(t, b->weight, row, count);
}

void weight_return(param_table *t, int row, int count, weight_use use, queue *q)
{
    bucket *b = home_of(t, row);
    b->borrowed[use] -= count;
    b->used = queue_mark(q);
}

tensor param_gradient(const param_table *t, int row, int count)
{
    const bucket *b = &t->buckets[t->row[row].bucket];
    return rows_view(t, b->holders ? b->partial : b->gradient, row, count);
}

access_mode param_contribute(param_table *t, int row, int count)
{
    access_mode how = t->row[row].contributions == 0 ? WRITE : UPDATE;
    for (int i = row; i < row + count; i++) t->row[i].contributions++;
    return how;
}

void param_contributed(param_table *t, int row, int count, queue *q)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    if (b->queue && b->queue != q) FAIL("contributions to a bucket on two queues");
    b->queue = q;
    b->pending -= count;
    if (b->pending == 0) t->done(t->listener, b, q);
}

bool bucket_counts(const bucket *b)
{
    return (!b->holders || b->holders->rank == 0) && (!b->ends || b->ends->rank == 0);
}

int bucket_replicas(const bucket *b)
{
    return (b->owners ? 1 : b->sum->size) * (b->holders ? b->holders->size : 1) * (b->ends ? 2 : 1);
}

bool bucket_first_owner(const bucket *b) { return bucket_counts(b) && (b->owners || b->sum->rank == 0); }

tensor gradient_shard(const bucket *b) { return tensor_slice(b->gradient, 0, b->shard_first, b->shard_elements); }

tensor weight_shard(const bucket *b) { return tensor_slice(b->weight, 0, b->shard_first, b->shard_elements); }

tensor master_shard(const bucket *b) { return tensor_present(&b->master) ? b->master : weight_shard(b); }

fragment param_held(const param *p) { return (fragment){ 0, p->part.rows * p->part.columns }; }

fragment param_owned(const param_table *t, int row)
{
    const param *p = &t->row[row];
    const bucket *b = &t->buckets[p->bucket];
    int64_t first = b->shard_first > p->offset ? b->shard_first - p->offset : 0;
    int64_t last = b->shard_first + b->shard_elements - p->offset, held = param_held(p).count;
    if (last > held) last = held;
    return (fragment){ first, last > first ? last - first : 0 };
}

/* Rows that are held whole follow one another in the matrix too. */
bool param_next_run(const param *p, fragment f, param_run *r)
{
    int64_t columns = p->part.columns, filled = p->part.filled_rows * columns, end = f.first + f.count;
    int64_t local = r->count ? r->local + r->count : f.first, row = local / columns;
    if (local >= end) return false;
    *r = (param_run){ -1, local, end - local };
    if (local >= filled) return true;
    int64_t last = columns == p->rule.columns ? filled : (row + 1) * columns;
    r->logical = (p->part.first_row + row) * p->rule.columns + p->part.first_column + local % columns;
    r->count = (last < end ? last : end) - local;
    return true;
}

tensor param_view(const param *p, fragment f, tensor flat, int64_t start)
{
    return tensor_slice(flat, 0, f.count > 0 ? p->offset + f.first - start : 0, f.count);
}

int64_t param_count_local(const param_table *t)
{
    int64_t total = 0;
    for (int i = 0; i < t->rows; i++) total += t->row[i].part.filled_rows * t->row[i].part.columns;
    return total;
}
