/* Equality of bits where it is promised: losses, norms, gradients and weights of one layout when only the
 * recompute mask, the order of execution, the sharding or the checks of the machine change, and of one deck run twice.
 * Different degrees of data, context or tensor parallelism add in another order and are not compared here. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 4, RANKS = 4, DECK = 1024 };

typedef struct {
    int tensor, data, context;
    const char *sharding, *overlap;
    int shard;
} cut;
static const cut cuts[] = { { 1, 1, 1, "none", "on", 1 },      { 4, 1, 1, "none", "on", 1 },
                            { 1, 4, 1, "optimizer", "on", 1 }, { 2, 2, 1, "none", "on", 1 },
                            { 2, 2, 1, "optimizer", "on", 1 }, { 1, 1, 4, "optimizer", "on", 1 },
                            { 2, 1, 2, "none", "on", 1 },      { 2, 2, 1, "optimizer", "off", 1 },
                            { 1, 1, 1, "none", "on", 4 },      { 2, 1, 1, "none", "on", 2 },
                            { 1, 2, 1, "none", "off", 2 },     { 1, 1, 2, "optimizer", "on", 2 } };
static const char *const precisions[] = { "fp32", "bf16" };

static bench_case cut_case(const char *precision, cut k, const char *recompute)
{
    char text[DECK];
    snprintf(
        text, sizeof text,
        "bitwise\n\n[llama3.1-70b]\nsize = small\nlayers = 2\nhidden = 64\nffn = 128\nheads = 8\nkv_heads = "
        "4\nsequence = 64\n"
        "vocabulary = 250\nglobal_batch = 8\nmicro_batch = 1\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\n"
        "precision = %s\ntensor = %d\ndata = %d\nshard = %d\ncontext = %d\nsharding = %s\nrecompute = %s\noverlap = "
        "%s\n",
        STEPS, precision, k.tensor, k.data, k.shard, k.context, k.sharding, recompute, k.overlap);
    return case_of(text, RANKS);
}

static void same(const trained *want, const bench_case *c, training how, const char *what)
{
    trained got;
    how.steps = STEPS;
    train_case(&got, c, &how);
    int64_t count = trained_differences(&got, want);
    if (count && world_rank() == 0)
        printf("# %s, TP%d DP%d S%d CP%d, overlap %s, %s: %lld numbers differ\n", precision_name(c->precision),
               c->layout.degree[AXIS_TENSOR], c->layout.degree[AXIS_DATA], c->layout.degree[AXIS_SHARD],
               c->layout.degree[AXIS_CONTEXT], c->overlap ? "on" : "off", what, (long long)count);
    if (got.hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), got.hazard);
    assert_int_equal(count, 0);
    assert_true(got.hazards == 0.0);
    trained_close(&got);
}

/* Proved: operands that are only written are NaN before; what is only read is compared after. */
static void compare(const trained *want, const char *precision, cut k)
{
    static const char *const recomputes[] = { "attention", "mlp", "layer", "attention_mlp" };
    bench_case none = cut_case(precision, k, "none"), mlp = cut_case(precision, k, "mlp"),
               layer = cut_case(precision, k, "layer");
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

static void every_cut(const char *precision)
{
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        trained want;
        bench_case c = cut_case(precision, cuts[i], "none");
        train_case(&want, &c, &(training){ .steps = STEPS });
        assert_true(want.hazards == 0.0 && losses_are_positive(&want));
        compare(&want, precision, cuts[i]);
        trained_close(&want);
    }
}

static void fp32(void **state)
{
    (void)state;
    every_cut("fp32");
}
static void bf16(void **state)
{
    (void)state;
    every_cut("bf16");
}

/* Sums over ranks are made in rank order and rounded once, whole or in parts; AdamW is element by element. */
static void sharding(void **state)
{
    static const cut pairs[] = { { 1, 4, 1, "none", "on", 1 },
                                 { 1, 2, 1, "none", "on", 1 },
                                 { 2, 2, 1, "none", "on", 1 },
                                 { 1, 2, 2, "none", "on", 1 },
                                 { 2, 2, 1, "none", "off", 1 } };
    (void)state;
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            trained want;
            cut spread = { pairs[i].tensor, pairs[i].data, pairs[i].context, "optimizer", pairs[i].overlap, 1 };
            bench_case whole = cut_case(precisions[p], pairs[i], "none"),
                       part = cut_case(precisions[p], spread, "none");
            train_case(&want, &whole, &(training){ .steps = STEPS });
            same(&want, &part, (training){ 0 }, "sharding optimizer");
            trained_close(&want);
        }
}

/* Queue heads in random order: the same order on every rank, and another on each. */
static void hostile_seeds(const char *precision, cut k, uint32_t seeds)
{
    trained want;
    bench_case c = cut_case(precision, k, "none"), again = cut_case(precision, k, "layer");
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
    static const cut parted[] = { { 1, 1, 1, "none", "on", 4 },
                                  { 1, 2, 1, "none", "on", 2 },
                                  { 2, 1, 1, "optimizer", "on", 2 },
                                  { 1, 1, 2, "optimizer", "on", 2 } };
    (void)state;
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof parted / sizeof parted[0]; i++) {
            trained want;
            bench_case on = cut_case(precisions[p], parted[i], "attention_mlp"), off = on;
            off.overlap = off.weight_gradient_queue = false;
            train_case(&want, &on, &(training){ .steps = STEPS });
            same(&want, &off, (training){ 0 }, "overlap off");
            trained_close(&want);
        }
}

/* Of one microbatch the sum over the ranks is the step's, whoever keeps it. */
static void as_data_ranks(void **state)
{
    static const cut pairs[][2] = { { { 1, 4, 1, "optimizer", "on", 1 }, { 1, 1, 1, "none", "on", 4 } },
                                    { { 2, 2, 1, "none", "on", 1 }, { 2, 1, 1, "none", "on", 2 } } };
    (void)state;
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            trained want;
            bench_case data = cut_case(precisions[p], pairs[i][0], "none"),
                       shard = cut_case(precisions[p], pairs[i][1], "none");
            data.micro_batch = shard.micro_batch = data.global_batch / data.layout.degree[AXIS_DATA];
            data.microbatches = shard.microbatches = 1;
            train_case(&want, &data, &(training){ .steps = STEPS });
            same(&want, &shard, (training){ 0 }, "shard ranks instead of data ranks");
            trained_close(&want);
        }
}

static void hostile(void **state)
{
    const uint32_t seeds = test_is_long() ? 50 : 20;
    (void)state;
    for (int p = 0; p < 2; p++) {
        hostile_seeds(precisions[p], (cut){ 2, 2, 1, "optimizer", "on", 1 }, seeds);
        hostile_seeds(precisions[p], (cut){ 2, 2, 1, "optimizer", "off", 1 }, seeds / 4);
        hostile_seeds(precisions[p], (cut){ 1, 2, 1, "none", "on", 2 }, test_is_long() ? seeds : seeds / 4);
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
        bench_case c = cut_case(precisions[p], cuts[0], "none"), padded = c;
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
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            trained x;
            bench_case c = cut_case(precisions[p], cuts[i], "none");
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
        cmocka_unit_test(fp32),    cmocka_unit_test(bf16), cmocka_unit_test(sharding), cmocka_unit_test(hostile),
        cmocka_unit_test(padding), cmocka_unit_test(norm), cmocka_unit_test(overlap),  cmocka_unit_test(as_data_ranks),
    };
    int failed = cmocka_run_group_tests_name("bitwise", tests, NULL, NULL);
    world_stop();
    return failed;
}
