/* Sizes of the lists of a soak. Unused memory is never touched, so it costs only address space. */
#include "bench/run/soak.h"
#include "base/clock.h"
#include "bench/facts/fields.h"
#include "bench/record/journal.h"
#include "bench/run/stop.h"
#include "machine/world.h"
#include <math.h>

/* WARMUP_FACTOR: how much slower warm-up steps may be than the others, for example on a busy machine. STEPS_GATHERED:
 * most steps of a gather, with one number per step from each rank. Parts of the journal's entry that do not grow with
 * steps: RANK_BYTES per rank (samples, single numbers), CASE_BYTES for the rest, such as spans. */
enum {
    WARMUP_FACTOR = 4,
    STEPS_GATHERED = WORLD_GATHER_MOST / sizeof(double),
    RANK_BYTES = SAMPLES_KEPT * sizeof(ranked_sample) + 4096,
    CASE_BYTES = 1 << 26
};

/* Returns the bytes of all numbers of one step, 8 for each. */
static int64_t bytes_of_step(const case_result *r)
{
    int64_t bytes = 0;
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        for (const field *f = g->field; f < g->field + g->fields; f++)
            if (f->per == PER_STEP) bytes += 8 * field_columns(f, r);
    }
    return bytes;
}

int64_t soak_steps_most(const case_result *r)
{
    const bench_case *c = r->given;
    int64_t deck_steps = c->warmup + c->steps, bytes = JOURNAL_ENTRY_MOST - CASE_BYTES - c->ranks * (int64_t)RANK_BYTES;
    int64_t most = bytes / bytes_of_step(r);
    if (most > STEPS_GATHERED) most = STEPS_GATHERED;
    return most > deck_steps ? most : deck_steps;
}

double soak_begin(case_result *r)
{
    const bench_case *c = r->given;
    double fastest = INFINITY, seconds = 60.0 * c->minutes;
    if (c->minutes == 0.0) return 0.0;
    for (int64_t i = 0; i < c->warmup; i++) fastest = fmin(fastest, r->seen.own_seconds[i]);
    double wanted = (double)(c->warmup + c->steps) + ceil(WARMUP_FACTOR * seconds / fastest),
           end = clock_seconds() + seconds;
    facts_resize(&r->seen, (int64_t)fmin(wanted, (double)soak_steps_most(r)));
    return end;
}

bool soak_grow(case_result *r, int64_t step)
{
    facts *f = &r->seen;
    bool is_full = r->given->minutes > 0.0 && step >= r->given->warmup && step + 3 >= f->total;
    int64_t most = is_full ? soak_steps_most(r) : 0;
    if (f->total >= most) return false;
    facts_resize(f, f->total < most / 2 ? 2 * f->total : most);
    return true;
}

int soak_reason(const case_result *r, double end, int64_t step)
{
    const bench_case *c = r->given;
    bool is_done = step + 2 >= c->warmup + c->steps && clock_seconds() >= end;
    return c->minutes > 0.0 && step >= c->warmup && (is_done || step + 2 >= r->seen.total) ? STOP_SOAKED : 0;
}

void soak_end(case_result *r)
{
    if (r->given->minutes > 0.0) facts_resize(&r->seen, r->seen.completed);
}
