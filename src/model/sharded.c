/* Units gathered in the order of their use, and buffers of gradients. */
#include "model/sharded.h"
#include "base/fail.h"
#include "base/memory.h"

enum { NO_UNIT = -1 };

/* ---- the order of use ---- */

static bucket *bucket_at(const sharded *s, int i) { return &s->params->buckets[i]; }

/* Returns the unit that a place of the network uses; layer: of the model, or NO_LAYER. A head that shares the table of
 * an embedding on this stage has no separate weights. */
static int unit_of(const sharded *s, unsigned place, int64_t layer)
{
    if (place == AT_LOSS && s->params->head) place = AT_EMBEDDING;
    for (int i = 0; i < s->params->bucket_count; i++) {
        const bucket *b = bucket_at(s, i);
        bool there = s->params->row[b->first_param].rule.places & place;
        if (b->gathered_for_use && there && (layer == NO_LAYER || b->unit == layer)) return b->unit;
    }
    return NO_UNIT;
}

/* A unit that follows itself stays in use. */
static void add_use(sharded *s, int unit)
{
    if (unit == NO_UNIT || (s->length && s->order[s->length - 1] == unit)) return;
    s->order[s->length++] = unit;
}

/* Backward does not use the embedding's weights. */
static void add_action(sharded *s, const schedule_action *a, const chunk_extent *e)
{
    bool forward = a->verb == FORWARD;
    if (a->verb != FORWARD && a->verb != BACKWARD) return;
    if (forward && e->has_embedding) add_use(s, unit_of(s, AT_EMBEDDING, NO_LAYER));
    if (!forward && e->has_loss) add_use(s, unit_of(s, AT_LOSS, NO_LAYER));
    for (int64_t l = 0; l < e->layers; l++)
        add_use(s, unit_of(s, AT_LAYER, e->first_layer + (forward ? l : e->layers - 1 - l)));
    if (forward && e->has_loss) add_use(s, unit_of(s, AT_LOSS, NO_LAYER));
}

static void make_order(sharded *s, const chunk_extent *chunk, const schedule *order)
{
    int64_t uses = 0;
    for (int64_t i = 0; i < order->length; i++) uses += chunk[order->action[i].chunk].layers + 2;
    s->order = allocate(uses, sizeof *s->order, "the order of gatherings");
    for (int64_t i = 0; i < order->length; i++) add_action(s, &order->action[i], &chunk[order->action[i].chunk]);
}

/* ---- memory ---- */

static int64_t weight_bytes(const bucket *b) { return b->elements * (int64_t)dtype_bytes(b->weight.type); }

static int64_t unit_bytes(const sharded *s, int unit)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->params->bucket_count; i++)
        if (bucket_at(s, i)->gathered_for_use && bucket_at(s, i)->unit == unit) bytes += weight_bytes(bucket_at(s, i));
    return bytes;
}

static dtype microbatch_type(const sharded *s, const bucket *b)
{
    return kept_type(s->params->row[b->first_param].rule.kept.microbatch);
}

/* Takes buffers as large as the largest unit, the largest bucket, and its part. */
static void take_buffers(sharded *s, arena *a)
{
    int64_t unit = 0, elements = 0, part = 0;
    dtype type = F32;
    for (int i = 0; i < s->params->bucket_count; i++) {
        const bucket *b = bucket_at(s, i);
        if (!b->gathered_for_use) continue;
        type = microbatch_type(s, b);
        if (unit_bytes(s, b->unit) > unit) unit = unit_bytes(s, b->unit);
        if (b->elements > elements) elements = b->elements, part = bucket_part(b).count;
    }
    for (int i = 0; i < UNIT_BUFFERS; i++)
        s->weight[i].memory = tensor_taken(a, WEIGHTS, tensor_1d(NULL, BF16, unit / 2));
    for (int i = 0; i < MICROBATCH_BUFFERS; i++)
        s->gradient[i].memory = tensor_taken(a, GRADIENTS, tensor_1d(NULL, type, elements));
    s->parts = tensor_taken(a, GRADIENTS, tensor_1d(NULL, type, elements));
    s->sum = tensor_taken(a, GRADIENTS, tensor_1d(NULL, type, part));
}

void sharded_open(sharded *s, const chunk_extent *chunk, const schedule *order, arena *a)
{
    for (int i = 0; i < UNIT_BUFFERS; i++) s->weight[i].unit = NO_UNIT;
    make_order(s, chunk, order);
    if (s->length == 0) return;
    take_buffers(s, a);
    s->params->sharded = s;
}

void sharded_close(sharded *s) { free(s->order); }

/* ---- weights ---- */

/* Returns the buffer that holds the unit; else the one that was needed longest ago, for which the queue waits. */
static weight_buffer *buffer_for(sharded *s, int unit)
{
    weight_buffer *oldest = s->weight;
    for (weight_buffer *w = s->weight; w < s->weight + UNIT_BUFFERS; w++) {
        if (w->unit == unit && w->needed_until >= 0) return w;
        if (w->needed_until < oldest->needed_until) oldest = w;
    }
    for (int i = 0; i < s->params->bucket_count; i++)
        if (bucket_at(s, i)->gathered_for_use && bucket_at(s, i)->unit == oldest->unit)
            queue_wait(s->queues.gradient, bucket_at(s, i)->used);
    oldest->unit = NO_UNIT;
    return oldest;
}

static void gather_unit(sharded *s, int unit, char *to)
{
    queue *q = s->queues.gradient;
    for (int i = 0; i < s->params->bucket_count; i++) {
        bucket *b = bucket_at(s, i);
        if (!b->gathered_for_use || b->unit != unit) continue;
        b->whole = tensor_1d(to, b->weight.type, b->elements);
        queue_wait(q, b->updated);
        if (!s->queues.overlap) queue_follow(q, s->queues.compute);
        b->gathered = submit(q, "weights", all_gather_op(b->parts, b->whole, b->weight));
        queues_wait_unless_overlap(&s->queues, b->gathered);
        to += weight_bytes(b);
    }
}

static void gather_ahead(sharded *s)
{
    for (; s->next_gather < s->length && s->next_gather < s->in_use + UNIT_BUFFERS; s->next_gather++) {
        int unit = s->order[s->next_gather];
        weight_buffer *w = buffer_for(s, unit);
        if (w->unit != unit) gather_unit(s, unit, w->memory.data);
        w->unit = unit;
        w->needed_until = s->next_gather;
    }
}

void sharded_step(sharded *s)
{
    for (int i = 0; i < UNIT_BUFFERS; i++) s->weight[i].needed_until = -1;
    s->in_use = -1;
    s->next_gather = 0;
    gather_ahead(s);
}

void sharded_advance(sharded *s, const bucket *b)
{
    if (s->in_use >= 0 && s->order[s->in_use] == b->unit) return;
    if (s->in_use + 1 >= s->length || s->order[s->in_use + 1] != b->unit)
        FAIL("unit %d is used out of its order", b->unit);
    s->in_use++;
    gather_ahead(s);
}

/* ---- gradients ---- */

/* Clears what no row covers, because the padding of the sum must be zero. */
static void clear_padding(const sharded *s, const bucket *b, queue *q)
{
    const param *last = &s->params->row[b->first_param + b->params - 1];
    int64_t filled = last->offset + last->part.rows * last->part.columns;
    if (filled < b->elements)
        submit(q, "gradients", fill_op(tensor_slice(b->microbatch, 0, filled, b->elements - filled), 0.0));
}

void sharded_take_gradient(sharded *s, bucket *b, queue *q)
{
    gradient_buffer *g = &s->gradient[s->next_gradient];
    s->next_gradient = (s->next_gradient + 1) % MICROBATCH_BUFFERS;
    if (g->owner) FAIL("a microbatch's gradient is not done when its buffer is wanted again");
    g->owner = b;
    queue_wait(q, g->last_use);
    b->microbatch = tensor_slice(g->memory, 0, 0, b->elements);
    clear_padding(s, b, q);
}

void sharded_release_gradient(sharded *s, bucket *b, mark until)
{
    for (gradient_buffer *g = s->gradient; g < s->gradient + MICROBATCH_BUFFERS; g++)
        if (g->owner == b) g->owner = NULL, g->last_use = until;
    b->microbatch = tensor_none();
}

gradient_sum sharded_sum(const sharded *s, const bucket *b)
{
    return (gradient_sum){ tensor_slice(s->parts, 0, 0, b->elements),
                           tensor_slice(s->sum, 0, 0, bucket_part(b).count) };
}
