/* Elements that this rank holds and owns. */
#include "model/param.h"

bool bucket_counts(const bucket *b)
{
    return (!b->holders || b->holders->rank == 0) && (!b->ends || b->ends->rank == 0);
}

int bucket_replicas(const bucket *b)
{
    return (b->owners ? 1 : b->sum->size) * (b->holders ? b->holders->size : 1) * (b->ends ? 2 : 1);
}

bool bucket_first_owner(const bucket *b) { return bucket_counts(b) && (b->owners || b->sum->rank == 0); }

fragment bucket_part(const bucket *b)
{
    int64_t count = b->parts ? b->elements / b->parts->size : b->elements;
    return (fragment){ b->parts ? b->parts->rank * count : 0, count };
}

fragment bucket_held(const bucket *b) { return b->gathered_for_use ? bucket_part(b) : (fragment){ 0, b->elements }; }

tensor part_held(const bucket *b, tensor held)
{
    fragment part = bucket_part(b);
    return tensor_slice(held, 0, part.first - bucket_held(b).first, part.count);
}

static tensor shard_of(const bucket *b, tensor held)
{
    return tensor_slice(held, 0, b->shard_first - bucket_held(b).first, b->shard_elements);
}

tensor gradient_shard(const bucket *b) { return shard_of(b, b->gradient); }

tensor weight_shard(const bucket *b) { return shard_of(b, b->weight); }

tensor master_shard(const bucket *b) { return tensor_present(&b->master) ? b->master : weight_shard(b); }

/* Returns the row's share of the bucket's elements, counted from the row's start. */
static fragment share_of_row(const param *p, fragment f)
{
    int64_t first = f.first > p->offset ? f.first - p->offset : 0;
    int64_t last = f.first + f.count - p->offset, all = p->part.rows * p->part.columns;
    if (last > all) last = all;
    return (fragment){ first, last > first ? last - first : 0 };
}

fragment param_held(const param_table *t, int row)
{
    const param *p = &t->row[row];
    return share_of_row(p, bucket_held(&t->buckets[p->bucket]));
}

fragment param_owned(const param_table *t, int row)
{
    const param *p = &t->row[row];
    const bucket *b = &t->buckets[p->bucket];
    return share_of_row(p, (fragment){ b->shard_first, b->shard_elements });
}

/* Rows that are held whole are adjacent in the matrix, too. */
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
    for (int i = 0; i < t->rows; i++) {
        const param *p = &t->row[i];
        fragment f = share_of_row(p, bucket_part(&t->buckets[p->bucket]));
        int64_t filled = p->part.filled_rows * p->part.columns - f.first;
        total += filled < 0 ? 0 : filled < f.count ? filled : f.count;
    }
    return total;
}

static int bucket_end(const param_table *t, int i)
{
    const bucket *b = &t->buckets[t->row[i].bucket];
    return b->first_param + b->params;
}

int fp8_tensor_end(const param_table *t, int i)
{
    int end = i + 1;
    while (end < bucket_end(t, i) && t->row[end].fp8_tensor == t->row[i].fp8_tensor) end++;
    return end;
}

int matrix_end(const param_table *t, int i)
{
    int end = i + 1;
    while (end < fp8_tensor_end(t, i) && t->row[end].expert == t->row[i].expert) end++;
    return end;
}
