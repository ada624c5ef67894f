/* The dry run measures one rank of each pipeline stage and reports it for all ranks of that stage. This test measures
 * every rank. */
#include "bench/paper/paper.h"
#include "dry_run_counts.h"
#include "plan/catalogue/flops.h"
#include "plan/model/chunks.h"
#include "plan/model/rank_share.h"
#include "units/train/trained.h"

static const char head[] =
    "a\nb\nbackend = host\nsteps = 1\ncheck = off\nsize = small\nlayers = 4\nvocabulary = 1000\n";
static const char llama3[] = "llama3.1-8b", nemotron4[] = "nemotron4-340b", grok1[] = "grok1-314b",
                  gpt3_175b[] = "gpt3-175b";
static const struct {
    const char *workload, *keys;
} layouts[] = {
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
static void check_layout(const char *workload, const char *keys)
{
    char text[1024];
    snprintf(text, sizeof text, "%s[%s]\n%s", head, workload, keys);
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

static void one_rank_speaks_for_its_stage(void **state)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) check_layout(layouts[i].workload, layouts[i].keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_rank_speaks_for_its_stage) };
    return cmocka_run_group_tests_name("dry_run_ranks", tests, NULL, NULL);
}
