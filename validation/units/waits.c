/* Every wait of a step is left out once, in one step on one rank: the hazard checker names two operations that touch the same
 * bytes unordered, or the wait is shown to be redundant (no hazard, and the same bits in hostile order). On 4 ranks TP2 x DP2
 * and TP2 x PP2, on 8 TP2 x PP2 x DP2; the optimizer is sharded over data ranks. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 3, SEEDS = 3, DECK = 1024, MOST_WAITS = 4096 };

typedef struct { int pipeline, data; } cut;

static bench_case layout_case(cut k, const char *recompute)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "waits\n\n[llama3.1-8b]\nsize = check\ntensor = 2\npipeline = %d\ndata = %d\nsharding = optimizer\n"
             "precision = fp32\ncheck = off\nbackend = host\nwarmup = 0\nsteps = %d\nrecompute = %s\n",
             k.pipeline, k.data, STEPS, recompute);
    return case_of(text, world_ranks());
}

/* Which wait is left out: number `index` (from 0; -1: none) of a step on a rank. */
typedef struct { int rank, step; int64_t index; } place;

/* On paper: the hazards of a rank's steps without that wait. */
typedef struct { int64_t waits, hazards; char before[200]; } paper;

static paper on_paper(const bench_case *c, place dropped)
{
    paper result = { 0 };
    mesh m;
    trainer t;
    arena a;
    mesh_open(&m, &c->layout, dropped.rank, false);
    arena_open(&a, NULL, 0);
    machine *on = machine_open(&(machine_options){ .measuring = true, .world_rank = dropped.rank });
    trainer_open(&t, c, &m, on, &a);
    trainer_initialize(&t);
    for (int s = 0; s < STEPS; s++) {
        machine_drop_wait(on, s == dropped.step ? dropped.index : -1);
        trainer_step(&t);
        if (s == dropped.step) result.waits = machine_waits(on);
    }
    result.hazards = machine_hazards(on)->count;
    if (dropped.index >= 0) op_describe(machine_unwaited(on), result.before, sizeof result.before);
    trainer_close(&t);
    machine_close(on);
    mesh_close(&m);
    return result;
}

/* Does the run without that wait on that rank give the same bits under every hostile seed? Collective. */
static bool same_bits(const bench_case *c, const trained *want, place dropped)
{
    bool same = true;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        trained got;
        train_case(&got, c, &(training){ .steps = STEPS, .hostile = true, .order_seed = seed,
                                         .drop_step = dropped.step, .drop_wait = world_rank() == dropped.rank ? dropped.index + 1 : 0 });
        size_t bytes = (size_t)want->base[want->rows] * sizeof(double);
        same = same && got.hazards == 0.0 && !memcmp(got.loss, want->loss, sizeof got.loss) &&
               !memcmp(got.norm, want->norm, sizeof got.norm) && !memcmp(got.weight, want->weight, bytes) &&
               !memcmp(got.last_gradient, want->last_gradient, bytes);
        trained_close(&got);
    }
    return same;
}

typedef struct { int64_t total, named, redundant, unproved; } counts;

/* hazards[i]: without wait i of that step on that rank. The ranks share the work. Collective; returns the waits. */
static int64_t name_waits(const bench_case *c, int rank, int step, double hazards[MOST_WAITS])
{
    paper whole = on_paper(c, (place){ rank, step, -1 });
    assert_int_equal(whole.hazards, 0);
    assert_true(whole.waits > 0 && whole.waits <= MOST_WAITS);
    memset(hazards, 0, MOST_WAITS * sizeof hazards[0]);
    for (int64_t i = world_rank(); i < whole.waits; i += world_ranks()) hazards[i] = (double)on_paper(c, (place){ rank, step, i }).hazards;
    world_sum(hazards, whole.waits);
    return whole.waits;
}

/* A wait that no hazard names is tried in runs. */
static void try_unnamed(const bench_case *c, const trained *want, place p, counts *n)
{
    bool same = same_bits(c, want, p);
    if (same) n->redundant++;
    else n->unproved++;
    if (world_rank() == 0 && (p.rank == 0 || !same))
        printf("# %s: wait %lld of rank %d, before %s\n", same ? "redundant" : "needed, and no hazard names it", (long long)p.index, p.rank,
               on_paper(c, p).before);
}

static void leave_out_of(const bench_case *c, const trained *want, int rank, int step, counts *n)
{
    static double hazards[MOST_WAITS];
    int64_t waits = name_waits(c, rank, step, hazards);
    n->total += waits;
    for (int64_t i = 0; i < waits; i++) {
        if (hazards[i] > 0.0) n->named++;
        else try_unnamed(c, want, (place){ rank, step, i }, n);
    }
}

/* Steps from `first` to the second; later ones are like that. Of the redundant waits rank 0's are printed: they stand before
 * transfers and kernels whose input is older than the wait is for (what backward gathers again, what was received before forward),
 * and stay because a queue follows all that was submitted before. */
static void leave_out(cut k, const char *recompute, int first)
{
    trained want;
    counts n = { 0 };
    bench_case c = layout_case(k, recompute);
    train_case(&want, &c, &(training){ .steps = STEPS });
    assert_true(want.hazards == 0.0);
    for (int step = first; step < 2; step++)
        for (int rank = 0; rank < world_ranks(); rank++) leave_out_of(&c, &want, rank, step, &n);
    if (world_rank() == 0)
        printf("# TP2 PP%d DP%d, recompute %s: %lld waits (%d ranks, %d steps) left out, %lld named by the hazard checker, "
               "%lld redundant\n",
               k.pipeline, k.data, recompute, (long long)n.total, world_ranks(), 2 - first, (long long)n.named, (long long)n.redundant);
    trained_close(&want);
    assert_int_equal(n.unproved, 0);
}

static const cut data_ranks = { 1, 2 }, stages = { 2, 1 }, both = { 2, 2 };

static void recompute_none(void **state) { (void)state; leave_out(data_ranks, "none", 0); }
static void recompute_layer(void **state) { (void)state; leave_out(data_ranks, "layer", 1); }
static void pipeline(void **state) { (void)state; leave_out(stages, "none", 1); }
static void pipeline_data(void **state) { (void)state; leave_out(both, "none", 1); }
static void pipeline_data_layer(void **state) { (void)state; leave_out(both, "layer", 1); }

/* What is named on paper is named in a run, too. */
static void named_in_a_run(void **state)
{
    trained want;
    bench_case c = layout_case(world_ranks() == 8 ? both : data_ranks, "none");
    int64_t waits = on_paper(&c, (place){ 0, 1, -1 }).waits, tried = 0, found = 0;
    (void)state;
    train_case(&want, &c, &(training){ .steps = STEPS });
    for (int64_t i = 0; i < waits; i += 10) {
        place p = { 0, 1, i };
        if (!on_paper(&c, p).hazards) continue;
        tried++;
        found += !same_bits(&c, &want, p);
    }
    if (world_rank() == 0)
        printf("# of %lld waits left out of a run, %lld are named or change numbers\n", (long long)tried, (long long)found);
    assert_int_equal(found, tried);
    trained_close(&want);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest four[] = {
        cmocka_unit_test(pipeline), cmocka_unit_test(recompute_none), cmocka_unit_test(recompute_layer),
        cmocka_unit_test(named_in_a_run),
    };
    const struct CMUnitTest eight[] = {
        cmocka_unit_test(pipeline_data), cmocka_unit_test(pipeline_data_layer), cmocka_unit_test(named_in_a_run),
    };
    int failed = world_ranks() == 8 ? cmocka_run_group_tests_name("waits", eight, NULL, NULL)
                                    : cmocka_run_group_tests_name("waits", four, NULL, NULL);
    world_stop();
    return failed;
}
