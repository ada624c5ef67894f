/* The reference rounds as the run does: one rank that imitates the tensor and context ranks of a layout has the
 * layout's losses in the first step. Without the imitation it does not. */
#include "agreement.h"

enum { RANKS = 4, DECK = 1024 };
/* Losses are summed in double over 64 positions in another order: 64 roundings of 2^-53. */
static const double SAME_LOSS = 64 * 0x1p-53;
/* Tolerance for gradients: each context rank's gradient is rounded to BF16 before the sum, by half a unit of 2^-8; four
 * such roundings. Measured: 3.5e-3 with the imitation, 1.1e-2 to 0.13 without. */
static const double SAME_GRADIENT = 0x1p-7;

static const struct {
    const char *workload, *precision, *keys;
} layouts[] = {
    { "llama3.1-70b", "bf16", "tensor = 2\ncontext = 2" },
    { "llama2-70b", "fp8\nfp8_scaling = current", "tensor = 4" },
    { "nemotron4-340b", "fp8\nfp8_scaling = current", "context = 4\ncontext_gradients = bf16" },
    { "gpt3-175b", "bf16", "tensor = 2\ncontext = 2\ncontext_gradients = bf16" },
    { "grok1-314b", "fp8\nfp8_scaling = current", "tensor = 2\ncontext = 2\nexpert = 2\ncapacity = none" },
};

static bench_case case_at(size_t i)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "imitation\n\n[%s]\nsize = check\nprecision = %s\nbackend = host\nsteps = 1\n"
             "warmup = 0\n%s\n",
             layouts[i].workload, layouts[i].precision, layouts[i].keys);
    bench_case c = case_of(text, RANKS);
    return check_case(&c);
}

static spread distance(const trained *run, const bench_case *alone)
{
    trained one;
    train_case(&one, alone, &(training){ .steps = 1, .choices = run->choices ? run : NULL });
    spread s = spread_of(run, &one);
    trained_close(&one);
    return s;
}

static void one_rank_rounds_as_several(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        bench_case c = case_at(i), alone = alone_of(&c), plain;
        trained run;
        alone.choices_given = c.model.experts > 0;
        plain = alone;
        plain.imitated = (imitated_ranks){ 0 };
        train_case(&run, &c, &(training){ .steps = 1 });
        spread with = distance(&run, &alone), without = distance(&run, &plain);
        if (world_rank() == 0)
            printf("# %s: loss %.1e, without %.1e; gradient %.1e, without %.1e\n", layouts[i].workload,
                   with.found.loss_first, without.found.loss_first, with.found.gradient_first,
                   without.found.gradient_first);
        assert_true(with.found.loss_first <= SAME_LOSS);
        assert_true(with.found.gradient_first <= SAME_GRADIENT && without.found.gradient_first > SAME_GRADIENT);
        trained_close(&run);
    }
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_rank_rounds_as_several) };
    int failed = cmocka_run_group_tests_name("imitation", tests, NULL, NULL);
    world_stop();
    return failed;
}
