/* Agreement: one small case cut every way, against one rank. Losses per sequence, gradients of the first and the fourth
 * step, weights and norms within the limits of bench/check.c; no hazard; gathered weights are the owners'. */
#include "agreement.h"

enum { STEPS = 4, RANKS = 8, DECK = 2048 };
static const char llama3[] = "llama3.1-70b", llama2[] = "llama2-70b", nemotron4[] = "nemotron4-340b",
                  gpt3_175b[] = "gpt3-175b";

/* schedule "": by chunks */
typedef struct {
    int tensor, data, context, pipeline, chunks;
    const char *schedule;
    int shard;
} cut;
static const cut alone = { 1, 1, 1, 1, 1, "", 1 };
static const cut cuts[] = {
    { 1, 1, 1, 1, 1, "", 1 }, { 2, 1, 1, 1, 1, "", 1 }, { 4, 1, 1, 1, 1, "", 1 }, { 8, 1, 1, 1, 1, "", 1 },
    { 1, 8, 1, 1, 1, "", 1 }, { 2, 2, 1, 1, 1, "", 1 }, { 4, 2, 1, 1, 1, "", 1 }, { 1, 1, 2, 1, 1, "", 1 },
    { 1, 1, 4, 1, 1, "", 1 }, { 2, 1, 2, 1, 1, "", 1 }, { 1, 2, 2, 1, 1, "", 1 }, { 2, 2, 2, 1, 1, "", 1 },
};
static const cut pipelines[] = {
    { 1, 1, 1, 8, 1, "", 1 }, { 1, 1, 1, 4, 2, "", 1 }, { 1, 1, 1, 4, 1, "gpipe", 1 }, { 1, 1, 1, 2, 3, "", 1 },
    { 2, 1, 2, 2, 1, "", 1 }, { 2, 2, 1, 2, 1, "", 1 }, { 2, 2, 1, 2, 2, "", 1 },      { 2, 1, 1, 4, 1, "gpipe", 1 },
};
/* The first two in `make check`. */
static const cut shards[] = {
    { 1, 1, 1, 1, 1, "", 2 }, { 2, 2, 1, 1, 1, "", 2 }, { 1, 1, 1, 1, 1, "", 4 }, { 1, 1, 1, 1, 1, "", 8 },
    { 1, 1, 2, 1, 1, "", 2 }, { 2, 1, 2, 1, 1, "", 2 }, { 1, 2, 2, 1, 1, "", 2 },
};
static const cut sharded_pipelines[] = {
    { 1, 1, 1, 2, 1, "", 2 }, { 1, 1, 1, 2, 3, "", 2 }, { 1, 1, 1, 4, 1, "gpipe", 2 },
    { 2, 1, 1, 2, 2, "", 2 }, { 1, 1, 2, 2, 2, "", 2 }, { 1, 2, 1, 2, 1, "", 2 },
};
static const char *const every[] = {
    "none", "attention", "mlp", "layer", "attention_mlp", "elementwise", "attention_elementwise"
};
/* Of pipelines two: bitwise_pipeline.c holds all masks to the same bits. */
static const char *const heaviest[] = { "layer", "attention_mlp" };
static const char *const shardings[] = { "none", "optimizer" };

typedef struct {
    const char *precision;
    int vocabulary, global_batch, micro_batch, layers;
    const char *workload;
} batch;
typedef struct {
    const char *sharding, *recompute;
    int strips; /* with 4 the gradients of keys travel in BF16 */
} memory;

static bench_case cut_case(batch b, cut k, memory kept)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "agreement\none case cut every way\n[%s]\nsize = small\nhidden = 128\nffn = 256\nheads = "
             "16\nkv_heads = %d\nsequence = 64\nwarmup = 0\nsteps = %d\ntokens = uniform\ncheck = off\nbackend = host\n"
             "precision = %s\nvocabulary = %d\nglobal_batch = %d\nmicro_batch = %d\nlayers = %d\n"
             "tensor = %d\ndata = %d\nshard = %d\ncontext = %d\npipeline = %d\nchunks_per_stage = %d\n%s%s\n"
             "sharding = %s\nrecompute = %s\nstrips = %d\ncontext_gradients = %s\n",
             b.workload, strcmp(b.workload, gpt3_175b) == 0 ? 16 : 8, STEPS, b.precision, b.vocabulary, b.global_batch,
             b.micro_batch, b.layers, k.tensor, k.data, k.shard, k.context, k.pipeline, k.chunks,
             k.schedule[0] ? "schedule = " : "", k.schedule, kept.sharding, kept.recompute, kept.strips,
             kept.strips == 4 ? "bf16" : "fp32");
    bench_case c = case_of(text, RANKS);
    init_as_checked(&c);
    return c;
}

static references reference_of(batch b)
{
    references r;
    b.micro_batch = 1;
    bench_case c = cut_case(b, alone, (memory){ "none", "none", 1 });
    references_train(&r, &c, STEPS);
    return r;
}

/* With FP8 a tensor rank has no fewer than 16 keys. */
static bool is_legal(batch b, cut k) { return k.tensor <= 4 || strcmp(b.precision, "fp8") != 0; }

/* Of a list's cuts every second, by turns, and of a cut's ways (sharding, mask): each in FP32 or in one of the others.
 * `long`: all. */
static bool is_due(batch b, int way) { return test_is_long() || way % 2 == (strcmp(b.precision, "fp32") != 0); }

/* Every cut with every sharding and recompute mask that is due; the worst of each cut is printed. */
static void cut_every_way(batch b, const cut *list, int count, const char *const *recomputes, int masks)
{
    references r = reference_of(b);
    for (int k = 0; k < count; k++) {
        if (!is_legal(b, list[k]) || (count > 2 && !is_due(b, k))) continue;
        char what[64];
        spreads worst = no_spread;
        bench_case c = cut_case(b, list[k], (memory){ "none", "none", 1 });
        int ways = list[k].data > 1 || (list[k].shard > 1 && list[k].context > 1) ? 2 : 1;
        snprintf(what, sizeof what, ", %d shardings x %d recomputes", ways, masks);
        for (int s = 0; s < ways; s++)
            for (int m = 0; m < masks; m++)
                if (is_due(b, k / 2 + s + m)) {
                    c = cut_case(b, list[k], (memory){ shardings[s], recomputes[m], 1 << (s + m) % 3 });
                    compare_case(&worst, &c, (training){ 0 }, &r);
                }
        judge(&c, what, &worst, r.count);
    }
    references_close(&r);
}

static void cut_layouts(const char *precision)
{
    cut_every_way((batch){ precision, 509, 8, 1, 2, llama3 }, cuts, sizeof cuts / sizeof cuts[0], every,
                  sizeof every / sizeof every[0]);
}

static void cut_pipelines(const char *precision)
{
    cut_every_way((batch){ precision, 509, 8, 1, 6, llama3 }, pipelines, sizeof pipelines / sizeof pipelines[0],
                  heaviest, sizeof heaviest / sizeof heaviest[0]);
}

static void fp32(void **state)
{
    (void)state;
    cut_layouts("fp32");
}
static void bf16(void **state)
{
    (void)state;
    cut_layouts("bf16");
}
/* Each way is compared with one rank that is trained anew, with the way's scales. */
static void fp8(void **state)
{
    const char *const *masks = test_is_long() ? every : heaviest;
    (void)state;
    cut_every_way((batch){ "fp8", 509, 8, 1, 2, llama3 }, cuts, sizeof cuts / sizeof cuts[0], masks,
                  test_is_long() ? sizeof every / sizeof every[0] : 2);
}
static void pipeline_fp32(void **state)
{
    (void)state;
    cut_pipelines("fp32");
}
static void pipeline_bf16(void **state)
{
    (void)state;
    cut_pipelines("bf16");
}

static void pipeline_fp8(void **state)
{
    (void)state;
    if (test_is_long()) cut_pipelines("fp8");
}

/* Weights as shards: those of Llama 2, whose gradients are FP32 sums of BF16 ones; `long`: of Llama 3.1, and of GPT-3
 * with its tied table. */
static void shard_every_way(const char *precision)
{
    static const char *const workloads[] = { llama2, llama3, gpt3_175b };
    int count = test_is_long() ? sizeof shards / sizeof shards[0] : 2,
        pipelined = test_is_long() ? sizeof sharded_pipelines / sizeof sharded_pipelines[0] : 1;
    for (int w = 0; w < (test_is_long() ? 3 : 1); w++) {
        cut_every_way((batch){ precision, 509, 16, 1, 2, workloads[w] }, shards, count, heaviest, 2);
        cut_every_way((batch){ precision, 509, 16, 1, 6, workloads[w] }, sharded_pipelines, pipelined, heaviest, 2);
    }
}

static void sharded_fp32(void **state)
{
    (void)state;
    shard_every_way("fp32");
}
static void sharded_bf16(void **state)
{
    (void)state;
    shard_every_way("bf16");
}
static void sharded_fp8(void **state)
{
    (void)state;
    if (test_is_long()) shard_every_way("fp8");
}

/* ---- GPT-3: its embedding is tied, and at both ends of one stage, of the first and the last, or of one of several
 * chunks ---- */

static const cut gpt3_cuts[] = { { 2, 2, 2, 1, 1, "", 1 }, { 2, 1, 1, 1, 1, "", 1 }, { 8, 1, 1, 1, 1, "", 1 },
                                 { 1, 8, 1, 1, 1, "", 1 }, { 1, 1, 4, 1, 1, "", 1 }, { 4, 2, 1, 1, 1, "", 1 } };
static const cut gpt3_pipelines[] = {
    { 2, 2, 1, 2, 1, "", 1 }, { 1, 1, 1, 2, 3, "", 1 },      { 1, 2, 1, 4, 1, "", 1 },
    { 1, 1, 1, 4, 2, "", 1 }, { 2, 1, 1, 4, 1, "gpipe", 1 }, { 1, 2, 2, 2, 2, "", 1 }
};
enum { GPT3_CUTS = sizeof gpt3_cuts / sizeof gpt3_cuts[0] };

static void cut_gpt3(const char *precision)
{
    int count = test_is_long() ? GPT3_CUTS : 1, masks = test_is_long() ? sizeof every / sizeof every[0] : 2;
    cut_every_way((batch){ precision, 509, 8, 1, 2, gpt3_175b }, gpt3_cuts, count, every, masks);
    cut_every_way((batch){ precision, 509, 8, 1, 6, gpt3_175b }, gpt3_pipelines, count, heaviest, 2);
}

static void gpt3_fp32(void **state)
{
    (void)state;
    cut_gpt3("fp32");
}
static void gpt3_bf16(void **state)
{
    (void)state;
    cut_gpt3("bf16");
}

typedef struct {
    batch b;
    cut k;
    memory kept;
} odd_case;

static void run_odd(const odd_case *list, size_t count)
{
    char what[128];
    for (size_t i = 0; i < count; i++) {
        const odd_case *o = &list[i];
        references r = reference_of(o->b);
        spreads found = no_spread;
        bench_case c = cut_case(o->b, o->k, o->kept);
        snprintf(what, sizeof what, ", %d microbatches of %d, vocabulary %d, sharding %s, recompute %s",
                 (int)c.microbatches, o->b.micro_batch, o->b.vocabulary, o->kept.sharding, o->kept.recompute);
        compare_case(&found, &c, (training){ 0 }, &r);
        judge(&c, what, &found, r.count);
        references_close(&r);
    }
}

/* Rows of a microbatch lie beside each other; odd numbers of microbatches, and a single one. */
static void microbatches(void **state)
{
    static const odd_case list[] = {
        { { "fp32", 509, 8, 2, 2, llama3 }, { 1, 1, 1, 1, 1, "", 1 }, { "none", "none", 2 } },
        { { "fp32", 509, 8, 2, 2, llama3 }, { 2, 2, 1, 1, 1, "", 1 }, { "optimizer", "layer", 4 } },
        { { "bf16", 509, 8, 2, 2, llama3 }, { 2, 2, 1, 1, 1, "", 1 }, { "optimizer", "none", 1 } },
        { { "fp32", 509, 12, 2, 2, llama3 }, { 2, 2, 1, 1, 1, "", 1 }, { "optimizer", "mlp", 2 } },
        { { "fp32", 509, 6, 1, 2, llama3 }, { 4, 2, 1, 1, 1, "", 1 }, { "none", "attention", 4 } },
        { { "bf16", 509, 10, 1, 2, llama3 }, { 4, 2, 1, 1, 1, "", 1 }, { "optimizer", "layer", 1 } },
        { { "fp32", 509, 6, 3, 2, llama3 }, { 2, 2, 1, 1, 1, "", 1 }, { "optimizer", "layer", 2 } },
        { { "bf16", 509, 6, 3, 2, llama3 }, { 1, 1, 8, 1, 1, "", 1 }, { "optimizer", "attention", 4 } },
        { { "fp32", 509, 8, 2, 2, llama3 }, { 2, 2, 2, 1, 1, "", 1 }, { "optimizer", "layer", 1 } },
    };
    (void)state;
    run_odd(list, sizeof list / sizeof list[0]);
}

/* 130 words are padded to 128 a rank: the last tensor ranks hold nothing but padding. */
static void padding(void **state)
{
    static const odd_case list[] = {
        { { "fp32", 130, 8, 1, 2, llama3 }, { 8, 1, 1, 1, 1, "", 1 }, { "none", "none", 2 } },
        { { "bf16", 130, 8, 1, 2, llama3 }, { 4, 2, 1, 1, 1, "", 1 }, { "optimizer", "layer", 4 } },
        { { "fp32", 127, 8, 1, 2, llama3 }, { 2, 2, 1, 1, 1, "", 1 }, { "optimizer", "none", 1 } },
    };
    (void)state;
    run_odd(list, sizeof list / sizeof list[0]);
}

/* Nemotron-4 in 19 layouts; `long`: all, else the first two. */
static void nemotron_layouts(void **state)
{
    static const odd_case list[] = {
        { { "bf16", 509, 8, 1, 6, nemotron4 }, { 2, 1, 2, 2, 2, "", 1 }, { "optimizer", "attention", 2 } },
        { { "fp32", 509, 8, 1, 2, nemotron4 }, { 2, 2, 2, 1, 1, "", 1 }, { "optimizer", "layer", 4 } },
        { { "fp32", 509, 8, 1, 6, nemotron4 }, { 2, 1, 1, 4, 2, "", 1 }, { "none", "attention", 1 } },
        { { "bf16", 130, 8, 1, 2, nemotron4 }, { 8, 1, 1, 1, 1, "", 1 }, { "none", "none", 2 } },
        { { "fp32", 130, 8, 1, 2, nemotron4 }, { 4, 2, 1, 1, 1, "", 1 }, { "none", "mlp", 1 } },
        { { "bf16", 509, 8, 1, 2, nemotron4 }, { 1, 8, 1, 1, 1, "", 1 }, { "optimizer", "attention_mlp", 1 } },
        { { "fp32", 509, 8, 1, 2, nemotron4 }, { 1, 1, 8, 1, 1, "", 1 }, { "optimizer", "elementwise", 1 } },
        { { "bf16", 509, 8, 2, 2, nemotron4 }, { 1, 2, 4, 1, 1, "", 1 }, { "optimizer", "none", 1 } },
        { { "fp32", 509, 8, 1, 6, nemotron4 }, { 1, 1, 1, 8, 1, "", 1 }, { "none", "layer", 1 } },
        { { "bf16", 509, 8, 1, 6, nemotron4 }, { 1, 2, 1, 4, 2, "", 1 }, { "optimizer", "attention", 1 } },
        { { "fp32", 509, 8, 1, 6, nemotron4 }, { 2, 2, 1, 2, 1, "gpipe", 1 }, { "optimizer", "attention_mlp", 4 } },
        { { "bf16", 509, 8, 1, 2, nemotron4 }, { 2, 2, 2, 1, 1, "", 1 }, { "none", "elementwise", 2 } },
        { { "fp32", 509, 8, 2, 6, nemotron4 }, { 1, 1, 2, 2, 4, "", 1 }, { "optimizer", "mlp", 1 } },
        { { "bf16", 509, 6, 1, 2, nemotron4 }, { 2, 3, 1, 1, 1, "", 1 }, { "optimizer", "attention", 1 } },
        { { "bf16", 509, 8, 1, 2, nemotron4 }, { 1, 1, 1, 1, 1, "", 2 }, { "none", "mlp", 1 } },
        { { "fp32", 509, 8, 1, 2, nemotron4 }, { 1, 1, 1, 1, 1, "", 4 }, { "none", "layer", 1 } },
        { { "bf16", 509, 8, 1, 2, nemotron4 }, { 1, 1, 1, 1, 1, "", 8 }, { "none", "attention_mlp", 1 } },
        { { "bf16", 509, 8, 1, 2, nemotron4 }, { 2, 2, 1, 1, 1, "", 2 }, { "optimizer", "attention", 2 } },
        { { "fp32", 509, 8, 1, 6, nemotron4 }, { 2, 1, 1, 2, 3, "", 2 }, { "none", "elementwise", 1 } },
    };
    (void)state;
    run_odd(list, test_is_long() ? sizeof list / sizeof list[0] : 2);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(fp32),          cmocka_unit_test(bf16),
                                        cmocka_unit_test(fp8),           cmocka_unit_test(pipeline_fp32),
                                        cmocka_unit_test(pipeline_bf16), cmocka_unit_test(pipeline_fp8),
                                        cmocka_unit_test(sharded_fp32),  cmocka_unit_test(sharded_bf16),
                                        cmocka_unit_test(sharded_fp8),   cmocka_unit_test(microbatches),
                                        cmocka_unit_test(padding),       cmocka_unit_test(nemotron_layouts),
                                        cmocka_unit_test(gpt3_fp32),     cmocka_unit_test(gpt3_bf16) };
    int failed = cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
    world_stop();
    return failed;
}
