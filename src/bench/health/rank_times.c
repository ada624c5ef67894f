/* Tables of steps x ranks, made from rows that are gathered from all ranks. */
#include "bench/health/rank_times.h"
#include "base/fail.h"
#include "base/memory.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Axes with transfers (parallel/mesh.c), and the table of exposed seconds of each. */
static const struct {
    const char *axis;
    rank_table exposed;
} gathered[GATHERED_AXES] = { { "tensor", RANK_EXPOSED_TENSOR },     { "context", RANK_EXPOSED_CONTEXT },
                              { "expert", RANK_EXPOSED_EXPERT },     { "shard", RANK_EXPOSED_SHARD },
                              { "pipeline", RANK_EXPOSED_PIPELINE }, { "gradient", RANK_EXPOSED_GRADIENT },
                              { "model", RANK_EXPOSED_ALL },         { "all", RANK_EXPOSED_ALL } };

/* Rows of a rank: step times, tables, then seconds in collectives on each axis. */
enum { ROW_TABLES = 1, ROW_COLLECTIVES = ROW_TABLES + RANK_TABLES, ROWS = ROW_COLLECTIVES + GATHERED_AXES };

static const char TIMES[] = "the times of ranks";

static int axis_number(const char *name)
{
    for (int a = 0; a < GATHERED_AXES; a++)
        if (strcmp(gathered[a].axis, name) == 0) return a;
    FAIL("the axis %s is not one whose waits are gathered", name);
}

const char *gathered_axis_name(int axis) { return gathered[axis].axis; }

static double *row_of(const own_times *t, int row) { return t->row + row * t->steps; }

static void add_axis(own_times *t, const tally_axis *axis, int column, const tally_step *step)
{
    int a = axis_number(axis->axis);
    t->work.first[a] = axis->first;
    for (int64_t s = 0; s < t->steps; s++) {
        row_of(t, ROW_TABLES + (int)gathered[a].exposed)[s] += step[s].exposed[column];
        row_of(t, ROW_COLLECTIVES + a)[s] = step[s].collectives[column];
    }
}

static void add_work(rank_work *w, const tally *t)
{
    for (int k = 0; k < OP_KINDS; k++) {
        if (op_is_transfer((op_kind)k)) continue;
        w->flops += t->kind[k].flops;
        w->bytes += t->kind[k].bytes;
    }
}

static rank_sums sums_of(const tally *t)
{
    rank_sums s = { .idle_seconds = t->idle_seconds, .dispatch_seconds = t->dispatch_seconds };
    memcpy(s.phase_seconds, t->phase_seconds, sizeof s.phase_seconds);
    for (int i = 0; i < t->axes; i++) {
        int a = axis_number(t->axis[i].axis);
        s.messages[a] = t->axis[i].messages;
        s.bytes[a] = t->axis[i].bytes;
        s.seconds[a] = t->axis[i].seconds;
    }
    return s;
}

own_times times_of_rank(machine *m, const tally *timed, const double *step, int64_t steps)
{
    own_times t = { .steps = steps };
    t.row = allocate(ROWS * steps, sizeof *t.row, TIMES);
    for (int a = 0; a < GATHERED_AXES; a++) t.work.first[a] = -1;
    snprintf(t.work.host, sizeof t.work.host, "%s", world_host());
    memcpy(row_of(&t, 0), step, (size_t)steps * sizeof *step);
    if (!m) return t;
    const tally *counted = machine_tally(m);
    const tally_step *step_tally = machine_steps(m);
    for (int64_t s = 0; s < steps; s++) {
        row_of(&t, ROW_TABLES + RANK_COMPUTING)[s] = step_tally[s].computing;
        row_of(&t, ROW_TABLES + RANK_RUN_DELAY)[s] = step_tally[s].run_delay;
    }
    for (int a = 0; a < counted->axes; a++) add_axis(&t, &counted->axis[a], a, step_tally);
    add_work(&t.work, counted);
    t.work.sums = sums_of(timed);
    return t;
}

/* Transposes all[ranks, steps] to a table [steps, ranks]. Steps that did not complete become NaN. */
static double *table_of(const double *all, int64_t steps, int64_t completed, int ranks)
{
    double *table = allocate(steps * ranks, sizeof *table, TIMES);
    for (int64_t s = 0; s < steps; s++)
        for (int i = 0; i < ranks; i++) table[s * ranks + i] = s < completed ? all[i * steps + s] : (double)NAN;
    return table;
}

/* Adds the lateness in an axis's collectives. seconds: [ranks, steps] in collectives. Skips invalid rank numbers, which
 * follow from a failed gather, after which the watch ends the run. */
static void add_lateness(const rank_times *x, int axis, const double *seconds, int64_t steps, int ranks)
{
    double *longest = allocate(ranks, sizeof *longest, TIMES);
    for (int64_t s = 0; s < steps; s++) {
        memset(longest, 0, (size_t)ranks * sizeof *longest);
        for (int i = 0; i < ranks; i++) {
            int first = x->work[i].first[axis];
            if (first >= 0 && first < ranks) longest[first] = fmax(longest[first], seconds[i * steps + s]);
        }
        for (int i = 0; i < ranks; i++) {
            int first = x->work[i].first[axis];
            if (first >= 0 && first < ranks)
                x->table[RANK_LATE][s * ranks + i] += longest[first] - seconds[i * steps + s];
        }
    }
    free(longest);
}

rank_times times_gather(own_times *t, int64_t completed, int ranks)
{
    rank_times x = { .work = world_gather(&t->work, sizeof t->work) };
    for (int row = 0; row < ROW_COLLECTIVES; row++) {
        double *all = world_gather(row_of(t, row), (size_t)t->steps * sizeof *all);
        double **to = row < ROW_TABLES ? &x.step : &x.table[row - ROW_TABLES];
        if (all) *to = table_of(all, t->steps, completed, ranks);
        free(all);
    }
    for (int a = 0; a < GATHERED_AXES; a++) {
        double *all = world_gather(row_of(t, ROW_COLLECTIVES + a), (size_t)t->steps * sizeof *all);
        if (all) add_lateness(&x, a, all, t->steps, ranks);
        free(all);
    }
    free(t->row);
    return x;
}

void times_free(rank_times *t)
{
    free(t->step);
    for (int i = 0; i < RANK_TABLES; i++) free(t->table[i]);
    free(t->work);
}
