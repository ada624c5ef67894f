/* Comparison of digests of weights in each group. */
#include "bench/check/replicas.h"
#include "base/memory.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    conservation *found;
    const trainer *t;
    const uint64_t *digest;
} comparison;

/* Digests are sent as two halves, because MPI sums doubles here, and a double represents 32 bits exactly. */
enum { HALVES = 2 };
static double half_of(uint64_t digest, int half) { return (double)(uint32_t)(digest >> 32 * half); }

/* A bucket, the ranks that hold it, and the kinds of digest to compare: from <= kind < end. b is NULL on a rank of the
 * group that does not hold the bucket. The first rank holds it. */
typedef struct {
    const bucket *b;
    const group *g;
    int from, end;
} replicas;

static void add_difference(comparison *c, const replicas *s, int which)
{
    static const char *const words[BUCKET_DIGESTS] = { "", ", transposed", ", as gathered" };
    conservation *to = c->found;
    if (to->unequal++) return;
    snprintf(to->unequal_sentence, sizeof to->unequal_sentence,
             "after the last step the weights of %.60s%s on rank %d differ from those of rank %d",
             c->t->stage.params.row[s->b->first_param].name, words[which], world_rank(), group_world_rank(s->g, 0));
}

static void compare_within(comparison *c, const replicas *s)
{
    const uint64_t *own = c->digest + (s->b ? (s->b - c->t->stage.params.buckets) * BUCKET_DIGESTS : 0);
    double first[BUCKET_DIGESTS][HALVES] = { { 0.0 } };
    for (int i = s->from; i < s->end && s->g->rank == 0; i++)
        for (int half = 0; half < HALVES; half++) first[i][half] = half_of(own[i], half);
    world_reduce_group(s->g, &first[0][0], BUCKET_DIGESTS * HALVES, false);
    for (int i = s->from; i < s->end && s->b && s->g->rank > 0; i++) {
        c->found->replicas += own[i] != 0;
        if (half_of(own[i], 0) != first[i][0] || half_of(own[i], 1) != first[i][1]) add_difference(c, s, i);
    }
}

/* If a bucket is gathered for use, shard ranks hold different parts, and only the gathered copies are compared. */
static void compare_bucket(comparison *c, const bucket *b)
{
    group *const groups[] = { b->sum, b->parts, b->holders };
    for (int i = 0; i < 3; i++) {
        if (!groups[i] || groups[i]->size == 1) continue;
        bool parts = groups[i] == b->parts && b->gathered_for_use;
        compare_within(c, &(replicas){ b, groups[i], parts ? DIGEST_GATHERED : DIGEST_HELD, BUCKET_DIGESTS });
    }
}

/* A tied embedding is on the first stage and on the last. */
static void compare_tied_embedding(comparison *c)
{
    const group *stages = &c->t->mesh->axis[AXIS_PIPELINE];
    if (c->t->given->model.tied_embedding && stages->size > 1)
        compare_within(c, &(replicas){ c->t->stage.params.tied_embedding, stages, DIGEST_HELD, DIGEST_GATHERED });
}

void replicas_compare(conservation *to, trainer *t)
{
    const param_table *p = &t->stage.params;
    uint64_t *digest = allocate(tensor_elements(&t->digests) + 1, sizeof *digest, "digests of weights");
    comparison c = { to, t, digest };
    trainer_digest_weights(t, digest);
    for (int i = 0; i < p->bucket_count; i++) compare_bucket(&c, &p->buckets[i]);
    compare_tied_embedding(&c);
    free(digest);
}
