/* Schedules: textbook lists, no deadlock, makespan, bubble, memory. Corrupted lists are refused. */
#include "plan/schedule/schedule_simulate.h"
#include "units/tests.h"

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
    assert_list(&c, 1,
                "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3 W1.1 W1.2 W1.3\n");
    c = case_with(SCHEDULE_GPIPE, 2, 1, 2);
    c.head_deferral = 22;
    assert_list(&c, 1, "F0.0 F0.1 B0.0 B0.1 W0.0 W0.1\n");
    c = case_with(SCHEDULE_1F1B, 1, 1, 2);
    c.head_deferral = 22;
    assert_list(&c, 0, "F0.0 B0.0 F0.1 B0.1\n");
}

typedef struct {
    int stages;
    schedule *list;
} step;

static step step_make(const bench_case *c)
{
    step s = { c->layout.degree[AXIS_PIPELINE], calloc((size_t)c->layout.degree[AXIS_PIPELINE], sizeof(schedule)) };
    for (int i = 0; i < s.stages; i++) s.list[i] = schedule_make(c, i);
    return s;
}

static void step_free(step *s)
{
    for (int i = 0; i < s->stages; i++) schedule_free(&s->list[i]);
    free(s->list);
}

/* Checks 4 x 4 x 4 pipelines, each with every schedule that allows its chunks, under three cost models. */
static void each_pipeline(void (*check)(const bench_case *, const schedule_costs *))
{
    static const int pipelines[] = { 2, 3, 4, 8 }, chunks[] = { 1, 2, 3, 5 }, multiples[] = { 1, 2, 3, 8 };
    static const schedule_costs costs[] = { { { 1, 2, 0 } }, { { 1, 1, 0 } }, { { 2, 3, 0 } } };
    for (int i = 0; i < 64; i++)
        for (int kind = 0; kind <= SCHEDULE_INTERLEAVED; kind++) {
            int stages = pipelines[i / 16], parts = chunks[i / 4 % 4];
            if (parts > 1 && kind != SCHEDULE_INTERLEAVED) continue;
            bench_case c = case_with((schedule_kind)kind, stages, parts, stages * multiples[i % 4]);
            for (int j = 0; j < 3; j++) check(&c, &costs[j]);
        }
}

/* Checks makespan and bubble, in units of a chunk's forward. Makespan: (microbatches chunks + pipeline - 1)(f + b);
 * every stage idles for (pipeline - 1)(f + b). Sources: Huang et al. 2019 (GPipe), section 2.3; Narayanan et al. 2021,
 * section 2.2.1 for 1F1B, 2.2.2 for interleaved: t_pb = (p - 1)(t_f + t_b) / v. */
static void check_times(const bench_case *c, const schedule_costs *costs)
{
    step s = step_make(c);
    schedule_timing t = schedule_simulate(c, s.list, costs);
    int64_t pass = costs->cost[FORWARD] + costs->cost[BACKWARD], bubbles = c->layout.degree[AXIS_PIPELINE] - 1;
    assert_string_equal(t.mistake, "");
    assert_int_equal(t.makespan, (c->microbatches * c->layout.chunks_per_stage + bubbles) * pass);
    for (int stage = 0; stage < s.stages; stage++) assert_int_equal(t.makespan - t.busy[stage], bubbles * pass);
    schedule_timing_free(&t);
    step_free(&s);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* GPipe keeps every microbatch; 1F1B keeps its own and one per later stage (Narayanan et al. 2021, 2.2.1); interleaved
 * keeps its warm-up of 2 (pipeline - stage - 1) + (chunks - 1) pipeline, plus one. */
static int64_t textbook_live(const bench_case *c, int stage)
{
    int64_t stages = c->layout.degree[AXIS_PIPELINE], chunks = c->layout.chunks_per_stage;
    if (c->schedule == SCHEDULE_GPIPE) return c->microbatches;
    if (c->schedule == SCHEDULE_1F1B) return smaller(c->microbatches, stages - stage);
    return smaller(c->microbatches * chunks, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1);
}

static void check_memory(const bench_case *c, const schedule_costs *costs)
{
    step s = step_make(c);
    for (int stage = 0; stage < s.stages; stage++) {
        int64_t together = 0;
        assert_int_equal(schedule_live(&s.list[stage]), textbook_live(c, stage));
        for (int chunk = 0; chunk < c->layout.chunks_per_stage; chunk++)
            together += schedule_live_chunk(&s.list[stage], chunk);
        assert_true(together >= schedule_live(&s.list[stage]));
    }
    step_free(&s);
}

static void every_schedule_takes_its_time(void **state) { each_pipeline(check_times); }
static void every_schedule_keeps_its_memory(void **state) { each_pipeline(check_memory); }
/* Counts 1F1B's live microbatches when the pipeline does not divide their number, down to one microbatch. */
static void fewer_and_odd_microbatches(void **state)
{
    for (int kind = SCHEDULE_GPIPE; kind <= SCHEDULE_1F1B; kind++)
        for (int stages = 1; stages <= 8; stages++)
            for (int64_t microbatches = 1; microbatches <= 17; microbatches++) {
                bench_case c = case_with((schedule_kind)kind, stages, 1, microbatches);
                check_times(&c, &schedule_unit_costs);
                check_memory(&c, &schedule_unit_costs);
            }
}

/* The drain of weights after the last backward adds its own time and nothing else. */
static void a_drain_costs_what_it_costs(void **state)
{
    static const schedule_costs costs = { { 1, 2, 1 } };
    for (int64_t deferral = 0; deferral <= 9; deferral++) {
        bench_case c = case_with(SCHEDULE_1F1B, 4, 1, 8);
        c.head_deferral = deferral;
        step s = step_make(&c);
        schedule_timing t = schedule_simulate(&c, s.list, &costs);
        int64_t drained = smaller(deferral, 8), textbook = 11 * 3, last = textbook - 3 * 2 + drained;
        assert_string_equal(t.mistake, "");
        assert_int_equal(t.busy[3], 24 + drained);
        assert_int_equal(t.makespan, last > textbook ? last : textbook);
        schedule_timing_free(&t);
        step_free(&s);
    }
}

/* Simulates the corrupted lists and asserts that the refusal is this sentence. */
static void assert_refused(const bench_case *c, step *s, const char *sentence)
{
    schedule_timing t = schedule_simulate(c, s->list, &schedule_unit_costs);
    assert_string_equal(t.mistake, sentence);
    schedule_timing_free(&t);
    step_free(s);
}

static void swap(schedule *s, int64_t i, int64_t j)
{
    schedule_action kept = s->action[i];
    s->action[i] = s->action[j];
    s->action[j] = kept;
}

static void cut(schedule *s, int64_t i)
{
    s->length--;
    memmove(&s->action[i], &s->action[i + 1], (size_t)(s->length - i) * sizeof *s->action);
}

static void a_spoiled_list_is_refused(void **state)
{
    bench_case c = case_with(SCHEDULE_1F1B, 2, 1, 3);
    step s = step_make(&c); /* F0.0 F0.1 B0.0 F0.2 B0.1 B0.2 and F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 */
    swap(&s.list[0], 0, 1);
    assert_refused(&c, &s, "stage 0: F0.1 comes before microbatch 0 of its chunk");
    s = step_make(&c);
    swap(&s.list[1], 0, 1);
    assert_refused(&c, &s, "stage 1: B0.0 comes before its forward");
    s = step_make(&c);
    s.list[0].length--;
    assert_refused(&c, &s, "stage 0: B0.2 is missing");
    s = step_make(&c);
    cut(&s.list[0], 3);
    assert_refused(&c, &s, "stage 0: B0.2 comes before its forward");
    s = step_make(&c);
    s.list[1].action[4] = s.list[1].action[2];
    assert_refused(&c, &s, "stage 1: F0.1 comes twice");
    s = step_make(&c);
    s.list[0].action[3].chunk = 1;
    assert_refused(&c, &s, "stage 0: there is no F1.2 among 1 chunks and 3 microbatches");
    s = step_make(&c);
    s.list[0].action[3].microbatch = 3;
    assert_refused(&c, &s, "stage 0: there is no F0.3 among 1 chunks and 3 microbatches");
}

static void a_spoiled_drain_is_refused(void **state)
{
    bench_case c = case_with(SCHEDULE_1F1B, 2, 1, 3);
    c.head_deferral = 2;
    step s = step_make(&c); /* the last stage ends with W0.1 W0.2 */
    swap(&s.list[1], 6, 7);
    assert_refused(&c, &s, "stage 1: W0.2 comes before microbatch 1 of its chunk");
    s = step_make(&c);
    s.list[1].length--;
    assert_refused(&c, &s, "stage 1: W0.2 is missing");
    s = step_make(&c);
    s.list[1].action[6].microbatch = 0;
    assert_refused(&c, &s, "stage 1: W0.0 was not deferred");
    s = step_make(&c);
    swap(&s.list[1], 3, 6);
    assert_refused(&c, &s, "stage 1: W0.1 comes before its backward");
    s = step_make(&c);
    s.list[0].action[5].verb = BACKWARD_WEIGHT;
    assert_refused(&c, &s, "stage 0: W0.2 was not deferred");
}

/* Both lists are valid, but the chunks are expected in another order than they are sent. */
static void a_link_carries_what_is_expected(void **state)
{
    bench_case c = case_with(SCHEDULE_INTERLEAVED, 2, 2, 2);
    step s = step_make(&c); /* F0.0 F0.1 F1.0 F1.1 ... */
    swap(&s.list[0], 1, 2);
    assert_refused(&c, &s, "stage 0 sends the input of stage 1's F1.0 where that one expects the input of F0.1");
}

static void a_deadlock_names_who_waits(void **state)
{
    bench_case c = case_with(SCHEDULE_GPIPE, 2, 1, 2);
    step s = step_make(&c);
    swap(&s.list[0], 1, 2);
    assert_refused(&c, &s, "stuck: stage 0 at B0.0 waits for stage 1's B0.0; stage 1 at F0.1 waits for stage 0's F0.1");
}

/* Each chunk runs all microbatches first. Stage 0 takes chunk 1 only after stage 1 has filled its buffer. */
static void a_full_buffer_is_a_deadlock(void **state)
{
    enum { MICROBATCHES = 8 };
    bench_case c = case_with(SCHEDULE_INTERLEAVED, 2, 2, MICROBATCHES);
    step s = step_make(&c);
    for (int64_t i = 0; i < 4 * MICROBATCHES; i++) {
        bool forward = i < 2 * MICROBATCHES, first = i / MICROBATCHES % 2 == 0;
        schedule_action a = { forward ? FORWARD : BACKWARD, forward == first ? 0 : 1, i % MICROBATCHES };
        s.list[0].action[i] = s.list[1].action[i] = a;
    }
    assert_refused(&c, &s,
                   "stuck: stage 0 at F0.4 waits for stage 1 to receive what it sent before; "
                   "stage 1 at F0.1 waits for stage 0 to receive what it sent before");
}

/* A step with any action missing, or any action repeated, is refused. */
static void every_action_counts(void **state)
{
    bench_case c = case_with(SCHEDULE_INTERLEAVED, 2, 2, 4);
    c.head_deferral = 3;
    for (int stage = 0; stage < 2; stage++)
        for (int64_t i = 0; i < 2 * 2 * 4 + 3 * stage; i++)
            for (int twice = 0; twice < 2; twice++) {
                char mistake[MISTAKE_LENGTH];
                step s = step_make(&c);
                if (twice) s.list[stage].action[s.list[stage].length++] = s.list[stage].action[i];
                else cut(&s.list[stage], i);
                assert_false(schedule_validate(&c, s.list, mistake));
                assert_true(strstr(mistake, twice ? "comes twice" : "") && strlen(mistake) > 20);
                step_free(&s);
            }
}

static void assert_picture(const bench_case *c, const char *wanted)
{
    char *shown = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&shown, &length);
    step s = step_make(c);
    schedule_timing t = schedule_simulate(c, s.list, &schedule_unit_costs);
    schedule_picture(c, s.list, &t, out);
    fclose(out);
    assert_string_equal(shown, wanted);
    schedule_timing_free(&t);
    step_free(&s);
    free(shown);
}

/* The picture shows all microbatches if they fit, otherwise the beginning and the end. */
static void pictures(void **state)
{
    bench_case small = case_with(SCHEDULE_1F1B, 2, 1, 3), chunks = case_with(SCHEDULE_INTERLEAVED, 2, 2, 4),
               long_one = case_with(SCHEDULE_INTERLEAVED, 4, 3, 16);
    assert_picture(&small, "  picture     F forward, B backward, then the microbatch; . waits\n"
                           "  tick        0                             10      bubble  live\n"
                           "  stage 0     F0 F1 .  .  B0--- F2 B1--- .  B2---   25.0 %     2\n"
                           "  stage 1     .  F0 B0--- F1 B1--- F2 B2--- .  .    25.0 %     1\n");
    assert_picture(&chunks,
                   "  picture     a b .. forward of chunk 0 1 .., A B .. its backward, then the microbatch; . waits\n"
                   "  tick        0                   10                  20              bubble  live\n"
                   "  stage 0     a0a1b0b1a2. B0--a3B1--b2A0--b3A1--. B2--. B3--A2--A3--  11.1 %     5\n"
                   "  stage 1     . a0a1b0B0--b1B1--a2A0--a3A1--b2B2--b3B3--A2--A3--. .   11.1 %     3\n");
    assert_picture(
        &long_one,
        "  picture     a b .. forward of chunk 0 1 .., A B .. its backward; . waits\n"
        "              ticks 34 to 119 are left out\n"
        "  tick        0         10        20        30       120       130       140       150  bubble  live\n"
        "  stage 0     aaaabbbbccccaaa...CCa..CCbCCbCCbBB ... AAAAA.CC.CC.CC.CCBBBBBBBBAAAAAAAA   5.9 %    15\n"
        "  stage 1     .aaaabbbbcccca..CCaCCaCCaCCbBBbBBb ... cAA.CC.CC.CC.CCBBBBBBBBAAAAAAAA..   5.9 %    13\n"
        "  stage 2     ..aaaabbbbccc.CCcCCaCCaCCaBBaBBbBB ... AcCCcCC.CC.CCBBBBBBBBAAAAAAAA....   5.9 %    11\n"
        "  stage 3     ...aaaabbbbcCCcCCcCCcCCaBBaBBaBBaB ... CCcCCcCCcCCBBBBBBBBAAAAAAAA......   5.9 %     9\n");
}

TEST_PROGRAM("schedule", NULL, NULL, one_stage_is_one_by_one, prints_the_textbook, deferred_weights_drain,
             every_schedule_takes_its_time, every_schedule_keeps_its_memory, fewer_and_odd_microbatches,
             a_drain_costs_what_it_costs, a_spoiled_list_is_refused, a_spoiled_drain_is_refused,
             a_link_carries_what_is_expected, a_deadlock_names_who_waits, a_full_buffer_is_a_deadlock,
             every_action_counts, pictures)
