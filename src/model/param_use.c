/* Weights borrowed, and contributions to gradients. */
#include "base/fail.h"
#include "model/sharded.h"

/* Expects the contributions of all microbatches of a step, or of one microbatch. */
static void expect_contributions(param_table *t, bucket *b)
{
    b->pending = 0;
    for (param *p = &t->row[b->first_param]; p < &t->row[b->first_param + b->params]; p++) {
        p->contributions = 0;
        b->pending += (b->gathered_for_use ? 1 : t->microbatches) * param_uses(&p->rule, t->places);
    }
}

static bucket *weight_bucket(const param_table *t, int row)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    return b->tied ? b->tied : b;
}

/* Includes the bucket that has only the head's gradient. */
void param_table_step(param_table *t)
{
    for (int i = 0; i < t->bucket_count + (t->head ? 1 : 0); i++) {
        bucket *b = &t->buckets[i];
        for (int use = 0; use < WEIGHT_USES; use++)
            if (b->borrowed[use]) FAIL("%d weights of a bucket were not returned", b->borrowed[use]);
        b->microbatches_added = 0;
        expect_contributions(t, b);
    }
    if (t->sharded) sharded_step(t->sharded);
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
    bucket *b = weight_bucket(t, row);
    if (b->gathered_for_use) sharded_advance(t->sharded, b);
    queue_wait(q, b->gathered);
    b->gathered = (mark){ 0 };
    b->borrowed[use] += count;
    return rows_view(t, b->gathered_for_use ? b->whole : b->weight, row, count);
}

tensor weight_transposed(const param_table *t, int row, int count)
{
    const bucket *b = weight_bucket(t, row);
    return tensor_present(&b->transposed) ? rows_view(t, b->transposed, row, count) : tensor_none();
}

void weight_return(param_table *t, int row, int count, weight_use use, queue *q)
{
    bucket *b = weight_bucket(t, row);
    b->borrowed[use] -= count;
    b->used = queue_mark(q);
}

tensor param_gradient(const param_table *t, int row, int count)
{
    const bucket *b = &t->buckets[t->row[row].bucket];
    return rows_view(t, b->gathered_for_use ? b->microbatch : b->holders ? b->partial : b->gradient, row, count);
}

access_mode param_contribute(param_table *t, int row, int count, queue *q)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    if (b->gathered_for_use && !tensor_present(&b->microbatch)) sharded_take_gradient(t->sharded, b, q);
    access_mode access = t->row[row].contributions == 0 ? WRITE : UPDATE;
    for (int i = row; i < row + count; i++) t->row[i].contributions++;
    return access;
}

void param_contributed(param_table *t, int row, int count, queue *q)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    if (b->queue && b->queue != q) FAIL("contributions to a bucket on two queues");
    b->queue = q;
    b->pending -= count;
    if (b->pending > 0) return;
    t->done(t->listener, b, q);
    if (b->gathered_for_use) expect_contributions(t, b);
}
