/* Schedules: textbook lists, no deadlock, makespan, memory. A forward takes one unit of time, a backward two. */
#include "plan/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FORWARD_TIME = 1, BACKWARD_TIME = 2, STAGES = 8, CHUNKS = 4, MICROBATCHES = 32 };

static bench_case case_with(schedule_kind kind, int stages, int chunks, int64_t microbatches)
{
    bench_case c = { .schedule = kind, .microbatches = microbatches };
    c.layout.degree[AXIS_PIPELINE] = stages;
    c.layout.chunks_per_stage = chunks;
    return c;
}

static void assert_list(const bench_case *c, int stage, const char *wanted)
{
    schedule s = schedule_make(c, stage);
    char *shown = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&shown, &length);
    schedule_print(&s, out);
    fclose(out);
    assert_string_equal(shown, wanted);
    free(shown);
    schedule_free(&s);
    assert_null(s.action);
}

static void assert_schedule(schedule_kind kind, int stages, int chunks, int64_t microbatches, int stage,
                            const char *wanted)
{
    bench_case c = case_with(kind, stages, chunks, microbatches);
    assert_list(&c, stage, wanted);
}

static void one_stage_is_one_by_one(void **state)
{
    assert_schedule(SCHEDULE_1F1B, 1, 1, 1, 0, "F0.0 B0.0\n");
    assert_schedule(SCHEDULE_1F1B, 1, 1, 3, 0, "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2\n");
}

static void prints_the_textbook(void **state)
{
    assert_schedule(SCHEDULE_GPIPE, 2, 1, 3, 0, "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n");
    assert_schedule(SCHEDULE_1F1B, 2, 1, 3, 0, "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2\n");
    assert_schedule(SCHEDULE_1F1B, 2, 1, 3, 1, "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2\n");
    assert_schedule(SCHEDULE_1F1B, 4, 1, 2, 0, "F0.0 F0.1 B0.0 B0.1\n");
    assert_schedule(SCHEDULE_INTERLEAVED, 2, 2, 2, 1, "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 B0.0 B0.1\n");
    assert_schedule(SCHEDULE_INTERLEAVED, 2, 2, 4, 0,
                    "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3\n");
}

static void deferred_weights_drain(void **state)
{
    bench_case c = case_with(SCHEDULE_INTERLEAVED, 2, 2, 4);
    c.head_deferral = 3;
    assert_list(&c, 0, "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3\n");
    assert_list(&c, 1, "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3 W1.1 W1.2 W1.3\n");
    c = case_with(SCHEDULE_GPIPE, 2, 1, 2);
    c.head_deferral = 22;
    assert_list(&c, 1, "F0.0 F0.1 B0.0 B0.1 W0.0 W0.1\n");
    c = case_with(SCHEDULE_1F1B, 1, 1, 2);
    c.head_deferral = 22;
    assert_list(&c, 0, "F0.0 B0.0 F0.1 B0.1\n");
}

/* Every forward and backward once, backwards of a chunk in microbatch order and after their forward. */
static void assert_sound(const schedule *s, const bench_case *c)
{
    bool done[2][CHUNKS][MICROBATCHES] = { 0 };
    int64_t next[CHUNKS] = { 0 }, last = 0;
    assert_int_equal(s->length, 2 * c->microbatches * c->layout.chunks_per_stage);
    for (int64_t i = 0; i < s->length; i++) {
        schedule_action a = s->action[i];
        assert_true(a.chunk < c->layout.chunks_per_stage && a.microbatch < c->microbatches);
        assert_false(done[a.verb][a.chunk][a.microbatch]);
        if (a.verb == BACKWARD) assert_true(done[FORWARD][a.chunk][a.microbatch] && a.microbatch == next[a.chunk]++);
        done[a.verb][a.chunk][a.microbatch] = true;
        last += schedule_last_backward(s, i);
        assert_int_equal(schedule_last_backward(s, i), a.verb == BACKWARD && a.microbatch == c->microbatches - 1);
    }
    assert_int_equal(last, c->layout.chunks_per_stage);
}

typedef struct {
    int stages, chunks;
    schedule list[STAGES];
    int64_t at[STAGES], free_at[STAGES];
    int64_t end[2][STAGES * CHUNKS][MICROBATCHES]; /* 0: not done */
} simulation;

/* When an action may start, or -1: what it waits for is not done. Part p of the model is chunk p / stages of stage p % stages. */
static int64_t ready(const simulation *sim, int stage, schedule_action a)
{
    int part = a.chunk * sim->stages + stage, parts = sim->stages * sim->chunks;
    int64_t before = 0;
    if (a.verb == FORWARD && part > 0) before = sim->end[FORWARD][part - 1][a.microbatch];
    if (a.verb == BACKWARD)
        before = part < parts - 1 ? sim->end[BACKWARD][part + 1][a.microbatch] : sim->end[FORWARD][part][a.microbatch];
    bool waits = (a.verb == BACKWARD || part > 0) && before == 0;
    return waits ? -1 : before > sim->free_at[stage] ? before : sim->free_at[stage];
}

static bool advance(simulation *sim, int stage)
{
    if (sim->at[stage] == sim->list[stage].length) return false;
    schedule_action a = sim->list[stage].action[sim->at[stage]];
    int64_t start = ready(sim, stage, a);
    if (start < 0) return false;
    sim->free_at[stage] = start + (a.verb == FORWARD ? FORWARD_TIME : BACKWARD_TIME);
    sim->end[a.verb][a.chunk * sim->stages + stage][a.microbatch] = sim->free_at[stage];
    sim->at[stage]++;
    return true;
}

/* Runs all stages; the time of the last backward. */
static int64_t makespan(const bench_case *c)
{
    simulation *sim = calloc(1, sizeof *sim);
    sim->stages = c->layout.degree[AXIS_PIPELINE];
    sim->chunks = c->layout.chunks_per_stage;
    for (int stage = 0; stage < sim->stages; stage++) sim->list[stage] = schedule_make(c, stage);
    for (bool moved = true; moved;) {
        moved = false;
        for (int stage = 0; stage < sim->stages; stage++) moved |= advance(sim, stage);
    }
    int64_t most = 0;
    for (int stage = 0; stage < sim->stages; stage++) {
        assert_int_equal(sim->at[stage], sim->list[stage].length);
        if (sim->free_at[stage] > most) most = sim->free_at[stage];
        schedule_free(&sim->list[stage]);
    }
    free(sim);
    return most;
}

static void each_pipeline(void (*check)(const bench_case *))
{
    for (int kind = 0; kind <= SCHEDULE_INTERLEAVED; kind++)
        for (int stages = 1; stages <= STAGES; stages *= 2)
            for (int chunks = 1; chunks <= CHUNKS; chunks++)
                for (int64_t microbatches = 1; microbatches <= MICROBATCHES; microbatches++) {
                    bool interleaved = kind == SCHEDULE_INTERLEAVED;
                    if (interleaved ? stages == 1 || microbatches % stages : chunks > 1) continue;
                    bench_case c = case_with((schedule_kind)kind, stages, chunks, microbatches);
                    check(&c);
                }
}

static void check_soundness(const bench_case *c)
{
    for (int stage = 0; stage < c->layout.degree[AXIS_PIPELINE]; stage++) {
        schedule s = schedule_make(c, stage);
        assert_sound(&s, c);
        schedule_free(&s);
    }
}

/* Work of the busiest stage plus the bubble of (stages - 1) chunk passes; no schedule stops. */
static void check_makespan(const bench_case *c)
{
    int64_t passes = c->microbatches * c->layout.chunks_per_stage + c->layout.degree[AXIS_PIPELINE] - 1;
    assert_int_equal(makespan(c), passes * (FORWARD_TIME + BACKWARD_TIME));
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* GPipe keeps every microbatch; 1F1B no more than the stages behind it and itself; interleaved its warm-up and one. */
static void check_memory(const bench_case *c)
{
    int stages = c->layout.degree[AXIS_PIPELINE], chunks = c->layout.chunks_per_stage;
    for (int stage = 0; stage < stages; stage++) {
        schedule s = schedule_make(c, stage);
        int64_t warmup =
            c->schedule == SCHEDULE_1F1B ? stages - stage - 1 : 2 * (stages - stage - 1) + (chunks - 1) * stages;
        int64_t wanted =
            c->schedule == SCHEDULE_GPIPE ? c->microbatches : smaller(c->microbatches * chunks, warmup + 1);
        assert_int_equal(schedule_live(&s), wanted);
        schedule_free(&s);
    }
}

static void every_schedule_is_sound(void **state) { each_pipeline(check_soundness); }
static void every_schedule_ends_in_time(void **state) { each_pipeline(check_makespan); }
static void every_schedule_keeps_its_memory(void **state) { each_pipeline(check_memory); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_is_one_by_one),         cmocka_unit_test(prints_the_textbook),
        cmocka_unit_test(deferred_weights_drain),
        cmocka_unit_test(every_schedule_is_sound),         cmocka_unit_test(every_schedule_ends_in_time),
        cmocka_unit_test(every_schedule_keeps_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
