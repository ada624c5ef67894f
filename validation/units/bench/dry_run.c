/* The dry run measures one rank of each pipeline stage, the first, the last and the middle ones, and reports it for all
 * ranks of that stage. This test measures every rank on paper, and holds runs to the counts and the memory that the dry
 * run reports. */
#include "base/say.h"
#include "bench/paper/paper.h"
#include "bench/run/run_case.h"
#include "machine/queue/tally.h"
#include "model/param.h"
#include "plan/catalogue/flops.h"
#include "plan/model/rank_share.h"
#include "units/tests.h"
#include "units/train/trained.h"

/* The dry run reports the first context rank. The others see fewer keys per call and may need less scratch. */
static void check_bytes(const paper_stage *told, const size_t by_kind[ARENA_KINDS], size_t total, bool first)
{
    size_t less = told->bytes[SCRATCH] - by_kind[SCRATCH];
    assert_true(by_kind[SCRATCH] <= told->bytes[SCRATCH] && (less == 0 || !first));
    for (int k = 0; k < ARENA_KINDS; k++) assert_int_equal(told->bytes[k], by_kind[k] + (k == SCRATCH ? less : 0));
    assert_int_equal(told->total, total + less);
}

/* Returns the number of buckets whose squares only the first tensor rank adds, because every tensor rank has their
 * gradient: vectors, positions, routers. 0 on the first tensor rank. */
static int64_t buckets_of_the_first(const bench_case *c, mesh *m)
{
    arena a;
    param_table t;
    int64_t count = 0;
    arena_open(&a, NULL, 0);
    param_table_open(&t, c, m, &a);
    for (int i = 0; i < t.bucket_count; i++) count += t.buckets[i].holders != NULL;
    param_table_close(&t);
    return m->at[AXIS_TENSOR] > 0 ? count : 0;
}

/* The products are exact, because flops and bytes are integers below 2^53. */
static void check_counts(const tally *told, const tally *found, int64_t steps, int64_t squares_less)
{
    double n = (double)steps;
    for (int k = 0; k < OP_KINDS; k++) {
        assert_int_equal(steps * told->kind[k].count - found->kind[k].count,
                         k == OP_SQUARE_SUM ? steps * squares_less : 0);
        assert_true(n * told->kind[k].flops == found->kind[k].flops);
    }
    assert_int_equal(told->axes, found->axes);
    for (int i = 0; i < told->axes; i++) {
        const tally_axis *t = &told->axis[i], *f = &found->axis[i];
        assert_string_equal(t->axis, f->axis);
        assert_int_equal(steps * t->messages, f->messages);
        assert_true(n * t->bytes == f->bytes && n * t->sent == f->sent);
    }
}

/* ---- on paper ---- */

static const char head[] = "a\nb\nbackend = host\nwarmup = 1\nsteps = 2\ncheck = off\nrecord = none\nsize = small\n"
                           "vocabulary = 1000\n";
static const char llama3[] = "llama3.1-8b", nemotron4[] = "nemotron4-340b", grok1[] = "grok1-314b",
                  gpt3_175b[] = "gpt3-175b";
static const struct {
    const char *workload, *keys;
} on_paper[] = {
    { llama3, "tensor = 1\ndata = 1\n" },
    { llama3, "tensor = 4\ndata = 2\nprecision = bf16\nglobal_batch = 8\n" },
    { llama3, "tensor = 2\ndata = 4\nprecision = fp32\nrecompute = layer\n" },
    { llama3, "tensor = 4\ndata = 3\nprecision = bf16\nsharding = none\nrecompute = mlp\nmicrobatch = 2\n" },
    { llama3, "tensor = 4\npipeline = 4\ncontext = 2\nprecision = bf16\n" },
    { llama3, "tensor = 2\npipeline = 2\nchunks_per_stage = 2\ncontext = 4\ndata = 2\nprecision = bf16\n" },
    { llama3, "pipeline = 4\ndata = 2\nschedule = gpipe\nglobal_batch = 16\nprecision = fp32\n" },
    { llama3, "tensor = 4\npipeline = 3\nchunks_per_stage = 2\ncontext = 2\nsharding = none\nprecision = "
              "bf16\nrecompute = attention\n" },
    { llama3, "tensor = 2\npipeline = 2\ncontext = 3\noverlap = on\nsequence = 288\nprecision = bf16\n" },
    { llama3, "context = 8\nprecision = fp32\n" },
    { llama3, "shard = 8\nprecision = bf16\nrecompute = attention_mlp\n" },
    { llama3, "shard = 2\ndata = 2\ntensor = 2\ncontext = 2\npipeline = 2\nchunks_per_stage = 2\nprecision = bf16\n" },
    { llama3, "shard = 4\ndata = 2\nsharding = optimizer\nprecision = fp32\nmicrobatch = 2\n" },
    { nemotron4, "tensor = 2\npipeline = 2\ndata = 2\nprecision = bf16\n" },
    { nemotron4, "shard = 2\ndata = 2\ncontext = 2\nsharding = optimizer\nprecision = bf16\n" },
    { grok1, "expert = 4\ntensor = 2\ncontext = 2\ndata = 4\npipeline = 2\nprecision = bf16\n" },
    { grok1, "shard = 4\ntensor = 2\ndata = 2\nprecision = fp32\n" },
    { gpt3_175b, "tensor = 2\npipeline = 2\ncontext = 2\ndata = 2\nprecision = bf16\n" },
    { gpt3_175b, "pipeline = 4\ndata = 2\nsharding = none\nprecision = fp32\nrecompute = attention_elementwise\n" },
    { gpt3_175b, "shard = 4\ntensor = 2\ndata = 2\nprecision = bf16\n" },
    { gpt3_175b, "shard = 2\ntensor = 2\npipeline = 2\ncontext = 2\nsharding = optimizer\nprecision = bf16\n" },
};

static measure measured(const bench_case *c, int rank, mesh *m)
{
    trainer_options o = { .machine = { .kind = MACHINE_HOST, .world_rank = rank } };
    mesh_open(m, &c->layout, rank, MESH_PAPER);
    return measure_case(c, m, &o);
}

static void check_rank(const bench_case *c, const paper_stage *told, const measure *found, mesh *m)
{
    check_bytes(told, found->arena.by_kind, found->arena.used, m->at[AXIS_CONTEXT] == 0);
    assert_true(found->parameters <= told->parameters);
    assert_int_equal(found->hazards.count, 0);
    check_counts(&told->step, &found->step, 1, buckets_of_the_first(c, m));
}

/* Checks the operations of all ranks. */
static void check_ranks(const char *workload, const char *keys)
{
    char text[1024];
    snprintf(text, sizeof text, "%slayers = 4\n[%s]\n%s", head, workload, keys);
    bench_case c = case_of(text, 64);
    paper p = paper_open(&c);
    double submitted = 0.0;
    flop_count model = 0;
    for (int r = 0; r < c.layout.ranks; r++) {
        mesh m;
        measure found = measured(&c, r, &m);
        check_rank(&c, &p.stage[m.at[AXIS_PIPELINE]], &found, &m);
        submitted += tally_flops(&found.step);
        model += rank_model_flops(&c, m.at);
        measure_free(&found);
        mesh_close(&m);
    }
    assert_true(submitted == paper_submitted_flops(&p, &c));
    assert_true(model == paper_model_flops(&p) && model == c.global_batch * model_flop_count(&c.model));
    paper_close(&p);
}

/* The ranks of this run divide the layouts among themselves. */
static void one_rank_speaks_for_its_stage(void **state)
{
    for (size_t i = 0; i < sizeof on_paper / sizeof *on_paper; i++)
        if ((int)i % world_ranks() == world_rank()) check_ranks(on_paper[i].workload, on_paper[i].keys);
}

/* ---- runs ---- */

static const struct {
    const char *workload, *keys;
} layouts[] = {
    { llama3, "pipeline = 4\ntensor = 2\nprecision = bf16\nglobal_batch = 4\n" },
    { grok1, "tensor = 2\npipeline = 2\ncontext = 2\nexpert = 2\nprecision = bf16\nglobal_batch = 4\n" },
    { llama3, "shard = 2\ncontext = 2\npipeline = 2\nsharding = optimizer\nprecision = fp32\nglobal_batch = 8\n" },
    { llama3, "pipeline = 2\nchunks_per_stage = 2\ncontext = 2\ndata = 2\nprecision = fp32\nglobal_batch = 8\n" },
    { llama3, "pipeline = 2\ndata = 4\nsharding = none\nschedule = gpipe\nglobal_batch = 16\nprecision = bf16\n"
              "recompute = layer\n" },
    { nemotron4, "tensor = 2\npipeline = 2\ndata = 2\nprecision = bf16\nglobal_batch = 8\n" },
    { gpt3_175b, "tensor = 2\npipeline = 2\ndata = 2\nprecision = bf16\nglobal_batch = 8\n" },
    { gpt3_175b, "shard = 2\npipeline = 2\ndata = 2\nsharding = optimizer\nprecision = bf16\nglobal_batch = 8\n" },
};

enum { LAYOUTS = sizeof layouts / sizeof *layouts, LAYOUTS_BRIEFLY = 3 };
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
    snprintf(text, sizeof text, "%slayers = 6\n[%s]\n%s", head, layouts[layout].workload, layouts[layout].keys);
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
    int layouts_run = test_is_full() ? LAYOUTS : LAYOUTS_BRIEFLY;
    for (int i = 0; i < layouts_run; i++) run_layout(&done[i], i);
    for (int i = 0; i < layouts_run; i++) check_layout(&done[i]);
    for (int i = 0; i < layouts_run; i++) layout_close(&done[i]);
}

int main(int count, char **arguments)
{
    TESTS(tests, every_rank_does_what_the_dry_run_tells, one_rank_speaks_for_its_stage);
    world_start(&count, &arguments);
    say_enable(false);
    int failures = cmocka_run_group_tests_name("dry_run", tests, NULL, NULL);
    world_stop();
    return failures;
}
