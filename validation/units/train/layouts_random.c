/* Layouts drawn at random, each trained and compared with one rank within the limits of bench/check.h. XGSW_TEST_SEED
 * draws others. */
#include "base/random.h"
#include "bench/check.h"
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 4, RANKS = 8, LAYOUTS = 20, DECK = 1024 };

/* Draws are words of philox: counter { draw }, keys seed and "layouts". */
typedef struct {
    uint32_t seed, drawn;
} source;

static uint32_t draw(source *s, uint32_t below)
{
    philox_block counter = { { s->drawn++, 0, 0, 0 } };
    return philox4x32(counter, s->seed, fnv1a("layouts")).word[0] % below;
}

static const char *draw_word(source *s, const char *const *word, uint32_t count) { return word[draw(s, count)]; }

/* Keys that may contradict one another. */
static void draw_deck(source *s, char text[DECK])
{
    static const char *const precisions[] = { "fp32", "bf16" }, *const overlaps[] = { "off", "on" },
                             *const shardings[] = { "none", "optimizer" },
                             *const schedules[] = { "gpipe", "1f1b", "interleaved" },
                             *const recomputes[] = { "none",
                                                     "attention",
                                                     "mlp",
                                                     "layer",
                                                     "attention_mlp",
                                                     "elementwise",
                                                     "attention_elementwise" };
    int tp = 1 << draw(s, 3), pp = 1 + (int)draw(s, 4), cp = 1 << draw(s, 3), dp = 1 + (int)draw(s, 4),
        micro_batch = 1 + (int)draw(s, 2), sp = draw(s, 3) ? 1 : 2;
    int microbatches = 1 + (int)draw(s, 4), chunks = 1 + (int)draw(s, 2), layers = 2 + 2 * (int)draw(s, 3);
    const char *order = draw_word(s, schedules, 3), *precision = draw_word(s, precisions, 2),
               *recompute = draw_word(s, recomputes, 7);
    snprintf(
        text, DECK,
        "layouts\n\n[llama3.1-8b]\nsize = small\nhidden = 64\nffn = 128\nheads = 8\nkv_heads = 4\nsequence = "
        "64\nvocabulary = 250\n"
        "warmup = 0\nsteps = %d\ncheck = off\nbackend = host\nlayers = %d\ntensor = %d\npipeline = %d\ncontext = "
        "%d\ndata = %d\nshard = %d\n"
        "global_batch = %d\nmicro_batch = %d\nchunks_per_stage = %d\nschedule = %s\nprecision = %s\nrecompute = %s\n"
        "sharding = %s\noverlap = %s\nstrips = %d\n",
        STEPS, layers, tp, pp, cp, dp, sp, sp * dp * micro_batch * microbatches, micro_batch, chunks, order, precision,
        recompute, draw_word(s, shardings, 2), draw_word(s, overlaps, 2), 1 << draw(s, 3));
}

/* Draws until a deck is legal and fits the world. No key says how many weight gradients of the head wait for the drain.
 */
static bench_case draw_layout(source *s)
{
    for (;;) {
        char text[DECK];
        draw_deck(s, text);
        deck_source given = { .name = "layouts", .text = text, .length = strlen(text), .ranks = RANKS };
        deck d = deck_read(&given);
        bool legal = !d.messages && d.cases == 1 && !d.item[0].skipped[0] && !d.item[0].not_built[0];
        legal = legal && d.item[0].layout.ranks > 1 && d.item[0].global_batch <= TRAINED_SEQUENCES;
        bench_case c = legal ? d.item[0] : (bench_case){ 0 };
        deck_free(&d);
        c.head_deferral = legal ? draw(s, 1 + (uint32_t)c.microbatches) : 0;
        if (legal) return c;
    }
}

static double apart(double got, double want) { return fabs(got / want - 1.0); }

/* Losses and norms of a step in units of their limits. */
static double step_spread(const trained *got, const trained *want, check_limits limit, int step)
{
    double loss = 0.0;
    for (int64_t i = 0; i < want->sequences; i++)
        loss = fmax(loss, apart(got->sequence_loss[step][i], want->sequence_loss[step][i]));
    loss = fmax(loss, apart(got->loss[step], want->loss[step]));
    return fmax(loss / (step ? limit.loss_later : limit.loss_first),
                apart(got->norm[step], want->norm[step]) / limit.gradient_fourth);
}

/* The largest distance in units of its limit. */
static double spread_of(const trained *got, const trained *want, check_limits limit)
{
    const char *name = "";
    double worst = worst_ratio(want, got->gradient, want->gradient, &name) / limit.gradient_first;
    worst = fmax(worst, worst_ratio(want, got->last_gradient, want->last_gradient, &name) / limit.gradient_fourth);
    worst = fmax(worst, worst_change(want, got->weight, want->weight, want->first_weight, &name) / limit.weights);
    for (int step = 0; step < STEPS; step++) worst = fmax(worst, step_spread(got, want, limit, step));
    return worst;
}

/* Against one rank of the same precision, then of FP32 if that is another. */
static double compare(const bench_case *c, const trained *got)
{
    double worst = 0.0;
    for (int fp32 = 0; fp32 < (c->precision == PRECISION_FP32 ? 1 : 2); fp32++) {
        trained want;
        bench_case alone = single_rank_case(c, fp32);
        train_case(&want, &alone, &(training){ .steps = STEPS });
        worst = fmax(worst, spread_of(got, &want, check_limits_of(c->precision, c->model.layers, fp32)));
        trained_close(&want);
    }
    return worst;
}

static void say_layout(const bench_case *c, double spread)
{
    const int *degree = c->layout.degree;
    if (world_rank() > 0) return;
    printf("# %s, %lld layers, TP%d PP%d CP%d DP%d S%d, %d chunks, %s, %lld microbatches of %lld, %lld deferred, "
           "sharding %s, recompute %s, overlap %s: %.3f of the limits\n",
           precision_name(c->precision), (long long)c->model.layers, degree[AXIS_TENSOR], degree[AXIS_PIPELINE],
           degree[AXIS_CONTEXT], degree[AXIS_DATA], degree[AXIS_SHARD], c->layout.chunks_per_stage,
           schedule_name(c->schedule), (long long)c->microbatches, (long long)c->micro_batch,
           (long long)c->head_deferral, sharding_name(c->sharding), recompute_name(c->recompute),
           c->overlap ? "on" : "off", spread);
    fflush(stdout);
}

static double try_layout(source *s)
{
    trained got;
    bench_case c = draw_layout(s);
    train_case(&got, &c, &(training){ .steps = STEPS, .hostile = true, .order_seed = draw(s, 1u << 31) });
    double spread = compare(&c, &got);
    say_layout(&c, spread);
    if (got.hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), got.hazard);
    assert_true(got.hazards == 0.0);
    assert_true(got.whole_weight_errors == 0.0);
    assert_true(spread < 1.0);
    trained_close(&got);
    return spread;
}

static void layouts(void **state)
{
    const char *given = getenv("XGSW_TEST_SEED");
    source s = { .seed = given ? (uint32_t)strtoul(given, NULL, 10) : 20 };
    double worst = 0.0;
    (void)state;
    if (world_rank() == 0) printf("# seed %u\n", s.seed);
    for (int i = 0; i < LAYOUTS; i++) worst = fmax(worst, try_layout(&s));
    if (world_rank() == 0) printf("# %d layouts, at most %.3f of the limits\n", LAYOUTS, worst);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(layouts) };
    int failed = cmocka_run_group_tests_name("layouts_random", tests, NULL, NULL);
    world_stop();
    return failed;
}
