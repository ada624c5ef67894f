/* From all ranks to rank 0. */
#include "bench/run/gather_case.h"
#include "bench/launch/case_machine.h"
#include "bench/run/soak.h"
#include "machine/op/limits.h"
#include "machine/world.h"
#include <stddef.h>

void gather_ranks(case_result *r, trainer *t, rank_window *own)
{
    facts *f = &r->seen;
    const bench_case *c = r->given;
    world_broadcast(&f->completed, sizeof f->completed, 0);
    world_broadcast(&f->stopped, sizeof f->stopped, 0);
    soak_end(r);
    own_times times = times_of_rank(t ? t->machine : NULL, f->own_seconds, f->total);
    if (t) trainer_dismantle(t);
    f->ranks = times_gather(&times, f->completed, c->layout.ranks);
    f->devices = world_gather(own->window, sizeof own->window);
    samples_gather(&f->samples, case_machine(c).kind, c->layout.ranks, own->sampler);
}

/* SUM: of all ranks' counts. MOST: their largest number. FIRST: the text of the first rank whose count `by` is not 0.
 * WORST: the text of the rank whose number `by` is largest. */
typedef enum { SUM, MOST, FIRST, WORST } gather_way;
typedef struct {
    gather_way way;
    size_t at, by, bytes;
} gather_row;

/* Each compiles for members of its type alone. */
/* clang-format off */
#define IS(type, member) 0 * sizeof(char[_Generic(((facts *)0)->member, type : 1)])
#define COUNT(member) offsetof(facts, member) + IS(int64_t, member), 0, 0
#define NUMBER(member) offsetof(facts, member) + IS(double, member), 0, 0
#define TEXT(member, by) offsetof(facts, member), offsetof(facts, by), sizeof((facts *)0)->member
#define SHADOW(of)                                                                                                     \
    { FIRST, TEXT(of.sentence, of.failed) }, { FIRST, TEXT(of.file, of.failed) },                                      \
    { FIRST, TEXT(of.unwritten, of.failed) }, { FIRST, TEXT(of.first_left_out, of.left_out) },                         \
    { WORST, TEXT(of.worst_operation, of.worst) }, { WORST, TEXT(of.worst_product, of.worst_comparison) },             \
    { SUM, COUNT(of.operations) }, { SUM, COUNT(of.elements) }, { SUM, COUNT(of.failed) },                             \
    { SUM, COUNT(of.left_out) }, { SUM, COUNT(of.products) }, { SUM, COUNT(of.comparisons) },                          \
    { MOST, NUMBER(of.worst) }, { MOST, NUMBER(of.worst_comparison) }
/* clang-format on */

/* Texts come before the numbers that choose them. */
static const gather_row rows[] = { { FIRST, TEXT(machine.hazard, machine.hazards) },
                                   { SUM, COUNT(machine.hazards) },
                                   { SUM, COUNT(machine.faults) },
                                   SHADOW(machine.shadow),
                                   SHADOW(machine.replay),
                                   { MOST, NUMBER(replay_seconds) } };

static void gather_row_of(char *f, const gather_row *row)
{
    int64_t *count = (int64_t *)(void *)(f + row->at), *chosen = (int64_t *)(void *)(f + row->by);
    double *number = (double *)(void *)(f + row->at), *by = (double *)(void *)(f + row->by), sum, most;
    int from = world_ranks();
    switch (row->way) {
    case SUM:
        sum = (double)*count;
        world_sum(&sum, 1);
        *count = (int64_t)sum;
        break;
    case MOST: world_maximum(number, 1); break;
    case FIRST: from = world_first(*chosen > 0); break;
    case WORST:
        most = *by;
        world_maximum(&most, 1);
        from = world_first(*by == most);
        break;
    }
    if (from < world_ranks()) world_broadcast(f + row->at, row->bytes, from);
}

/* The largest comparison is told in units of the limit for as many comparisons as there were. */
static void scale_comparison(shadow_report *s) { s->worst_comparison /= signed_sum_limit((double)s->comparisons); }

void gather_findings(facts *f)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) gather_row_of((char *)f, &rows[i]);
    scale_comparison(&f->machine.shadow);
    scale_comparison(&f->machine.replay);
}
