/* The schedule of a case, as lists and as a picture. */
#include "base/memory.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/paper/dry_run.h"
#include "plan/schedule/schedule_simulate.h"

enum { MOST_ACTIONS = 1000000 }; /* of all stages together; a longer output is unreadable */

static int stages_of(const bench_case *c) { return c->layout.degree[AXIS_PIPELINE]; }

static void show_lists(const bench_case *c, const schedule *list)
{
    say("  lists       F forward, B backward%s; chunk.microbatch\n",
        schedule_defers(c, c->microbatches - 1) ? ", W weight gradient of the LM head, deferred" : "");
    for (int stage = 0; stage < stages_of(c); stage++) {
        say("  stage %-5d ", stage);
        schedule_print(&list[stage], stdout);
    }
}

/* A tick is the forward of a chunk; the printed unit is the forward of a stage. */
static void show_times(const schedule_timing *t)
{
    double chunks = (double)t->chunks, busy = 0.0, total = (double)t->makespan * t->stages;
    for (int stage = 0; stage < t->stages; stage++) busy += (double)t->busy[stage];
    say("  makespan    %g forwards of a stage, %g of them (%.1f %%) a bubble; a backward counts 2, transfers and W "
        "nothing\n",
        (double)t->makespan / chunks, (total - busy) / (chunks * t->stages), 100.0 * (total - busy) / total);
    if (t->chunks > 1) say("              a tick is the forward of a chunk, 1/%d of a stage's\n", t->chunks);
}

static void show_simulated(const bench_case *c, const schedule *list)
{
    schedule_timing t = schedule_simulate(c, list, &schedule_unit_costs);
    if (t.mistake[0]) say("  WRONG       %s\n", t.mistake);
    else {
        show_times(&t);
        schedule_picture(c, list, &t, stdout);
    }
    schedule_timing_free(&t);
}

static void show_stages(const bench_case *c)
{
    schedule *list = allocate(stages_of(c), sizeof *list, "the schedules of stages");
    for (int stage = 0; stage < stages_of(c); stage++) list[stage] = schedule_make(c, stage);
    show_lists(c, list);
    show_simulated(c, list);
    for (int stage = 0; stage < stages_of(c); stage++) schedule_free(&list[stage]);
    free(list);
}

void show_schedule(const bench_case *c)
{
    int stages = stages_of(c), chunks = c->layout.chunks_per_stage;
    int64_t actions = 2 * c->microbatches * chunks * stages;
    if (!say_enabled()) return;
    say("  schedule    %s, %d stage%s x %d chunk%s x %lld microbatch%s\n", schedule_name(c->schedule), stages,
        plural(stages), chunks, plural(chunks), (long long)c->microbatches, c->microbatches == 1 ? "" : "es");
    if (actions > MOST_ACTIONS)
        say("  lists       not shown: %lld actions, at most %d\n", (long long)actions, MOST_ACTIONS);
    else show_stages(c);
}
