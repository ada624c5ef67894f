/* Every rank of a run has the counts and memory that the dry run reports for its stage: the first stage, the last, and
 * the middle ones. */
#include "base/say.h"
#include "bench/paper/paper.h"
#include "bench/run/run_case.h"
#include "dry_run_counts.h"
#include "units/train/trained.h"

static const char head[] = "a\nb\nbackend = host\nwarmup = 1\nsteps = 2\ncheck = off\nrecord = none\n"
                           "size = small\nlayers = 6\nvocabulary = 1000\n",
                  llama3[] = "llama3.1-8b", nemotron4[] = "nemotron4-340b", grok1[] = "grok1-314b",
                  gpt3_175b[] = "gpt3-175b";
static const struct {
    const char *workload, *keys;
} layouts[] = {
    { llama3, "pipeline = 4\ntensor = 2\nprecision = bf16\nglobal_batch = 4\n" },
    { llama3, "pipeline = 2\nchunks_per_stage = 2\ncontext = 2\ndata = 2\nprecision = fp32\nglobal_batch = 8\n" },
    { llama3, "pipeline = 2\ndata = 4\nsharding = none\nschedule = gpipe\nglobal_batch = 16\nprecision = bf16\n"
              "recompute = layer\n" },
    { llama3, "shard = 2\ncontext = 2\npipeline = 2\nsharding = optimizer\nprecision = fp32\nglobal_batch = 8\n" },
    { nemotron4, "tensor = 2\npipeline = 2\ndata = 2\nprecision = bf16\nglobal_batch = 8\n" },
    { grok1, "tensor = 2\npipeline = 2\ncontext = 2\nexpert = 2\nprecision = bf16\nglobal_batch = 4\n" },
    { gpt3_175b, "tensor = 2\npipeline = 2\ndata = 2\nprecision = bf16\nglobal_batch = 8\n" },
    { gpt3_175b, "shard = 2\npipeline = 2\ndata = 2\nsharding = optimizer\nprecision = bf16\nglobal_batch = 8\n" },
};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };
typedef struct {
    bench_case c;
    mesh m;
    paper p;
    case_result r;
    verdict verdict;
    double most, submitted;
} outcome;

/* Collective. most, submitted: over all ranks. */
static void run_layout(outcome *o, int layout)
{
    char text[1024], reason[REASON_LENGTH];
    measure measured;
    repeat_means means = { 0 };
    const run_state in = { .load = { world_node_ranks(), world_node_cores(), 1, 0, INFINITY },
                           .stop = stop_open(),
                           .repeats = &means };
    snprintf(text, sizeof text, "%s[%s]\n%s", head, layouts[layout].workload, layouts[layout].keys);
    o->c = case_of(text, world_ranks());
    o->p = paper_open(&o->c);
    mesh_open(&o->m, &o->c.layout, world_rank(), MESH_PAPER);
    result_open(&o->r, &o->c);
    assert_true(case_can_run(&o->c, &in.load, &measured, reason));
    run_case(&o->c, &measured, &o->r, &in);
    o->verdict = o->r.ruling.verdict;
    measure_free(&measured);
    o->most = (double)o->r.seen.arena_bytes;
    o->submitted = tally_flops(&o->r.seen.tally);
    world_maximum(&o->most, 1);
    world_sum(&o->submitted, 1);
}

static void check_most(const outcome *o)
{
    size_t most = 0;
    for (int i = 0; i < o->p.stages; i++) most = o->p.stage[i].total > most ? o->p.stage[i].total : most;
    assert_int_equal((int64_t)o->most, most);
}

static void check_layout(outcome *o)
{
    const paper_stage *told = &o->p.stage[o->m.at[AXIS_PIPELINE]];
    assert_int_equal(o->c.layout.ranks, world_ranks());
    assert_int_equal(o->verdict, VERDICT_PASSED);
    assert_int_equal(o->r.seen.completed, o->c.warmup + o->c.steps);
    check_bytes(told, o->r.seen.bytes_by_kind, o->r.seen.arena_bytes, o->m.at[AXIS_CONTEXT] == 0);
    check_most(o);
    check_counts(&told->step, &o->r.seen.tally, o->c.steps, buckets_of_the_first(&o->c, &o->m));
    assert_true(o->submitted == (double)o->c.steps * paper_submitted_flops(&o->p, &o->c));
}

static void layout_close(outcome *o)
{
    result_close(&o->r);
    mesh_close(&o->m);
    paper_close(&o->p);
}

/* Does all runs before any check, so that no rank waits for a rank that found a difference. */
static void every_rank_does_what_the_dry_run_tells(void **state)
{
    static outcome done[LAYOUTS];
    for (int i = 0; i < LAYOUTS; i++) run_layout(&done[i], i);
    for (int i = 0; i < LAYOUTS; i++) check_layout(&done[i]);
    for (int i = 0; i < LAYOUTS; i++) layout_close(&done[i]);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_rank_does_what_the_dry_run_tells) };
    world_start(&count, &arguments);
    say_enable(false);
    int failures = cmocka_run_group_tests_name("dry_run_runs", tests, NULL, NULL);
    world_stop();
    return failures;
}
