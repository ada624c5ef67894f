/* Table of the facts, and its reductions. */
#include "bench/run/gather_case.h"
#include "base/memory.h"
#include "bench/launch/case_machine.h"
#include "bench/run/soak.h"
#include "machine/op/limits.h"
#include "machine/world.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Returns the table [total, copies] of the lists [total] of the first rank of each copy; NULL except on rank 0. */
static double *gather_list(const double *own, const facts *f, const mesh_layout *l)
{
    double *all = world_gather(own, (size_t)f->total * sizeof *own), *table = NULL;
    if (all) table = allocate(f->total * l->copies, sizeof *table, "the steps of copies");
    for (int64_t i = 0; table && i < f->total * l->copies; i++) {
        int64_t step = i / l->copies, rank = i % l->copies * l->ranks;
        table[i] = step < f->completed ? all[rank * f->total + step] : (double)NAN;
    }
    free(all);
    return table;
}

static void gather_copies(facts *f, const mesh_layout *l)
{
    if (l->copies == 1) return;
    weights_digest *all = world_gather(&f->weights_digest, sizeof f->weights_digest);
    for (int i = 0; all && i < l->copies; i++) all[i] = all[i * l->ranks];
    f->copies = (copy_facts){ gather_list(f->loss, f, l), gather_list(f->gradient_norm, f, l), all };
}

void gather_ranks(case_result *r, own_times *times, sampler *own, double window)
{
    facts *f = &r->seen;
    const bench_case *c = r->given;
    double ended[2] = { times ? -(double)f->completed : -INFINITY, f->stopped };
    world_maximum(ended, 2); /* copies that are stopped may end at different steps */
    f->completed = (int64_t)-ended[0], f->stopped = (int)ended[1];
    soak_end(r);
    own_times none = { .steps = 0 };
    if (!times) none = times_of_rank(NULL, NULL, f->own_seconds, f->total);
    f->ranks = times_gather(times ? times : &none, f->completed, c->ranks);
    samples_gather(&f->samples, &(sampled){ case_machine(c).kind, c->ranks, own, window });
    gather_copies(f, &c->layout);
}

/* SUM: sum of all counts. MAX: largest number, and its rank. FIRST: text of the lowest rank that has one, and that
 * rank. SAME: text of the same rank as the previous row. EACH_RANK: list with an entry of each rank. */
typedef enum { SUM, MAX, FIRST, SAME, EACH_RANK } gather_method;
typedef struct {
    gather_method method;
    size_t at, bytes;
    size_t rank; /* offset of the member for the rank's number; 0 if it is not kept */
} gather_row;

/* Each macro compiles only for members of its type. */
/* clang-format off */
#define IS(type, member) 0 * sizeof(char[_Generic(((facts *)0)->member, type : 1)])
#define COUNT(member) offsetof(facts, member) + IS(int64_t, member), sizeof(int64_t)
#define NUMBER(member) offsetof(facts, member) + IS(double, member), sizeof(double)
#define TEXT(member) offsetof(facts, member) + IS(char *, member), sizeof ((facts *)0)->member
#define LIST(member, entries) offsetof(facts, member), (entries) * sizeof *((facts *)0)->member
#define RANK(member) offsetof(facts, member) + IS(int, member)
#define SHADOW(of)                                                                                                     \
    { FIRST, TEXT(of.sentence), RANK(of.rank) }, { SAME, TEXT(of.file) }, { SAME, TEXT(of.unwritten) },                \
    { FIRST, TEXT(of.first_left_out) },                                                                                \
    { MAX, NUMBER(of.worst) }, { SAME, TEXT(of.worst_operation) },                                                    \
    { MAX, NUMBER(of.worst_comparison), RANK(of.product_rank) }, { SAME, TEXT(of.worst_product) },                    \
    { SUM, COUNT(of.operations) }, { SUM, COUNT(of.elements) }, { SUM, COUNT(of.failed) },                             \
    { SUM, COUNT(of.left_out) }, { SUM, COUNT(of.products) }, { SUM, COUNT(of.comparisons) }
static const gather_row rows[] = {
    { SUM, COUNT(machine.hazards) }, { FIRST, TEXT(machine.hazard), RANK(machine.hazard_rank) },
    { SUM, COUNT(machine.faults) }, { FIRST, TEXT(struck) },
    { SUM, COUNT(check.faults) }, { FIRST, TEXT(check.struck) },
    SHADOW(machine.shadow), SHADOW(machine.replay), { MAX, NUMBER(replay_seconds) },
    { SUM, COUNT(conserved.comparisons) }, { SUM, COUNT(conserved.failed) }, { MAX, NUMBER(conserved.worst) },
    { FIRST, TEXT(conserved.sentence), RANK(conserved.rank) },
    { SUM, COUNT(conserved.replicas) }, { SUM, COUNT(conserved.unequal) },
    { FIRST, TEXT(conserved.unequal_sentence), RANK(conserved.unequal_rank) },
    { FIRST, TEXT(libraries_differ), RANK(libraries_rank) }, { FIRST, TEXT(preloaded), RANK(preloaded_rank) },
    { FIRST, TEXT(profiled), RANK(profiled_rank) },
    { FIRST, TEXT(samples.throttled), RANK(samples.throttled_rank) },
    { FIRST, TEXT(samples.lost), RANK(samples.lost_rank) },
    { MAX, NUMBER(samples.every) }, { MAX, NUMBER(samples.cost_share) },
    { MAX, NUMBER(outside_bytes) }, { MAX, NUMBER(own_outside_bytes) }, { MAX, NUMBER(device_outside_bytes) },
    { EACH_RANK, LIST(devices, 2) },
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof *rows };

static double *number_of(char *f, const gather_row *row) { return (double *)(void *)(f + row->at); }

/* Returns whether this rank has the value of a row. Compares bits, because the largest number, `most`, may be NaN. */
static bool is_taken(char *f, const gather_row *row, double most)
{
    if (row->method == MAX) return memcmp(number_of(f, row), &most, sizeof most) == 0;
    return row->method == FIRST && f[row->at] != 0;
}

/* Replaces the numbers of MAX rows by the largest. Finds the rank from which each row is taken, or -1. */
static void find_ranks(char *f, int from[ROWS])
{
    double most[ROWS], first[ROWS];
    for (int i = 0; i < ROWS; i++) most[i] = rows[i].method == MAX ? *number_of(f, &rows[i]) : 0.0;
    world_maximum(most, ROWS);
    for (int i = 0; i < ROWS; i++) first[i] = is_taken(f, &rows[i], most[i]) ? -world_rank() : -world_ranks();
    world_maximum(first, ROWS);
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].method == MAX) *number_of(f, &rows[i]) = most[i];
        from[i] = first[i] > -(double)world_ranks() ? (int)-first[i] : -1;
        if (rows[i].method == SAME) from[i] = from[i - 1];
        if (rows[i].rank) *(int *)(void *)(f + rows[i].rank) = from[i];
    }
}

/* Numbers and lists take no words, because they are gathered separately. */
static size_t words_of(const gather_row *row)
{
    if (row->method == MAX || row->method == EACH_RANK) return 0;
    return (row->bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

/* Adds words over ranks. For a text all ranks but one contribute zeros, so the sum is the text of that rank. */
static void add_words(char *f, const int from[ROWS])
{
    size_t at[ROWS + 1] = { 0 };
    for (int i = 0; i < ROWS; i++) at[i + 1] = at[i] + words_of(&rows[i]);
    uint64_t *word = allocate((int64_t)at[ROWS], sizeof *word, "the findings of a case");
    for (int i = 0; i < ROWS; i++)
        if (at[i + 1] > at[i] && (rows[i].method == SUM || from[i] == world_rank()))
            memcpy(word + at[i], f + rows[i].at, rows[i].bytes);
    world_sum_words(word, (int64_t)at[ROWS]);
    for (int i = 0; i < ROWS; i++)
        if (at[i + 1] > at[i]) memcpy(f + rows[i].at, word + at[i], rows[i].bytes);
    free(word);
}

static void gather_lists(char *f)
{
    for (int i = 0; i < ROWS; i++) {
        void *own, *all;
        if (rows[i].method != EACH_RANK) continue;
        memcpy(&own, f + rows[i].at, sizeof own);
        if (!own) continue;
        all = world_gather(own, rows[i].bytes);
        memcpy(f + rows[i].at, &all, sizeof all);
        free(own);
    }
}

/* Divides the largest comparison by its limit, which depends on the number of comparisons on all ranks. */
static void scale_comparison(shadow_report *s) { s->worst_comparison /= signed_sum_limit((double)s->comparisons); }

void gather_findings(facts *f)
{
    int from[ROWS];
    find_ranks((char *)f, from);
    add_words((char *)f, from);
    gather_lists((char *)f);
    scale_comparison(&f->machine.shadow);
    scale_comparison(&f->machine.replay);
}
