/* Gradients: each is summed over ranks on a separate queue as soon as it is complete, during backward. Then their
 * norm. */
#include "parallel/origin.h"
#include "train/trainer.h"

/* Sums in the format of the partial sums, then rounds once if the gradient has another format. */
static void sum_holders(trainer *t, bucket *b)
{
    conserve_before(t, t->queues.compute, b, SUM_OF_HOLDERS, b->partial);
    queues_all_reduce(&t->queues, t->queues.tensor, "gain_gradients", b->holders, b->partial);
    conserve_after(t, t->queues.compute, b, SUM_OF_HOLDERS, b->partial);
    if (b->partial.data != b->gradient.data)
        submit(t->queues.compute, "gain_gradients", copy_op(b->gradient, WRITE, b->partial));
}

/* Sums a microbatch's gradient over the shard ranks, rounds this rank's part once and adds it to the step's. */
static void sum_microbatch(trainer *t, bucket *b, queue *q)
{
    queue *g = t->queues.gradient;
    gradient_sum x = sharded_sum(&t->stage.sharded, b);
    bool checked = b->microbatches_added == checked_microbatch(t);
    queue_follow(g, q);
    if (checked) conserve_before(t, g, b, SUM_OF_PARTS, b->microbatch);
    mark sent = submit(g, "gradients", all_to_all_op(b->parts, x.parts, b->microbatch));
    submit(g, "gradients", sum_parts_op(x.sum, x.parts));
    if (checked) conserve_after(t, g, b, SUM_OF_PARTS, x.sum);
    b->reduced = submit(g, "gradients", copy_op(b->gradient, b->microbatches_added ? UPDATE : WRITE, x.sum));
    b->microbatches_added++;
    sharded_release_gradient(&t->stage.sharded, b, sent);
}

/* Sums a step's gradient, if every rank has a gradient of the whole bucket. */
static void sum_step(trainer *t, bucket *b, queue *q)
{
    queue *g = t->queues.gradient;
    if (b->holders) sum_holders(t, b);
    b->reduced = queue_mark(q);
    if (!b->parts) return;
    queue_follow(g, q);
    conserve_before(t, g, b, SUM_OF_PARTS, b->gradient);
    submit(g, "gradients", reduce_scatter_op(b->parts, b->gradient));
    b->reduced = conserve_after(t, g, b, SUM_OF_PARTS, part_held(b, b->gradient));
}

/* Sums over the ranks that hold the same part. */
static void sum_copies(trainer *t, bucket *b, queue *q)
{
    queue *g = t->queues.gradient;
    tensor part = part_held(b, b->gradient);
    if (!b->parts) queue_follow(g, q);
    conserve_before(t, g, b, SUM_OF_COPIES, part);
    submit(g, "gradients", b->owners ? reduce_scatter_op(b->sum, part) : all_reduce_op(b->sum, part));
    b->reduced = conserve_after(t, g, b, SUM_OF_COPIES, gradient_shard(b));
}

void gradient_reduce(void *listener, bucket *b, queue *q)
{
    trainer *t = listener;
    origin before = origin_layer(t->machine, PHASE_GRADIENT, NO_LAYER);
    if (b->gathered_for_use) sum_microbatch(t, b, q);
    else sum_step(t, b, q);
    bool last = !b->gathered_for_use || b->microbatches_added == t->stage.params.microbatches;
    if (last && b->sum->size > 1) sum_copies(t, b, q);
    if (b->parts || b->sum->size > 1) queues_wait_unless_overlap(&t->queues, b->reduced);
    origin_restore(t->machine, before);
}

/* Exchanges a tied embedding's gradients between the first and the last stage. All stages submit the exchange, because
 * a group numbers its transfers. The last stage has its gradient long before the first. The exchange follows all of
 * backward, because a waiting kernel would hold SMs that products need. */
static void exchange_ends(trainer *t, bucket *b)
{
    group *stages = &t->mesh->axis[AXIS_PIPELINE];
    int peer = stages->rank == 0 ? stages->size - 1 : 0;
    transfer pair[2] = { { .send = true, .peer = peer }, { .send = false, .peer = peer } };
    if (b) pair[0].tensor = gradient_shard(b), pair[1].tensor = b->other_end;
    if (b) queue_wait(t->queues.gradient, b->reduced);
    queue_follow(t->queues.gradient, t->queues.compute);
    queue_wait(t->queues.compute, submit(t->queues.gradient, "tied_gradients", exchange_op(stages, pair, b ? 2 : 0)));
}

/* Adds the two gradients. Addition is commutative, so both ends have the same bits. */
void gradient_tie(trainer *t)
{
    bucket *b = t->stage.params.tied_embedding, *head = t->stage.params.head;
    queue *q = t->queues.compute;
    if (!t->given->model.tied_embedding) return;
    origin before = origin_layer(t->machine, PHASE_GRADIENT, NO_LAYER);
    if (t->mesh->layout.degree[AXIS_PIPELINE] > 1) exchange_ends(t, b);
    if (b) queue_wait(q, b->reduced);
    if (head) queue_wait(q, head->reduced);
    if (b)
        b->reduced =
            submit(q, "tied_gradients", copy_op(gradient_shard(b), UPDATE, head ? gradient_shard(head) : b->other_end));
    origin_restore(t->machine, before);
}

void gradient_norm(trainer *t)
{
    const queues *l = &t->queues;
    queue *q = l->compute;
    param_table *p = &t->stage.params;
    submit(q, "norm", fill_op(t->squares, 0.0));
    for (int i = p->bucket_count - 1; i >= 0; i--) { /* in the order in which backward completed them */
        bucket *b = &p->buckets[i];
        queue_wait(q, b->reduced);
        if (p->norm_ranks == &t->mesh->all ? bucket_first_owner(b) : bucket_counts(b))
            submit(q, "norm", square_sum_op(gradient_shard(b), t->squares));
    }
    queues_all_reduce(l, l->gradient, "norm", p->norm_ranks, t->squares);
    submit(q, "loss", sum_op(t->loss, WRITE, t->stage.loss)); /* zero except on the last stage */
    queues_all_reduce(l, l->gradient, "loss", &t->mesh->gradient, t->loss);
    queues_all_reduce(l, l->gradient, "loss", &t->mesh->axis[AXIS_SHARD], t->loss);
    queues_all_reduce(l, l->gradient, "loss", &t->mesh->axis[AXIS_PIPELINE], t->loss);
    step_clip_args args = { t->given->optimizer.clip,
                            (double)t->given->global_batch * (double)t->given->model.sequence };
    submit(q, "norm", step_clip_op(t->squares, t->loss, t->stage.scalars, &args));
}
