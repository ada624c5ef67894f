/* Digests of weights, compared group by group with those of the first rank. */
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

/* Halves of a digest, because MPI sums doubles here and a double holds 32 bits exactly. */
enum { HALVES = 2 };
static double half_of(uint64_t digest, int half) { return (double)(uint32_t)(digest >> 32 * half); }

/* A group whose members hold the same bucket, and the kinds of digest to compare, from `from` to before `end`. b is
 * NULL on a member that does not hold it; the first rank always does. */
typedef struct {
    const bucket *b;
    const group *g;
    int from, end;
} replicas;

static void differ(comparison *c, const replicas *s, int which)
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
        if (half_of(own[i], 0) != first[i][0] || half_of(own[i], 1) != first[i][1]) differ(c, s, i);
    }
}

/* Shard ranks hold different parts of a bucket that is gathered for use, so only the gathered copies are compared. */
static void compare_bucket(comparison *c, const bucket *b)
{
    group *const of[] = { b->sum, b->parts, b->holders };
    for (int i = 0; i < 3; i++) {
        if (!of[i] || of[i]->size == 1) continue;
        bool apart = of[i] == b->parts && b->gathered_for_use;
        compare_within(c, &(replicas){ b, of[i], apart ? DIGEST_GATHERED : DIGEST_HELD, BUCKET_DIGESTS });
    }
}

/* A tied embedding is on the first stage and on the last. */
static void compare_ends(comparison *c)
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
    compare_ends(&c);
    free(digest);
}
