/* Leaves out every wait of a step once, in one step on one rank. Then the hazard checker must name two unordered
 * operations on the same bytes, or the wait is redundant (no hazard, and the same bits in hostile order). The layouts
 * are below. On eight ranks without `long`, each rank leaves out every fourth wait: the four ranks of a stage have the
 * same waits, so each is left out on one of them. */
#include "base/clock.h"
#include "left_out.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 3, SEEDS = 3, DECK = 1024, MOST_WAITS = 4096, MOST_RANKS = 8 };

/* name: of the test. Leaves out waits of the steps from `first` to the second; later steps have the same waits. */
typedef struct {
    int first;
    const char *name, *workload, *keys;
} layout;

#define TP2_DP2 "tensor = 2\ndata = 2\nprecision = fp32\n"
#define TP2_PP2 "tensor = 2\npipeline = 2\nprecision = fp32\n"
#define TP2_CP2 "tensor = 2\ncontext = 2\nstrips = 2\ncontext_gradients = bf16\n"
#define TP2_PP2_DP2 "tensor = 2\npipeline = 2\ndata = 2\nprecision = fp32\n"
#define TP2_S2_DP2 "tensor = 2\nshard = 2\ndata = 2\n"
#define EP2_TP2_PP2 "tensor = 2\npipeline = 2\ndata = 2\nexpert = 2\n"

#define FP8 "precision = fp8\n"

static const layout four[] = {
    { 1, "pipeline", "llama3.1-8b", TP2_PP2 "recompute = none\n" },
    { 1, "context_none", "llama3.1-8b", TP2_CP2 "recompute = none\n" },
    { 1, "context_layer", "llama3.1-8b", TP2_CP2 "recompute = layer\n" },
    { 0, "recompute_none", "llama3.1-8b", TP2_DP2 "recompute = none\n" },
    { 1, "recompute_layer", "llama3.1-8b", TP2_DP2 "recompute = layer\n" },
    { 1, "tied_stages", "gpt3-175b", TP2_PP2 "recompute = none\n" },
    { 1, "tied_one_stage", "gpt3-175b", "tensor = 2\ndata = 2\nrecompute = mlp\n" },
    { 1, "tied_chunks", "gpt3-175b", "tensor = 2\npipeline = 2\nchunks_per_stage = 2\nrecompute = elementwise\n" },
    { 1, "fp8_data", "llama3.1-8b", "tensor = 2\ndata = 2\n" FP8 "recompute = none\n" },
};
static const layout eight[] = {
    { 1, "pipeline_data", "llama3.1-8b", TP2_PP2_DP2 "recompute = none\n" },
    { 1, "pipeline_data_layer", "llama3.1-8b", TP2_PP2_DP2 "recompute = layer\n" },
    { 1, "shard_data", "llama3.1-8b", TP2_S2_DP2 "precision = fp32\nrecompute = none\n" },
    { 1, "shard_data_mlp", "llama3.1-8b", TP2_S2_DP2 "precision = fp32\nrecompute = attention_mlp\n" },
    { 1, "shard_data_llama2", "llama2-70b", TP2_S2_DP2 "recompute = none\n" },
    { 1, "shard_data_nemotron", "nemotron4-340b", TP2_S2_DP2 "recompute = attention\n" },
    { 1, "experts_fp32", "grok1-314b", EP2_TP2_PP2 "precision = fp32\nrecompute = none\n" },
    { 1, "experts_layer", "grok1-314b", EP2_TP2_PP2 "recompute = layer\n" },
    { 1, "experts_context", "grok1-314b",
      "tensor = 2\ncontext = 2\ndata = 2\nexpert = 4\ncapacity = none\nrecompute = mlp\n" },
    { 1, "fp8_context_layer", "llama3.1-8b", TP2_CP2 "data = 2\n" FP8 "recompute = layer\n" },
    { 1, "fp8_shard_data", "llama2-70b", TP2_S2_DP2 FP8 "recompute = none\n" },
    { 1, "fp8_experts_mlp", "grok1-314b", EP2_TP2_PP2 FP8 "recompute = mlp\n" },
};
enum { FOUR = sizeof four / sizeof four[0], EIGHT = sizeof eight / sizeof eight[0] };

static bench_case layout_case(const layout *l)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "waits\n\n[%s]\nsize = check\n%ssharding = optimizer\ncheck = off\nbackend = host\nwarmup = 0\n"
             "steps = %d\n",
             l->workload, l->keys, STEPS);
    return case_of(text, world_ranks());
}

/* Returns whether the bits are the same under every hostile seed if every rank leaves out its wait `own` of that step
 * (-1: none). Collective. */
static bool same_bits(const bench_case *c, const trained *want, int step, int64_t own)
{
    bool same = true;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        trained got;
        train_case(&got, c,
                   &(training){
                       .steps = STEPS, .hostile = true, .order_seed = seed, .drop_step = step, .drop_wait = own + 1 });
        size_t bytes = (size_t)want->base[want->rows] * sizeof(double);
        same = same && got.hazards == 0.0 && !memcmp(got.loss, want->loss, sizeof got.loss) &&
               !memcmp(got.norm, want->norm, sizeof got.norm) && !memcmp(got.weight, want->weight, bytes) &&
               !memcmp(got.last_gradient, want->last_gradient, bytes);
        trained_close(&got);
    }
    return same;
}

/* The same, if only one rank leaves the wait out. */
static bool same_bits_without(const bench_case *c, const trained *want, place p)
{
    return same_bits(c, want, p.step, world_rank() == p.rank ? p.index : -1);
}

typedef struct {
    int64_t total, named, redundant, unproved;
} counts;
typedef struct {
    int64_t count, wait[MOST_WAITS];
} unnamed; /* in one step of one rank: waits without a hazard */

static bool is_due(int rank, int64_t wait) { return test_is_long() || world_ranks() < 8 || (wait + rank) % 4 == 0; }

/* Divides the waits among the ranks. Collective. */
static void name_waits(const bench_case *c, int rank, int step, unnamed *u, counts *n)
{
    static double hazards[MOST_WAITS];
    paper whole = on_paper(c, STEPS, (place){ rank, step, -1 });
    assert_int_equal(whole.hazards.count, 0);
    assert_true(whole.waits > 0 && whole.waits <= MOST_WAITS);
    memset(hazards, 0, sizeof hazards);
    for (int64_t i = world_rank(); i < whole.waits; i += world_ranks())
        if (is_due(rank, i)) hazards[i] = (double)on_paper(c, STEPS, (place){ rank, step, i }).hazards.count;
    world_sum(hazards, whole.waits);
    u->count = 0;
    for (int64_t i = 0; i < whole.waits; i++) {
        if (!is_due(rank, i)) continue;
        n->total++;
        if (hazards[i] > 0.0) n->named++;
        else u->wait[u->count++] = i;
    }
}

static void tell(const bench_case *c, place p, bool redundant)
{
    const char *what = redundant ? "redundant" : "needed, and no hazard names it";
    if (world_rank() == 0 && (p.rank == 0 || !redundant))
        printf("# %s: wait %lld of rank %d, before %s\n", what, (long long)p.index, p.rank,
               on_paper(c, STEPS, p).before);
}

/* Tests waits without a hazard in runs: one wait of every rank at once; if the bits change, each wait alone. */
static void try_unnamed(const bench_case *c, const trained *want, int step, const unnamed *of, counts *n)
{
    int64_t most = 0;
    for (int rank = 0; rank < world_ranks(); rank++) most = of[rank].count > most ? of[rank].count : most;
    for (int64_t k = 0; k < most; k++) {
        const unnamed *own = &of[world_rank()];
        bool together = same_bits(c, want, step, k < own->count ? own->wait[k] : -1);
        for (int rank = 0; rank < world_ranks(); rank++) {
            if (k >= of[rank].count) continue;
            place p = { rank, step, of[rank].wait[k] };
            bool same = together || same_bits_without(c, want, p);
            n->redundant += same;
            n->unproved += !same;
            tell(c, p, same);
        }
    }
}

static void leave_out_of(const bench_case *c, const trained *want, int step, counts *n)
{
    static unnamed of[MOST_RANKS];
    for (int rank = 0; rank < world_ranks(); rank++) name_waits(c, rank, step, &of[rank], n);
    try_unnamed(c, want, step, of, n);
}

/* Prints rank 0's redundant waits. They precede transfers and kernels whose input is older than the wait (gathered
 * again in backward, or received before forward). They stay because a queue waits for everything submitted before. */
static void leave_out(void **state)
{
    const layout *l = *state;
    trained want;
    counts n = { 0 };
    bench_case c = layout_case(l);
    double began = clock_seconds();
    train_case(&want, &c, &(training){ .steps = STEPS });
    assert_true(want.hazards == 0.0);
    for (int step = l->first; step < 2; step++) leave_out_of(&c, &want, step, &n);
    if (world_rank() == 0)
        printf("# %s %s: %lld waits (%d ranks, %d steps) left out, %lld named by the hazard checker, %lld redundant, "
               "%.0f s\n",
               l->workload, l->name, (long long)n.total, world_ranks(), 2 - l->first, (long long)n.named,
               (long long)n.redundant, clock_seconds() - began);
    trained_close(&want);
    assert_int_equal(n.unproved, 0);
}

/* A hazard found on paper is also found in a run. */
static void named_in_a_run(void **state)
{
    trained want;
    bench_case c = layout_case(*state);
    int64_t waits = on_paper(&c, STEPS, (place){ 0, 1, -1 }).waits, tried = 0, found = 0;
    train_case(&want, &c, &(training){ .steps = STEPS });
    for (int64_t i = 0; i < waits; i += 10) {
        place p = { 0, 1, i };
        if (!on_paper(&c, STEPS, p).hazards.count) continue;
        tried++;
        found += !same_bits_without(&c, &want, p);
    }
    if (world_rank() == 0)
        printf("# of %lld waits left out of a run, %lld are named or change numbers\n", (long long)tried,
               (long long)found);
    assert_int_equal(found, tried);
    trained_close(&want);
}

/* FP8 on four ranks, and with `long` on eight. */
static bool runs(const layout *l)
{
    return !strstr(l->keys, FP8) || (world_ranks() == 8 ? test_is_long() : !tests_cuda());
}

static struct CMUnitTest test_of(const char *name, CMUnitTestFunction test, const layout *l)
{
    return (struct CMUnitTest){ name, test, NULL, NULL, (void *)(uintptr_t)l };
}

/* Lists one test per layout, then one per run. Returns their number. */
static int list_tests(struct CMUnitTest *tests, const layout *list, int count, const layout *run)
{
    int listed = 0;
    for (int i = 0; i < count; i++)
        if (runs(&list[i])) tests[listed++] = test_of(list[i].name, leave_out, &list[i]);
    tests[listed++] = test_of("named_in_a_run", named_in_a_run, run);
    return listed;
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[FOUR + EIGHT + 1];
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int count =
        world_ranks() == 8 ? list_tests(tests, eight, EIGHT, &eight[0]) : list_tests(tests, four, FOUR, &four[3]);
    int failed = _cmocka_run_group_tests("waits", tests, (size_t)count, NULL, NULL);
    world_stop();
    return failed;
}
