/* Every wait of a DP2 x TP2 step with sharded optimizer is left out once, on one rank: the hazard checker names two operations
 * that touch the same bytes unordered, or the wait is shown to be redundant (no hazard, and the same bits in hostile order). */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RANKS = 4, STEPS = 3, SEEDS = 3, DECK = 1024 };

static bench_case layout_case(const char *recompute)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "waits\n\n[llama3.1-8b]\nsize = check\ntensor = 2\ndata = 2\nsharding = optimizer\nprecision = fp32\ncheck = off\n"
             "backend = host\nwarmup = 0\nsteps = %d\nrecompute = %s\n", STEPS, recompute);
    return case_of(text, RANKS);
}

/* On paper: the hazards of a rank's steps without their wait number `dropped` (from 0; -1: none left out). */
typedef struct { int64_t waits, hazards; char before[200]; } paper;

static paper on_paper(const bench_case *c, int rank, int64_t dropped)
{
    paper result = { 0 };
    mesh m;
    trainer t;
    arena a;
    mesh_open(&m, &c->layout, rank, false);
    arena_open(&a, NULL, 0);
    machine *on = machine_open(&(machine_options){ .measuring = true, .world_rank = rank });
    trainer_open(&t, c, &m, on, &a);
    trainer_initialize(&t);
    machine_drop_wait(on, dropped);
    for (int s = 0; s < STEPS; s++) {
        trainer_step(&t);
        result.waits = machine_waits(on) > result.waits ? machine_waits(on) : result.waits;
    }
    result.hazards = machine_hazards(on)->count;
    if (dropped >= 0) op_describe(machine_unwaited(on), result.before, sizeof result.before);
    trainer_close(&t);
    machine_close(on);
    mesh_close(&m);
    return result;
}

/* Does the run without that wait on that rank give the same bits under every hostile seed? Collective. */
static bool same_bits(const bench_case *c, const trained *want, int rank, int64_t dropped)
{
    bool same = true;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        trained got;
        train_case(&got, c, &(training){ .steps = STEPS, .hostile = true, .order_seed = seed,
                                         .drop_wait = world_rank() == rank ? dropped + 1 : 0 });
        size_t bytes = (size_t)want->base[want->rows] * sizeof(double);
        same = same && got.hazards == 0.0 && !memcmp(got.loss, want->loss, sizeof got.loss) && !memcmp(got.norm, want->norm, sizeof got.norm) &&
               !memcmp(got.weight, want->weight, bytes) && !memcmp(got.last_gradient, want->last_gradient, bytes);
        trained_close(&got);
    }
    return same;
}

static void leave_out(const char *recompute)
{
    trained want;
    int64_t total = 0, named = 0, redundant = 0, unproved = 0;
    bench_case c = layout_case(recompute);
    train_case(&want, &c, &(training){ .steps = STEPS });
    assert_true(want.hazards == 0.0);
    for (int rank = 0; rank < RANKS; rank++) {
        paper whole = on_paper(&c, rank, -1);
        assert_int_equal(whole.hazards, 0);
        for (int64_t i = 0; i < whole.waits; i++) {
            paper without = on_paper(&c, rank, i);
            total++;
            if (without.hazards) {
                named++;
                continue;
            }
            bool same = same_bits(&c, &want, rank, i);
            redundant += same;
            unproved += !same;
            if (world_rank() == 0)
                printf("# %s: wait %lld of rank %d, before %s\n", same ? "redundant" : "needed, and no hazard names it", (long long)i, rank, without.before);
        }
    }
    if (world_rank() == 0)
        printf("# recompute %s: %lld waits of 4 ranks left out, %lld named by the hazard checker, %lld redundant\n", recompute,
               (long long)total, (long long)named, (long long)redundant);
    trained_close(&want);
    assert_int_equal(unproved, 0);
}

static void recompute_none(void **state) { (void)state; leave_out("none"); }
static void recompute_layer(void **state) { (void)state; leave_out("layer"); }

/* The hazard checker's word is not taken on trust: some of the waits it calls needed do change numbers. */
static void numbers_change(void **state)
{
    trained want;
    bench_case c = layout_case("none");
    int64_t waits = on_paper(&c, 0, -1).waits, changed = 0, tried = 0;
    (void)state;
    train_case(&want, &c, &(training){ .steps = STEPS });
    for (int64_t i = 0; i < waits; i += 10, tried++) changed += !same_bits(&c, &want, 0, i);
    if (world_rank() == 0) printf("# of %lld waits left out for real, %lld change numbers or are named\n", (long long)tried, (long long)changed);
    assert_int_equal(changed, tried);
    trained_close(&want);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(recompute_none), cmocka_unit_test(recompute_layer), cmocka_unit_test(numbers_change) };
    int failed = cmocka_run_group_tests_name("waits", tests, NULL, NULL);
    world_stop();
    return failed;
}
