/* Agreement: one small case cut every way, against one rank. Losses per sequence, gradients of the first and the fourth
 * step, weights and norms within the limits of bench/check.c; no hazard; gathered weights are the owners'. */
#include "bench/check.h"
#include "trained.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

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
static const char *const every[] = { "none", "attention", "mlp", "layer", "attention_mlp", "elementwise" };
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

/* A tied table of std 1 makes logits of spread sqrt(hidden), whose rounding to BF16 alone moves a loss by 1e-3; so it
 * is initialized as in the check's model (plan/model/shapes.c), whose limits are held here. */
static void init_as_checked(model_shape *m)
{
    m->init = INIT_STD;
    m->init_std = 0.81 / sqrt((double)m->hidden);
    m->output_init_std = m->init_std / sqrt(2.0 * (double)m->layers);
}

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
    if (c.model.tied_embedding) init_as_checked(&c.model);
    return c;
}

/* Distances from one reference; where: of the first gradient. */
typedef struct {
    check_limits found;
    double norm;
    const char *where;
} spread;

static double relative(double got, double want) { return fabs(got / want - 1.0); }

static double loss_spread(const trained *x, const trained *want, int step)
{
    double worst = 0.0;
    for (int64_t i = 0; i < want->sequences; i++)
        worst = worst_of(worst, relative(x->sequence_loss[step][i], want->sequence_loss[step][i]));
    return worst;
}

static spread spread_of(const trained *x, const trained *want)
{
    const char *name = "";
    spread s = { .where = "", .found.loss_first = loss_spread(x, want, 0) };
    for (int step = 0; step < STEPS; step++) {
        s.norm = worst_of(s.norm, relative(x->norm[step], want->norm[step]));
        if (step > 0) s.found.loss_later = worst_of(s.found.loss_later, loss_spread(x, want, step));
    }
    s.found.gradient_first = worst_ratio(want, x->gradient, want->gradient, &s.where);
    s.found.gradient_fourth = worst_ratio(want, x->last_gradient, want->last_gradient, &name);
    s.found.weights = worst_change(want, x->weight, want->weight, want->first_weight, &name);
    return s;
}

static void raise(spread *to, const spread *s)
{
    if (s->found.gradient_first > to->found.gradient_first) to->where = s->where;
    for (int m = 0; m < CHECK_MEASURES; m++) to->found.of[m] = worst_of(to->found.of[m], s->found.of[m]);
    to->norm = worst_of(to->norm, s->norm);
}

/* The references: one rank, nothing recomputed, micro_batch 1; of the same precision, then FP32 if that is another. */
typedef struct {
    int count;
    trained of[2];
} references;
typedef struct {
    spread from[2];
} spreads;

static references reference_of(batch b)
{
    references r = { .count = strcmp(b.precision, "fp32") ? 2 : 1 };
    b.micro_batch = 1;
    for (int i = 0; i < r.count; i++) {
        batch one = b;
        if (i == 1) one.precision = "fp32";
        bench_case c = cut_case(one, alone, (memory){ "none", "none", 1 });
        train_case(&r.of[i], &c, &(training){ .steps = STEPS });
    }
    return r;
}

static void close_references(references *r)
{
    for (int i = 0; i < r->count; i++) trained_close(&r->of[i]);
}

static void run(spreads *worst, batch b, cut k, memory kept, const references *r)
{
    trained x;
    bench_case c = cut_case(b, k, kept);
    train_case(&x, &c, &(training){ .steps = STEPS });
    for (int i = 0; i < r->count; i++) {
        spread s = spread_of(&x, &r->of[i]);
        raise(&worst->from[i], &s);
    }
    if (x.hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), x.hazard);
    assert_true(x.hazards == 0.0);
    assert_true(x.whole_weight_errors == 0.0);
    trained_close(&x);
}

static void print(const char *precision, const char *from, cut k, const char *what, const spread *s)
{
    const check_limits *x = &s->found;
    if (world_rank() > 0) return;
    printf("# %s - %s, TP%d DP%d S%d CP%d PP%d, %d chunks %s, %s: ", precision, from, k.tensor, k.data, k.shard,
           k.context, k.pipeline, k.chunks, k.schedule, what);
    printf("loss %.1e %.1e  gradient %.1e %.1e (%s)  weights %.1e  norm %.1e\n", x->loss_first, x->loss_later,
           x->gradient_first, x->gradient_fourth, s->where, x->weights, s->norm);
}

/* Weights without masters are not held to FP32's (bench/check.c). */
static bool masters(batch b) { return strcmp(b.workload, nemotron4) != 0; }

/* Held to the check's limits. Worst seen        loss: first, later    gradient: first, last   weights    norm
 *   FP32                                         2.3e-8   2.5e-6       1.6e-6   6.8e-5        9.4e-4     1.5e-6
 *   BF16, two layers                             5.5e-5   6.1e-4       6.7e-3   2.1e-2        7.8e-2     4.9e-4
 *   BF16, pipelines of six layers                1.4e-4   7.4e-4       1.2e-2   3.5e-2        1.0e-1     9.5e-4
 *   BF16 against FP32, two layers                3.5e-4   6.7e-4       1.9e-2   2.6e-2        1.1e-1     1.8e-3
 *   BF16 against FP32, pipelines of six          4.5e-4   1.2e-3       2.3e-2   4.2e-2        1.5e-1     3.3e-3
 *   FP32, weights as shards                      2.9e-8   5.3e-7       1.5e-6   1.7e-5        2.6e-4     1.9e-7
 *   BF16, weights as shards                      4.3e-4   1.1e-3       2.5e-2   4.5e-2        1.1e-1     9.1e-4
 *   BF16 against FP32, weights as shards         5.0e-4   1.4e-3       2.5e-2   4.3e-2        1.2e-1     2.6e-3 */
static void judge(batch b, cut k, const char *what, const spreads *all, int count)
{
    for (int i = 0; i < count; i++) {
        const spread *s = &all->from[i];
        check_limits limit = check_limits_of(count == 2 ? PRECISION_BF16 : PRECISION_FP32, b.layers, i == 1);
        print(b.precision, i ? "fp32" : b.precision, k, what, s);
        for (int m = 0; m < CHECK_MEASURES; m++)
            if (m != CHECK_WEIGHTS || i == 0 || masters(b)) assert_true(s->found.of[m] < limit.of[m]);
        assert_true(s->norm < limit.gradient_fourth);
    }
}

/* Of a cut's ways (sharding, mask) every second, by turns: each way in one of the two precisions. `long`: all. */
static bool is_due(batch b, int way) { return test_is_long() || way % 2 == (strcmp(b.precision, "fp32") != 0); }

/* Every cut with every sharding and recompute mask that is due; the worst of each cut is printed. */
static void cut_every_way(batch b, const cut *list, int count, const char *const *recomputes, int masks)
{
    references r = reference_of(b);
    for (int k = 0; k < count; k++) {
        char what[64];
        spreads worst = { { { .where = "" }, { .where = "" } } };
        int ways = list[k].data > 1 || (list[k].shard > 1 && list[k].context > 1) ? 2 : 1;
        snprintf(what, sizeof what, "%d shardings x %d recomputes", ways, masks);
        for (int s = 0; s < ways; s++)
            for (int m = 0; m < masks; m++)
                if (is_due(b, k + s + m))
                    run(&worst, b, list[k], (memory){ shardings[s], recomputes[m], 1 << (s + m) % 3 }, &r);
        judge(b, list[k], what, &worst, r.count);
    }
    close_references(&r);
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

/* Weights as shards: those of Llama 2, whose gradients are FP32 sums of BF16 ones, and of Llama 3.1. */
static void shard_every_way(const char *precision)
{
    static const char *const workloads[] = { llama2, llama3 };
    int count = test_is_long() ? sizeof shards / sizeof shards[0] : 2,
        pipelined = test_is_long() ? sizeof sharded_pipelines / sizeof sharded_pipelines[0] : 1;
    for (int w = 0; w < (test_is_long() ? 2 : 1); w++) {
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
        spreads found = { { { .where = "" }, { .where = "" } } };
        int microbatches = o->b.global_batch / o->b.micro_batch / o->k.data;
        snprintf(what, sizeof what, "%d microbatches of %d, vocabulary %d, sharding %s, recompute %s", microbatches,
                 o->b.micro_batch, o->b.vocabulary, o->kept.sharding, o->kept.recompute);
        run(&found, o->b, o->k, o->kept, &r);
        judge(o->b, o->k, what, &found, r.count);
        close_references(&r);
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

/* Nemotron-4 in 14 layouts; `long`: all, else the first two. */
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
    };
    (void)state;
    run_odd(list, test_is_long() ? sizeof list / sizeof list[0] : 2);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32),          cmocka_unit_test(bf16),         cmocka_unit_test(pipeline_fp32),
        cmocka_unit_test(pipeline_bf16), cmocka_unit_test(sharded_fp32), cmocka_unit_test(sharded_bf16),
        cmocka_unit_test(microbatches),  cmocka_unit_test(padding),      cmocka_unit_test(nemotron_layouts),
        cmocka_unit_test(gpt3_fp32),     cmocka_unit_test(gpt3_bf16)
    };
    int failed = cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
    world_stop();
    return failed;
}
