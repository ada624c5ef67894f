/* Equality of bits where it is promised: losses, norms, gradients and weights of one layout when only the
 * recompute mask, the order of execution, the sharding or the checks of the machine change, and of one deck run twice.
 * Different degrees of data, context or tensor parallelism add in another order and are not compared here. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 4, RANKS = 4, DECK = 1024 };

typedef struct {
    const char *workload, *keys;
} cut;
static const char llama3[] = "llama3.1-70b", nemotron4[] = "nemotron4-340b", gpt3_175b[] = "gpt3-175b",
                  grok1_314b[] = "grok1-314b";
static const cut cuts[] = {
    { llama3, "" },
    { llama3, "tensor = 4" },
    { llama3, "data = 4; sharding = optimizer" },
    { llama3, "tensor = 2; data = 2" },
    { llama3, "tensor = 2; data = 2; sharding = optimizer" },
    { llama3, "context = 4; sharding = optimizer" },
    { llama3, "tensor = 2; context = 2" },
    { llama3, "tensor = 2; data = 2; sharding = optimizer; overlap = off" },
    { llama3, "shard = 4" },
    { llama3, "tensor = 2; shard = 2" },
    { llama3, "data = 2; shard = 2; overlap = off" },
    { llama3, "context = 2; shard = 2; sharding = optimizer" },
    { nemotron4, "tensor = 2; context = 2; sharding = optimizer" },
    { nemotron4, "tensor = 2; shard = 2" },
    { gpt3_175b, "" },
    { gpt3_175b, "tensor = 2; data = 2; sharding = optimizer" },
    { gpt3_175b, "context = 2; tensor = 2; overlap = off" },
    { grok1_314b, "data = 4; expert = 4; sharding = optimizer" },
    { grok1_314b, "data = 2; expert = 2; tensor = 2; capacity = none" },
    { grok1_314b, "context = 2; expert = 2; tensor = 2; capacity = 0.5" },
    { grok1_314b, "data = 2; context = 2; expert = 2; sharding = optimizer; overlap = off" },
};
enum { CUTS = sizeof cuts / sizeof *cuts };
static const char *const precisions[] = { "fp32", "bf16", "fp8" };
enum { PRECISIONS = sizeof precisions / sizeof *precisions, FP8 = 2 };

/* more: keys besides the cut's. */
static bench_case cut_case(const char *precision, cut k, const char *more)
{
    char text[DECK];
    int length = snprintf(text, sizeof text,
                          "bitwise\n\n[%s]\nsize = small\nlayers = 2\nhidden = 64\nffn = 128\nheads = 8\n"
                          "kv_heads = %d\nsequence = 64\nvocabulary = 250\nglobal_batch = 8\nmicro_batch = 1\n"
                          "tokens = uniform\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\nprecision = %s\n"
                          "%s%s%s%s\n%s\n",
                          k.workload, k.workload == gpt3_175b ? 8 : 4, STEPS, precision,
                          strstr(k.keys, "data") ? "" : "data = 1\n",
                          strstr(k.keys, "sharding") || strstr(more, "sharding") ? "" : "sharding = none\n",
                          strstr(more, "recompute") ? "" : "recompute = none\n", k.keys, more);
    for (int i = 0; i < length; i++)
        if (text[i] == ';') text[i] = '\n';
    return with_few_positions(case_of(text, RANKS));
}

static void same(const trained *want, const bench_case *c, training how, const char *what)
{
    trained got;
    how.steps = STEPS;
    train_case(&got, c, &how);
    int64_t count = trained_differences(&got, want);
    char title[LAYOUT_TITLE];
    if (count && world_rank() == 0)
        printf("# %s, overlap %s, %s: %lld numbers differ\n", layout_title(title, c), c->overlap ? "on" : "off", what,
               (long long)count);
    if (got.hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), got.hazard);
    assert_int_equal(count, 0);
    assert_true(got.hazards == 0.0);
    trained_close(&got);
}

/* Proved: operands that are only written are NaN before; what is only read is compared after. */
static void compare(const trained *want, const char *precision, cut k)
{
    static const char *const recomputes[] = { "recompute = attention",   "recompute = mlp",
                                              "recompute = layer",       "recompute = attention_mlp",
                                              "recompute = elementwise", "recompute = attention_elementwise" };
    bench_case none = cut_case(precision, k, ""), mlp = cut_case(precision, k, recomputes[1]),
               layer = cut_case(precision, k, recomputes[2]);
    same(want, &none, (training){ 0 }, "run twice");
    for (int i = 0; i < (int)(sizeof recomputes / sizeof recomputes[0]); i++) {
        bench_case c = cut_case(precision, k, recomputes[i]);
        same(want, &c, (training){ 0 }, recomputes[i]);
    }
    same(want, &layer, (training){ .prove_access = true }, "access lists proved");
    same(want, &layer, (training){ .prove_access = true, .hostile = true, .order_seed = 1 },
         "access lists proved in hostile order");
    same(want, &mlp, (training){ .hostile = true, .order_seed = 99 }, "hostile order, recompute mlp");
}

/* Every second cut, by turns in FP32 and BF16, every sixth in FP8; `long`: all. */
static bool is_due(int number, int precision)
{
    return test_is_long() || (precision == FP8 ? number % 6 == 3 : number % 2 == precision);
}

static void every_cut(int precision)
{
    for (int i = 0; i < CUTS; i++) {
        if (!is_due(i, precision)) continue;
        trained want;
        bench_case c = cut_case(precisions[precision], cuts[i], "");
        train_case(&want, &c, &(training){ .steps = STEPS });
        assert_true(want.hazards == 0.0 && losses_are_positive(&want));
        compare(&want, precisions[precision], cuts[i]);
        trained_close(&want);
    }
}

static void fp32(void **state)
{
    (void)state;
    every_cut(0);
}
static void bf16(void **state)
{
    (void)state;
    every_cut(1);
}
static void fp8(void **state)
{
    (void)state;
    every_cut(FP8);
}

/* Sums over ranks are made in rank order and rounded once, whole or in parts; AdamW is element by element. */
static void sharding(void **state)
{
    static const cut list[] = { { llama3, "data = 4" },
                                { llama3, "data = 2" },
                                { llama3, "tensor = 2; data = 2" },
                                { llama3, "context = 2; data = 2" },
                                { llama3, "tensor = 2; data = 2; overlap = off" },
                                { gpt3_175b, "tensor = 2; data = 2" },
                                { nemotron4, "context = 2; data = 2" },
                                { grok1_314b, "context = 2; data = 2; expert = 2" } };
    (void)state;
    for (int p = 0; p < PRECISIONS; p++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            trained want;
            bench_case whole = cut_case(precisions[p], list[i], "sharding = none"),
                       part = cut_case(precisions[p], list[i], "sharding = optimizer");
            train_case(&want, &whole, &(training){ .steps = STEPS });
            same(&want, &part, (training){ 0 }, "sharding optimizer");
            trained_close(&want);
        }
}

/* Queue heads in random order: the same order on every rank, and another on each. */
static void hostile_seeds(const char *precision, cut k, uint32_t seeds)
{
    trained want;
    bench_case c = cut_case(precision, k, ""), again = cut_case(precision, k, "recompute = layer");
    train_case(&want, &c, &(training){ .steps = STEPS });
    for (uint32_t seed = 1; seed <= seeds; seed++) {
        same(&want, &c, (training){ .hostile = true, .order_seed = seed }, "hostile order");
        uint32_t own = 1000 * seed + (uint32_t)world_rank();
        same(&want, &again, (training){ .hostile = true, .order_seed = own },
             "hostile order of every rank's own seed, recompute layer");
    }
    trained_close(&want);
}

/* What is gathered beside computation is what is gathered before it. */
static void overlap(void **state)
{
    static const cut parted[] = { { llama3, "shard = 4" },
                                  { llama3, "data = 2; shard = 2" },
                                  { llama3, "tensor = 2; shard = 2; sharding = optimizer" },
                                  { nemotron4, "context = 2; shard = 2; sharding = optimizer" } };
    (void)state;
    for (int p = 0; p < PRECISIONS; p++)
        for (size_t i = 0; i < sizeof parted / sizeof parted[0]; i++) {
            trained want;
            bench_case on = cut_case(precisions[p], parted[i], "recompute = attention_mlp"), off = on;
            off.overlap = off.weight_gradient_queue = false;
            train_case(&want, &on, &(training){ .steps = STEPS });
            same(&want, &off, (training){ 0 }, "overlap off");
            trained_close(&want);
        }
}

/* Of one microbatch the sum over the ranks is the step's, whoever keeps it. */
static void as_data_ranks(void **state)
{
    static const cut pairs[][2] = {
        { { llama3, "data = 4; sharding = optimizer" }, { llama3, "shard = 4" } },
        { { llama3, "tensor = 2; data = 2" }, { llama3, "tensor = 2; shard = 2" } },
    };
    (void)state;
    for (int p = 0; p < PRECISIONS; p++)
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            trained want;
            bench_case data = cut_case(precisions[p], pairs[i][0], ""),
                       shard = cut_case(precisions[p], pairs[i][1], "");
            data.micro_batch = shard.micro_batch = data.global_batch / data.layout.degree[AXIS_DATA];
            data.microbatches = shard.microbatches = 1;
            train_case(&want, &data, &(training){ .steps = STEPS });
            same(&want, &shard, (training){ 0 }, "shard ranks instead of data ranks");
            trained_close(&want);
        }
}

static void hostile(void **state)
{
    static const cut families[] = { { grok1_314b, "data = 2; expert = 2; tensor = 2" },
                                    { grok1_314b, "context = 2; expert = 2; capacity = none" },
                                    { gpt3_175b, "tensor = 2; data = 2; sharding = optimizer" },
                                    { nemotron4, "tensor = 2; shard = 2" } };
    (void)state;
    for (int p = 0; p < PRECISIONS; p++) {
        const uint32_t seeds = test_is_long() ? 50 : p == FP8 ? 4 : 6;
        hostile_seeds(precisions[p], (cut){ llama3, "tensor = 2; data = 2; sharding = optimizer" }, seeds);
        hostile_seeds(precisions[p], (cut){ llama3, "tensor = 2; data = 2; overlap = off" }, seeds / 4);
        hostile_seeds(precisions[p], (cut){ llama3, "data = 2; shard = 2" }, test_is_long() ? seeds : seeds / 4);
        for (int i = 0; i < 4; i++)
            if (test_is_long() || i % 2 == p % 2) hostile_seeds(precisions[p], families[i], test_is_long() ? seeds : 2);
    }
}

/* Rows of padding give the same losses, bit for bit. They lengthen a sum of the backward pass by zeros, which a library
 * may add in another order. */
static void padding(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++) {
        trained want, got;
        const char *name = "";
        bench_case c = cut_case(precisions[p], cuts[0], ""), padded = c;
        padded.model.padded_vocabulary += 128;
        train_case(&want, &c, &(training){ .steps = 1 });
        train_case(&got, &padded, &(training){ .steps = 1 });
        assert_memory_equal(got.sequence_loss[0], want.sequence_loss[0], sizeof want.sequence_loss[0]);
        assert_true(got.loss[0] == want.loss[0]);
        assert_true(worst_ratio(&want, got.gradient, want.gradient, &name) < (p ? 1e-2 : 1e-6));
        assert_true(got.whole_weight_errors == 0.0);
        trained_close(&want);
        trained_close(&got);
    }
}

/* Where the gradients are the same bits the norm is, however they are cut: data and tensor ranks hold other parts. */
static void norm(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < CUTS; i++) {
            trained x;
            bench_case c = cut_case(precisions[p], cuts[i], "");
            train_case(&x, &c, &(training){ .steps = 1 });
            double whole = 0.0, units = 0.0;
            for (int64_t k = 0; k < x.base[x.rows]; k++) {
                double square = x.gradient[k] * x.gradient[k], high = floor(ldexp(square, 40));
                whole += high;
                units += nearbyint(ldexp(ldexp(square, 40) - high, 40));
            }
            double exact = sqrt(ldexp(whole, -40) + ldexp(units, -80));
            if (fabs(x.norm[0] / exact - 1.0) > 1e-15 && world_rank() == 0)
                printf("# norm %.17g, from the gradients %.17g\n", x.norm[0], exact);
            assert_true(fabs(x.norm[0] / exact - 1.0) < 1e-15);
            trained_close(&x);
        }
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32),     cmocka_unit_test(bf16),    cmocka_unit_test(fp8),
        cmocka_unit_test(sharding), cmocka_unit_test(hostile), cmocka_unit_test(padding),
        cmocka_unit_test(norm),     cmocka_unit_test(overlap), cmocka_unit_test(as_data_ranks),
    };
    int failed = cmocka_run_group_tests_name("bitwise", tests, NULL, NULL);
    world_stop();
    return failed;
}
