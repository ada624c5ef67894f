/* The optimizer: one AdamW operation for each bucket on this rank's shard, then a gather of the weights where they are
 * sharded; and the initial values of what this rank owns. */
#include "base/random.h"
#include "train/trainer.h"

/* Initializes elements of a parameter from local element `first`: part of one matrix row, or whole matrix rows. */
static void initialize_block(trainer *t, const param *p, tensor values, int64_t first, int64_t count)
{
    int64_t columns = p->part.columns < count ? p->part.columns : count;
    initialize_args args = { .seed = t->given->seed,
                             .key = fnv1a(p->name),
                             .scale = normal_scale(p->rule.std),
                             .first_row = p->part.first_row + first / p->part.columns,
                             .first_column = p->part.first_column + first % p->part.columns,
                             .rows = p->rule.rows,
                             .columns = p->rule.columns };
    submit(t->queues.compute, p->name,
           initialize_op(tensor_2d(values.data, values.type, count / columns, columns), &args));
}

/* A fragment may begin and end inside a matrix row. */
static void initialize_fragment(trainer *t, const param *p, tensor values, fragment f)
{
    int64_t columns = p->part.columns;
    for (int64_t done = 0; done < f.count;) {
        int64_t column = (f.first + done) % columns, left = f.count - done;
        int64_t piece =
            column || left < columns ? (columns - column < left ? columns - column : left) : left / columns * columns;
        initialize_block(t, p, tensor_slice(values, 0, done, piece), f.first + done, piece);
        done += piece;
    }
}

/* Returns the operands for `count` elements that this rank owns, from element `first` of the bucket. */
static adamw_operands operands_of(const trainer *t, const bucket *b, int64_t first, int64_t count)
{
    int64_t at = first - b->shard_first;
    adamw_operands x = { .scalars = t->stage.scalars,
                         .gradient = tensor_slice(gradient_shard(b), 0, at, count),
                         .weight = tensor_slice(weight_shard(b), 0, at, count),
                         .first = tensor_slice(b->first, 0, at, count),
                         .second = tensor_slice(b->second, 0, at, count) };
    if (tensor_present(&b->master)) x.master = tensor_slice(b->master, 0, at, count);
    return x;
}

/* Updates FP8 values: the rows of the table in [row, end), which have one scale. */
static void update_fp8(trainer *t, const bucket *b, adamw_rule rule, int row, int end)
{
    const param *p = &t->stage.params.row[row], *last = &t->stage.params.row[end - 1];
    int64_t first = p->offset, limit = last->offset + last->part.rows * last->part.columns;
    int64_t shard_end = b->shard_first + b->shard_elements;
    if (first < b->shard_first) first = b->shard_first;
    if (limit > shard_end) limit = shard_end;
    if (first >= limit) return;
    adamw_operands x = operands_of(t, b, first, limit - first);
    x.weight.scale = tensor_slice(t->stage.work.fp8.scales, 0, p->fp8_tensor, 1).data;
    x.amax = tensor_slice(t->stage.work.fp8.amax, 0, p->fp8_tensor, 1);
    x.counts = tensor_flat(tensor_slice(t->stage.work.fp8.counts, 0, p->fp8_tensor, 1));
    submit(t->queues.compute, "adamw", adamw_op(&x, rule));
}

static bool is_fp8(const bucket *b) { return b->weight.type == E4M3; }

static adamw_rule rule_of(const trainer *t, const bucket *b)
{
    const optimizer_rule *o = &t->given->optimizer;
    return (adamw_rule){ (float)o->beta1, (float)o->beta2, (float)o->epsilon, b->decays ? (float)o->decay : 0.0f };
}

static void update_values(trainer *t, const bucket *b, adamw_rule rule)
{
    adamw_operands all = operands_of(t, b, b->shard_first, b->shard_elements);
    if (!is_fp8(b)) submit(t->queues.compute, "adamw", adamw_op(&all, rule));
    for (int i = b->first_param, end; is_fp8(b) && i < b->first_param + b->params; i = end) {
        end = fp8_tensor_end(&t->stage.params, i);
        update_fp8(t, b, rule, i, end);
    }
}

/* Rounds the masters to the weights that this rank owns. FP8 weights need an update with learning rate 0 for it. */
static void round_masters(trainer *t, const bucket *b)
{
    static const adamw_rule keep_moments = { .beta1 = 1.0f, .beta2 = 1.0f, .epsilon = 1.0f };
    if (is_fp8(b)) update_values(t, b, keep_moments);
    else if (tensor_present(&b->master))
        submit(t->queues.compute, "weight", copy_op(weight_shard(b), WRITE, b->master));
}

static void initialize_bucket(trainer *t, bucket *b)
{
    queue *q = t->queues.compute;
    submit(q, "gradient", fill_op(b->gradient, 0.0));
    submit(q, "weight", fill_op(b->weight, 0.0));
    submit(q, "moment", fill_op(b->first, 0.0));
    submit(q, "moment", fill_op(b->second, 0.0));
    if (tensor_present(&b->partial)) submit(q, "gain_gradient", fill_op(b->partial, 0.0));
    if (tensor_present(&b->master)) submit(q, "master", fill_op(b->master, 0.0));
    for (int i = b->first_param; i < b->first_param + b->params; i++) {
        const param *p = &t->stage.params.row[i];
        fragment f = param_owned(&t->stage.params, i);
        tensor values = param_view(p, f, master_shard(b), b->shard_first);
        if (f.count == 0) continue;
        if (p->rule.start == START_NORMAL) initialize_fragment(t, p, values, f);
        if (p->rule.start == START_ONES) submit(q, p->name, fill_op(values, 1.0));
    }
    round_masters(t, b);
}

/* Transposes the rows in [row, end), which are one matrix. */
static mark transpose_matrix(trainer *t, const bucket *b, queue *q, int row, int end)
{
    const param *p = &t->stage.params.row[row];
    int64_t k = p->part.columns, n = 0;
    for (int i = row; i < end; i++) n += t->stage.params.row[i].part.rows;
    tensor from = tensor_slice(b->weight, 0, p->offset, n * k), to = tensor_slice(b->transposed, 0, p->offset, n * k);
    return submit(q, "weights", transpose_op(tensor_2d(to.data, E4M3, k, n), tensor_2d(from.data, E4M3, n, k)));
}

/* Makes the copies that backward multiplies with, after the FP8 values were gathered. */
static mark transpose_weights(trainer *t, const bucket *b, queue *q)
{
    mark done = queue_mark(q);
    for (int i = b->first_param, end; i < b->first_param + b->params; i = end) {
        end = matrix_end(&t->stage.params, i);
        done = transpose_matrix(t, b, q, i, end);
    }
    return done;
}

static mark gather(trainer *t, group *g, tensor x)
{
    queue_follow(t->queues.gradient, t->queues.compute);
    mark done = submit(t->queues.gradient, "weights", all_gather_op(g, x, tensor_none()));
    queues_wait_unless_overlap(&t->queues, done);
    return done;
}

/* Gathers the weights that this rank holds from their owners. The next step waits for it at the bucket's first use
 * (weight_borrow) or, if only a part is held, at the part's first gather. */
static void gather_weights(trainer *t, bucket *b)
{
    mark done = queue_mark(t->queues.compute);
    if (b->owners && b->owners->size > 1) done = b->gathered = gather(t, b->owners, part_held(b, b->weight));
    if (b->parts && !b->gathered_for_use) b->gathered = gather(t, b->parts, b->weight);
    bool gathered = (b->owners && b->owners->size > 1) || (b->parts && !b->gathered_for_use);
    if (tensor_present(&b->transposed))
        b->gathered = transpose_weights(t, b, gathered ? t->queues.gradient : t->queues.compute);
    b->updated = done;
}

void optimizer_initialize(trainer *t)
{
    bucket *head = t->stage.params.head;
    if (head) submit(t->queues.compute, "gradient", fill_op(head->gradient, 0.0));
    for (int i = 0; i < t->stage.params.bucket_count; i++) {
        initialize_bucket(t, &t->stage.params.buckets[i]);
        gather_weights(t, &t->stage.params.buckets[i]);
    }
}

static void update_bucket(trainer *t, bucket *b)
{
    queue_wait(t->queues.compute, b->used);
    update_values(t, b, rule_of(t, b));
    gather_weights(t, b);
}

static void round_all_masters(trainer *t, bool fp8_only)
{
    for (bucket *b = t->stage.params.buckets; b < t->stage.params.buckets + t->stage.params.bucket_count; b++) {
        if (fp8_only && !is_fp8(b)) continue;
        round_masters(t, b);
        gather_weights(t, b);
    }
}

/* The rate of 0 stays only until the next step sets its own. */
void optimizer_round_fp8(trainer *t)
{
    double scalars[STEP_SCALARS];
    machine_read(t->machine, scalars, t->stage.scalars);
    scalars[SCALAR_LEARNING_RATE] = 0.0;
    machine_upload(t->machine, t->stage.scalars, scalars);
    round_all_masters(t, true);
}

void optimizer_restore(trainer *t) { round_all_masters(t, false); }

mark optimizer_update(trainer *t)
{
    for (int i = 0; i < t->stage.params.bucket_count; i++) update_bucket(t, &t->stage.params.buckets[i]);
    return queue_mark(t->queues.compute);
}
