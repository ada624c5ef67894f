/* Tables of steps x ranks, one row of a rank after another. */
#include "bench/health/gather.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/text.h"
#include "bench/health/outliers.h"
#include "bench/health/slow_steps.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The axes of groups that transfer (parallel/mesh.c), and the table of what was waited for on them. */
enum { GATHERED_AXES = 8 };
static const struct {
    const char *axis;
    rank_table waiting;
} gathered[GATHERED_AXES] = { { "tensor", RANK_WAITING_TENSOR },     { "context", RANK_WAITING_CONTEXT },
                              { "expert", RANK_WAITING_EXPERT },     { "shard", RANK_WAITING_SHARD },
                              { "pipeline", RANK_WAITING_PIPELINE }, { "gradient", RANK_WAITING_GRADIENT },
                              { "model", RANK_WAITING_ALL },         { "all", RANK_WAITING_ALL } };

/* Rows of a rank's seconds: the tables', then those in collectives on each axis. */
enum { ROWS = RANK_TABLES + GATHERED_AXES };

typedef struct rank_facts {
    double flops, bytes;      /* of computing operations */
    int first[GATHERED_AXES]; /* world rank of the first member of the group; -1: no collectives */
    char host[64];
} rank_facts;

static int gathered_axis(const char *name)
{
    for (int a = 0; a < GATHERED_AXES; a++)
        if (strcmp(gathered[a].axis, name) == 0) return a;
    FAIL("the axis %s is not one whose waits are gathered", name);
}

static void *taken(size_t count, size_t bytes) { return allocate((int64_t)count, bytes, "the times of ranks"); }

static double *row_of(const rank_times *t, int row) { return t->seconds + row * t->steps; }

static void take_axis(rank_times *t, const tally_axis *axis, int column, const tally_step *step)
{
    int a = gathered_axis(axis->axis);
    t->facts->first[a] = axis->first;
    for (int64_t s = 0; s < t->steps; s++) {
        row_of(t, (int)gathered[a].waiting)[s] += step[s].waiting[column];
        row_of(t, RANK_TABLES + a)[s] = step[s].collectives[column];
    }
}

static void take_work(rank_facts *f, const tally *t)
{
    for (int k = 0; k < OP_KINDS; k++) {
        if (op_is_transfer((op_kind)k)) continue;
        f->flops += t->kind[k].flops;
        f->bytes += t->kind[k].bytes;
    }
}

rank_times times_of_rank(const case_result *r, machine *m)
{
    rank_times t = { .steps = r->total };
    t.seconds = taken((size_t)(ROWS * t.steps), sizeof *t.seconds);
    t.facts = taken(1, sizeof *t.facts);
    for (int a = 0; a < GATHERED_AXES; a++) t.facts->first[a] = -1;
    snprintf(t.facts->host, sizeof t.facts->host, "%s", world_host());
    if (!m) return t;
    const tally *counted = machine_tally(m);
    const tally_step *step = machine_steps(m);
    for (int64_t s = 0; s < t.steps; s++) {
        row_of(&t, RANK_COMPUTING)[s] = step[s].computing;
        row_of(&t, RANK_RUN_DELAY)[s] = step[s].run_delay;
    }
    for (int a = 0; a < counted->axes; a++) take_axis(&t, &counted->axis[a], a, step);
    take_work(t.facts, counted);
    return t;
}

/* Adds to the table by how much longer another member was in the axis's collectives. */
static void add_lateness(const double *all, const rank_facts *facts, int a, case_result *r)
{
    int ranks = r->given->layout.ranks;
    int64_t total = r->total;
    double *longest = taken((size_t)ranks, sizeof *longest), *late = r->rank_table[RANK_LATE];
    for (int64_t s = 0; s < r->completed; s++) {
        memset(longest, 0, (size_t)ranks * sizeof *longest);
        for (int i = 0; i < ranks; i++) {
            double *most = facts[i].first[a] < 0 ? NULL : &longest[facts[i].first[a]];
            if (most) *most = fmax(*most, all[i * total + s]);
        }
        for (int i = 0; i < ranks; i++)
            if (facts[i].first[a] >= 0) late[s * ranks + i] += longest[facts[i].first[a]] - all[i * total + s];
    }
    free(longest);
}

static void lay_table(const double *all, int table, case_result *r)
{
    int ranks = r->given->layout.ranks;
    int64_t total = r->total;
    for (int64_t s = 0; s < r->completed; s++)
        for (int i = 0; i < ranks; i++) r->rank_table[table][s * ranks + i] = all[i * total + s];
}

/* Of several threads only the main one's run delay is told: where they share cores, that of the others is in what is
 * left of its computing, which says then who was given a core, and not who is slow. */
bool paces_are_known(const case_result *r)
{
    return r->given->backend == BACKEND_CUDA || r->load.threads == 1 || !load_is_crowded(&r->load);
}

void judge_paces(case_result *r)
{
    int ranks = r->given->layout.ranks;
    int64_t first = r->given->warmup * ranks, steps = r->completed - r->given->warmup, timed = steps > 0 ? steps : 0;
    double *own = taken((size_t)(timed * ranks) + 1, sizeof *own);
    for (int64_t i = 0; i < timed * ranks; i++)
        own[i] = fmax(r->rank_table[RANK_COMPUTING][first + i] - r->rank_table[RANK_RUN_DELAY][first + i], 0.0);
    find_paces(own, paces_are_known(r) ? timed : 0, ranks, r->pace);
    free(own);
}

/* "outlier rank 1 on host: its own computing took 203 % longer than its peers'". */
static void name_outlier(const case_result *r, int rank, const char *host, char sentence[REASON_LENGTH])
{
    const rank_pace *p = &r->pace[rank];
    const char *device = r->devices[2 * rank].identity;
    const double *late = r->rank_table[RANK_LATE];
    int64_t timed = r->completed - r->given->warmup;
    double seconds = 0.0;
    for (int64_t s = r->given->warmup; s < r->completed; s++) seconds += late[s * r->given->layout.ranks + rank];
    snprintf(sentence, REASON_LENGTH,
             "outlier rank %d on %.32s%s%.40s: its own computing took %.3g %% longer than its peers' (%d rank%s of the "
             "same work; +- %.2g %%); it came %.3g ms a step late to collectives",
             rank, host, device[0] ? ", " : "", device, 100.0 * p->excess, p->peers, plural(p->peers), 100.0 * p->error,
             1e3 * seconds / (double)timed);
}

/* The next slowest behind `before`, or -1. */
static int next_outlier(const case_result *r, double before)
{
    int worst = -1;
    for (int i = 0; i < r->given->layout.ranks; i++) {
        const rank_pace *p = &r->pace[i];
        if (pace_is_outlier(p) && p->excess < before && (worst < 0 || p->excess > r->pace[worst].excess)) worst = i;
    }
    return worst;
}

static void name_outliers(case_result *r, const rank_facts *facts)
{
    double before = INFINITY;
    for (int i = 0; i < OUTLIERS; i++) {
        int rank = next_outlier(r, before);
        if (rank < 0) return;
        name_outlier(r, rank, facts[rank].host, r->outlier[i]);
        before = r->pace[rank].excess;
    }
}

void times_gather(rank_times *t, case_result *r)
{
    rank_facts *facts = world_gather(t->facts, sizeof *facts);
    for (int row = 0; row < ROWS; row++) {
        double *all = world_gather(row_of(t, row), (size_t)t->steps * sizeof *all);
        if (all && row < RANK_TABLES) lay_table(all, row, r);
        if (all && row >= RANK_TABLES) add_lateness(all, facts, row - RANK_TABLES, r);
        free(all);
    }
    for (int i = 0; facts && i < r->given->layout.ranks; i++)
        r->pace[i] = (rank_pace){ .flops = facts[i].flops, .bytes = facts[i].bytes };
    if (facts) judge_paces(r), name_outliers(r, facts), slow_steps_find(r, facts->host, sizeof *facts);
    world_broadcast(r->outlier, sizeof r->outlier, 0);
    free(facts);
    free(t->seconds);
    free(t->facts);
    *t = (rank_times){ .seconds = NULL };
}
