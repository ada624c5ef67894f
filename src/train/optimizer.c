/* The optimizer, and the first values of what it owns. */
#include "train/optimizer.h"
#include "base/random.h"
#include "train/gradient.h"

static bool sharded(const trainer *t) { return t->given->sharding == SHARDING_OPTIMIZER && t->mesh->gradient.size > 1; }
static tensor weight_shard(const bucket *b) { return tensor_slice(b->weight, 0, b->shard_first, b->shard_elements); }

/* Where a row's first values go: the master where there is one, else the weight; with the element its data starts at.
 */
static tensor owned_values(const bucket *b, const param *p, fragment f)
{
    int64_t at = p->offset + f.first - b->shard_first;
    tensor owned = tensor_present(&b->master) ? b->master : weight_shard(b);
    return tensor_slice(owned, 0, at, f.count);
}

/* `count` elements of a row from local element `first`, all in one matrix row or whole matrix rows. */
static void initialize_block(trainer *t, const param *p, tensor values, int64_t first, int64_t count)
{
    int64_t columns = p->local_columns < count ? p->local_columns : count;
    initialize_args args = { .seed = t->given->seed,
                             .key = fnv1a(p->name),
                             .scale = normal_scale(p->init_std),
                             .first_row = p->first_row + first / p->local_columns,
                             .first_column = p->first_column + first % p->local_columns,
                             .rows = p->rows,
                             .columns = p->columns };
    initialize(t->queues.compute, p->name, tensor_2d(values.data, values.type, count / columns, columns), &args);
}

/* A fragment is the end of one matrix row, whole rows, the beginning of another; each may be empty. */
static void initialize_fragment(trainer *t, const param *p, tensor values, fragment f)
{
    int64_t columns = p->local_columns;
    for (int64_t done = 0; done < f.count;) {
        int64_t into = (f.first + done) % columns, left = f.count - done;
        int64_t piece =
            into || left < columns ? (columns - into < left ? columns - into : left) : left / columns * columns;
        initialize_block(t, p, tensor_slice(values, 0, done, piece), f.first + done, piece);
        done += piece;
    }
}

static void initialize_bucket(trainer *t, bucket *b)
{
    queue *q = t->queues.compute;
    fill(q, "gradient", b->gradient, 0.0);
    fill(q, "weight", b->weight, 0.0);
    fill(q, "moment", b->first, 0.0);
    fill(q, "moment", b->second, 0.0);
    if (tensor_present(&b->partial)) fill(q, "gain_gradient", b->partial, 0.0);
    if (tensor_present(&b->master)) fill(q, "master", b->master, 0.0);
    for (int i = b->first_param; i < b->first_param + b->params; i++) {
        const param *p = &t->stage.params.row[i];
        fragment f = param_fragment(&t->stage.params, i);
        if (f.count == 0) continue;
        if (p->init_std > 0.0) initialize_fragment(t, p, owned_values(b, p, f), f);
        else fill(q, p->name, owned_values(b, p, f), 1.0);
    }
    if (tensor_present(&b->master)) copy(q, "weight", weight_shard(b), WRITE, b->master);
}

/* The next step's first use of the bucket waits for it (weight_borrow). */
static void gather_weights(trainer *t, bucket *b)
{
    if (!sharded(t)) return;
    queue_follow(t->queues.gradient, t->queues.compute);
    b->gathered = all_gather(t->queues.gradient, "weights", &t->mesh->gradient, b->weight, tensor_none());
    queues_wait_unless_overlap(&t->queues, b->gathered);
}

void optimizer_initialize(trainer *t)
{
    for (int i = 0; i < t->stage.params.bucket_count; i++) {
        initialize_bucket(t, &t->stage.params.buckets[i]);
        gather_weights(t, &t->stage.params.buckets[i]);
    }
}

static void update_bucket(trainer *t, bucket *b)
{
    const optimizer_rule *o = &t->given->optimizer;
    adamw_rule rule = { (float)o->beta1, (float)o->beta2, (float)o->epsilon, b->decays ? (float)o->decay : 0.0f };
    adamw_operands x = { .scalars = t->stage.scalars,
                         .gradient = gradient_shard(b),
                         .weight = weight_shard(b),
                         .master = b->master,
                         .first = b->first,
                         .second = b->second };
    queue_wait(t->queues.compute, b->used);
    adamw(t->queues.compute, "adamw", &x, rule);
    gather_weights(t, b);
}

mark optimizer_update(trainer *t)
{
    for (int i = 0; i < t->stage.params.bucket_count; i++) update_bucket(t, &t->stage.params.buckets[i]);
    return queue_mark(t->queues.compute);
}
