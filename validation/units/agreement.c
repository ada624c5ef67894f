/* Agreement: one small case cut every way, against one rank. Losses per sequence, gradients of the first and the fourth
 * step, weights and norms within the limits of design part 6; no hazard; gathered weights are the owners'. */
#include "bench/check.h"
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 4, RANKS = 8, DECK = 2048 };

/* schedule "": by chunks */
typedef struct { int tensor, data, context, pipeline, chunks; const char *schedule; } cut;
static const cut cuts[] = { { 1, 1, 1, 1, 1, "" }, { 2, 1, 1, 1, 1, "" }, { 4, 1, 1, 1, 1, "" }, { 8, 1, 1, 1, 1, "" }, { 1, 8, 1, 1, 1, "" }, { 2, 2, 1, 1, 1, "" }, { 4, 2, 1, 1, 1, "" },
                            { 1, 1, 2, 1, 1, "" }, { 1, 1, 4, 1, 1, "" }, { 2, 1, 2, 1, 1, "" }, { 1, 2, 2, 1, 1, "" }, { 2, 2, 2, 1, 1, "" } };
static const cut pipelines[] = { { 1, 1, 1, 8, 1, "" }, { 1, 1, 1, 4, 2, "" }, { 1, 1, 1, 4, 1, "schedule = gpipe" }, { 1, 1, 1, 2, 3, "" },
                                 { 2, 1, 2, 2, 1, "" }, { 2, 2, 1, 2, 1, "" }, { 2, 2, 1, 2, 2, "" }, { 2, 1, 1, 4, 1, "schedule = gpipe" } };
static const char *const every[] = { "none", "attention", "mlp", "layer" }, *const extremes[] = { "none", "layer" };
static const char *const shardings[] = { "none", "optimizer" };

typedef struct { const char *precision; int vocabulary, global_batch, micro_batch, layers; } batch;

static bench_case cut_case(batch b, cut k, const char *sharding, const char *recompute)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "agreement\none case cut every way\n[llama3.1-70b]\nsize = small\nlayers = %d\nhidden = 128\nffn = 256\nheads = 16\n"
             "kv_heads = 8\nsequence = 64\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\n"
             "precision = %s\nvocabulary = %d\nglobal_batch = %d\nmicro_batch = %d\ntensor = %d\ndata = %d\ncontext = %d\n%s = %s\nrecompute = %s\n"
             "pipeline = %d\nchunks_per_stage = %d\n%s\n",
             b.layers, STEPS, b.precision, b.vocabulary, b.global_batch, b.micro_batch, k.tensor, k.data, k.context, "sharding", sharding, recompute, k.pipeline, k.chunks, k.schedule);
    return case_of(text, RANKS);
}

/* Distances from one reference. */
typedef struct { double loss_first, loss_later, first, fourth, weights, norm; const char *where; } spread;

static double relative(double got, double want) { return fabs(got / want - 1.0); }

static double loss_spread(const trained *x, const trained *want, int step)
{
    double worst = 0.0;
    for (int64_t i = 0; i < want->sequences; i++)
        worst = fmax(worst, relative(x->sequence_loss[step][i], want->sequence_loss[step][i]));
    return worst;
}

static spread spread_of(const trained *x, const trained *want)
{
    const char *name = "";
    spread s = { .where = "", .loss_first = loss_spread(x, want, 0) };
    for (int step = 0; step < STEPS; step++) {
        s.norm = fmax(s.norm, relative(x->norm[step], want->norm[step]));
        if (step > 0) s.loss_later = fmax(s.loss_later, loss_spread(x, want, step));
    }
    s.first = worst_ratio(want, x->gradient, want->gradient, &s.where);
    s.fourth = worst_ratio(want, x->last_gradient, want->last_gradient, &name);
    s.weights = worst_change(want, x->weight, want->weight, want->first_weight, &name);
    return s;
}

static spread larger(spread a, spread b)
{
    return (spread){ fmax(a.loss_first, b.loss_first), fmax(a.loss_later, b.loss_later), fmax(a.first, b.first),
                     fmax(a.fourth, b.fourth), fmax(a.weights, b.weights), fmax(a.norm, b.norm), b.first > a.first ? b.where : a.where };
}

/* The references: one rank, nothing recomputed, micro_batch 1; of the same precision, then FP32 if that is another. */
typedef struct { int count; trained of[2]; } references;
typedef struct { spread from[2]; } spreads;

static references reference_of(batch b)
{
    references r = { .count = strcmp(b.precision, "fp32") ? 2 : 1 };
    b.micro_batch = 1;
    for (int i = 0; i < r.count; i++) {
        batch one = b;
        if (i == 1) one.precision = "fp32";
        bench_case c = cut_case(one, cuts[0], "none", "none");
        train_case(&r.of[i], &c, &(training){ .steps = STEPS });
    }
    return r;
}

static void close_references(references *r)
{
    for (int i = 0; i < r->count; i++) trained_close(&r->of[i]);
}

static void run(spreads *worst, batch b, cut k, const char *sharding, const char *recompute, const references *r)
{
    trained x;
    bench_case c = cut_case(b, k, sharding, recompute);
    train_case(&x, &c, &(training){ .steps = STEPS });
    for (int i = 0; i < r->count; i++) worst->from[i] = larger(worst->from[i], spread_of(&x, &r->of[i]));
    if (x.hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), x.hazard);
    assert_true(x.hazards == 0.0);
    assert_true(x.whole_weight_errors == 0.0);
    trained_close(&x);
}

static void judge(batch b, cut k, const char *what, const spreads *all, int count)
{
    for (int i = 0; i < count; i++) {
        const spread *s = &all->from[i];
        check_limits limit = check_limits_of(count == 2 ? PRECISION_BF16 : PRECISION_FP32, i == 1);
        if (world_rank() == 0)
            printf("# %s - %s, TP%d DP%d CP%d PP%d, %d chunks %s, %s: loss %.1e %.1e  gradient %.1e %.1e (%s)  weights %.1e  norm %.1e\n", b.precision,
                   i ? "fp32" : b.precision, k.tensor, k.data, k.context, k.pipeline, k.chunks, k.schedule, what, s->loss_first, s->loss_later, s->first, s->fourth, s->where,
                   s->weights, s->norm);
        assert_true(s->loss_first < limit.loss_first);
        assert_true(s->loss_later < limit.loss_later);
        assert_true(s->first < limit.gradient_first);
        assert_true(s->fourth < limit.gradient_fourth);
        assert_true(s->weights < limit.weights);
        assert_true(s->norm < limit.gradient_fourth);
    }
}

/* Every cut with every sharding and recompute mask; the worst of each cut is printed. */
static void cut_every_way(batch b, const cut *list, int count, const char *const *recomputes, int masks)
{
    references r = reference_of(b);
    for (int k = 0; k < count; k++) {
        char what[64];
        spreads worst = { { { .where = "" }, { .where = "" } } };
        snprintf(what, sizeof what, "%d shardings x %d recomputes", list[k].data > 1 ? 2 : 1, masks);
        for (int s = 0; s < (list[k].data > 1 ? 2 : 1); s++)
            for (int m = 0; m < masks; m++) run(&worst, b, list[k], shardings[s], recomputes[m], &r);
        judge(b, list[k], what, &worst, r.count);
    }
    close_references(&r);
}

#define COUNT(list) (int)(sizeof list / sizeof list[0])
static void fp32(void **state) { (void)state; cut_every_way((batch){ "fp32", 509, 8, 1, 2 }, cuts, COUNT(cuts), every, COUNT(every)); }
static void bf16(void **state) { (void)state; cut_every_way((batch){ "bf16", 509, 8, 1, 2 }, cuts, COUNT(cuts), every, COUNT(every)); }

static void pipeline_fp32(void **state) { (void)state; cut_every_way((batch){ "fp32", 509, 8, 1, 6 }, pipelines, COUNT(pipelines), extremes, COUNT(extremes)); }
static void pipeline_bf16(void **state) { (void)state; cut_every_way((batch){ "bf16", 509, 8, 1, 6 }, pipelines, COUNT(pipelines), extremes, COUNT(extremes)); }

typedef struct { batch b; cut k; const char *sharding, *recompute; } odd_case;

static void run_odd(const odd_case *list, size_t count)
{
    char what[128];
    for (size_t i = 0; i < count; i++) {
        const odd_case *o = &list[i];
        references r = reference_of(o->b);
        spreads found = { { { .where = "" }, { .where = "" } } };
        int64_t microbatches = o->b.global_batch / o->b.micro_batch / o->k.data;
        snprintf(what, sizeof what, "%lld microbatches of %d, vocabulary %d, sharding %s, recompute %s", (long long)microbatches,
                 o->b.micro_batch, o->b.vocabulary, o->sharding, o->recompute);
        run(&found, o->b, o->k, o->sharding, o->recompute, &r);
        judge(o->b, o->k, what, &found, r.count);
        close_references(&r);
    }
}

/* Rows of a microbatch lie beside each other; odd numbers of microbatches, and a single one. */
static void microbatches(void **state)
{
    static const odd_case list[] = {
        { { "fp32", 509, 8, 2, 2 }, { 1, 1, 1, 1, 1, "" }, "none", "none" },      { { "fp32", 509, 8, 2, 2 }, { 2, 2, 1, 1, 1, "" }, "optimizer", "layer" },
        { { "bf16", 509, 8, 2, 2 }, { 2, 2, 1, 1, 1, "" }, "optimizer", "none" }, { { "fp32", 509, 12, 2, 2 }, { 2, 2, 1, 1, 1, "" }, "optimizer", "mlp" },
        { { "fp32", 509, 6, 1, 2 }, { 4, 2, 1, 1, 1, "" }, "none", "attention" }, { { "bf16", 509, 10, 1, 2 }, { 4, 2, 1, 1, 1, "" }, "optimizer", "layer" },
        { { "fp32", 509, 6, 3, 2 }, { 2, 2, 1, 1, 1, "" }, "optimizer", "layer" }, { { "bf16", 509, 6, 3, 2 }, { 1, 1, 8, 1, 1, "" }, "optimizer", "attention" },
        { { "fp32", 509, 8, 2, 2 }, { 2, 2, 2, 1, 1, "" }, "optimizer", "layer" },
    };
    (void)state;
    run_odd(list, sizeof list / sizeof list[0]);
}

/* 130 words are padded to 128 a rank: the last tensor ranks hold nothing but padding. */
static void padding(void **state)
{
    static const odd_case list[] = {
        { { "fp32", 130, 8, 1, 2 }, { 8, 1, 1, 1, 1, "" }, "none", "none" },
        { { "bf16", 130, 8, 1, 2 }, { 4, 2, 1, 1, 1, "" }, "optimizer", "layer" },
        { { "fp32", 127, 8, 1, 2 }, { 2, 2, 1, 1, 1, "" }, "optimizer", "none" },
    };
    (void)state;
    run_odd(list, sizeof list / sizeof list[0]);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(fp32), cmocka_unit_test(bf16), cmocka_unit_test(pipeline_fp32),
                                        cmocka_unit_test(pipeline_bf16), cmocka_unit_test(microbatches), cmocka_unit_test(padding) };
    int failed = cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
    world_stop();
    return failed;
}
