/* Checks of sums over ranks: totals of each gradient before and after its sum, which must agree, and digests of the
 * weights that several ranks hold. bench/check/conservation.c and bench/check/replicas.c compare them. */
#include "base/random.h"
#include "train/trainer.h"

enum { MOMENT_WORDS = SUM_SLICES * SLICE_TOTALS };

static int64_t buckets_of(const trainer *t) { return t->stage.params.bucket_count + (t->stage.params.head != NULL); }
static uint64_t key_of(const trainer *t, const bucket *b)
{
    return (uint64_t)t->given->seed << 32 | fnv1a(t->stage.params.row[b->first_param].name);
}

/* A rank alone has nothing to compare. */
void conservation_open(trainer *t, arena *a)
{
    int64_t buckets = buckets_of(t);
    if (t->mesh->layout.ranks == 1) return;
    t->totals =
        tensor_taken(a, BATCH, tensor_2d(NULL, F64, REPORT_SLOTS, buckets * BUCKET_SUMS * SUM_MOMENTS * MOMENT_WORDS));
    t->digests = tensor_taken(a, BATCH, tensor_1d(NULL, U64, buckets * BUCKET_DIGESTS));
}

conserved_sum conserved_sum_of(const trainer *t, const bucket *b, bucket_sum which)
{
    bool by_parts = b->gathered_for_use;
    conserved_sum s = { .elements = bucket_part(b).count, .type = b->gradient.type };
    if (which == SUM_OF_HOLDERS && b->holders)
        s = (conserved_sum){ .over = b->holders, .elements = b->elements, .type = b->partial.type };
    if (which == SUM_OF_PARTS && b->parts) s.over = b->parts, s.scatters = true, s.in_fp32 = by_parts;
    if (which == SUM_OF_PARTS && by_parts) s.type = t->stage.sharded.sum.type;
    if (which == SUM_OF_COPIES) s.over = b->sum, s.scatters = b->owners != NULL;
    if (s.over && s.over->size == 1) s.over = NULL;
    if (which == SUM_OF_COPIES && s.scatters) s.elements = b->shard_elements;
    s.in_fp32 = s.in_fp32 || t->kind == MACHINE_HOST;
    return s;
}

int64_t conserved_offset(const trainer *t, const bucket *b, bucket_sum which, sum_moment when)
{
    return (((b - t->stage.params.buckets) * BUCKET_SUMS + which) * SUM_MOMENTS + when) * MOMENT_WORDS;
}

static mark submit_totals(trainer *t, queue *q, tensor x, int64_t at, signed_sums_args args)
{
    tensor row = tensor_flat(tensor_slice(t->totals, 0, t->steps % REPORT_SLOTS, 1));
    return submit(q, "conservation",
                  signed_sums_op(x, t->stage.scalars, tensor_slice(row, 0, at, MOMENT_WORDS), &args));
}

void conserve_before(trainer *t, queue *q, const bucket *b, bucket_sum which, tensor x)
{
    conserved_sum s = conserved_sum_of(t, b, which);
    signed_sums_args args = { .key = key_of(t, b),
                              .place = which == SUM_OF_COPIES ? bucket_part(b).first : 0,
                              .owners = s.over && s.scatters ? s.over->size : 1 };
    if (s.over) submit_totals(t, q, x, conserved_offset(t, b, which, BEFORE_SUM), args);
}

mark conserve_after(trainer *t, queue *q, const bucket *b, bucket_sum which, tensor x)
{
    const int64_t place[BUCKET_SUMS] = { 0, bucket_part(b).first, b->shard_first };
    signed_sums_args args = { .key = key_of(t, b), .place = place[which], .owners = 1 };
    if (!conserved_sum_of(t, b, which).over) return queue_mark(q);
    return submit_totals(t, q, x, conserved_offset(t, b, which, AFTER_SUM), args);
}

/* The draw depends on seed and step only, so it is the same on all ranks. */
int64_t checked_microbatch(const trainer *t)
{
    uint64_t draw = mix64((uint64_t)t->given->seed << 32 ^ (uint64_t)t->steps);
    return (int64_t)(draw % (uint64_t)t->stage.params.microbatches);
}

int64_t trainer_totals_length(const trainer *t) { return tensor_elements(&t->totals) / REPORT_SLOTS; }

void trainer_totals(const trainer *t, int64_t step, double *to)
{
    if (tensor_present(&t->totals)) machine_read(t->machine, to, tensor_slice(t->totals, 0, step % REPORT_SLOTS, 1));
}

/* ---- digests ---- */

static bool is_still_gathered(const trainer *t, const bucket *b)
{
    const weight_buffer *w = t->stage.sharded.weight;
    bool found = false;
    for (int i = 0; i < UNIT_BUFFERS; i++) found = found || w[i].unit == b->unit;
    return b->gathered_for_use && found;
}

static void digest(trainer *t, bucket *b, bucket_digest which, tensor x, int64_t place)
{
    tensor sum = tensor_slice(t->digests, 0, (b - t->stage.params.buckets) * BUCKET_DIGESTS + which, 1);
    if (tensor_present(&x))
        b->used = submit(t->queues.compute, "digest", digest_op(x, sum, &(digest_args){ key_of(t, b), place }));
}

void trainer_digest_weights(trainer *t, uint64_t *to)
{
    queue *q = t->queues.compute;
    if (!tensor_present(&t->digests)) return;
    submit(q, "digest", fill_op(t->digests, 0.0));
    for (bucket *b = t->stage.params.buckets; b < t->stage.params.buckets + t->stage.params.bucket_count; b++) {
        queue_wait(q, b->gathered);
        digest(t, b, DIGEST_HELD, b->weight, bucket_held(b).first);
        digest(t, b, DIGEST_TRANSPOSED, b->transposed, 0);
        if (is_still_gathered(t, b)) digest(t, b, DIGEST_GATHERED, b->whole, 0);
    }
    mark_sync(queue_mark(q));
    machine_read(t->machine, to, t->digests);
}
