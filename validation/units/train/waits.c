/* Every wait of a step is left out once, in one step on one rank: the hazard checker names two operations that touch
 * the same bytes unordered, or the wait is shown to be redundant (no hazard, and the same bits in hostile order). On 4
 * ranks TP2 x DP2, TP2 x PP2 and, in two strips and BF16, TP2 x CP2, on 8 TP2 x PP2 x DP2 and TP2 x S2 x DP2; the
 * optimizer is sharded over data ranks. */
#include "left_out.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 3, SEEDS = 3, DECK = 1024, MOST_WAITS = 4096, MOST_RANKS = 8 };

typedef struct {
    int pipeline, data, context, shard;
} cut;

static bench_case layout_case(cut k, const char *recompute)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "waits\n\n[llama3.1-8b]\nsize = check\ntensor = 2\npipeline = %d\ndata = %d\ncontext = %d\nshard = %d\n"
             "sharding = optimizer\n"
             "%scheck = off\nbackend = host\nwarmup = 0\nsteps = %d\nrecompute = %s\n",
             k.pipeline, k.data, k.context, k.shard,
             k.context > 1 ? "strips = 2\ncontext_gradients = bf16\n" : "precision = fp32\n", STEPS, recompute);
    return case_of(text, world_ranks());
}

/* Does the run in which every rank leaves out its wait `own` of that step (-1: none) give the same bits under every
 * hostile seed? Collective. */
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

/* One rank leaves it out. */
static bool same_bits_without(const bench_case *c, const trained *want, place p)
{
    return same_bits(c, want, p.step, world_rank() == p.rank ? p.index : -1);
}

typedef struct {
    int64_t total, named, redundant, unproved;
} counts;
typedef struct {
    int64_t count, wait[MOST_WAITS];
} unnamed; /* of one rank in one step: no hazard names them */

/* The ranks share the work. Collective. */
static void name_waits(const bench_case *c, int rank, int step, unnamed *u, counts *n)
{
    static double hazards[MOST_WAITS];
    paper whole = on_paper(c, STEPS, (place){ rank, step, -1 });
    assert_int_equal(whole.hazards.count, 0);
    assert_true(whole.waits > 0 && whole.waits <= MOST_WAITS);
    memset(hazards, 0, sizeof hazards);
    for (int64_t i = world_rank(); i < whole.waits; i += world_ranks())
        hazards[i] = (double)on_paper(c, STEPS, (place){ rank, step, i }).hazards.count;
    world_sum(hazards, whole.waits);
    u->count = 0;
    for (int64_t i = 0; i < whole.waits; i++)
        if (hazards[i] == 0.0) u->wait[u->count++] = i;
    n->total += whole.waits;
    n->named += whole.waits - u->count;
}

static void tell(const bench_case *c, place p, bool redundant)
{
    const char *what = redundant ? "redundant" : "needed, and no hazard names it";
    if (world_rank() == 0 && (p.rank == 0 || !redundant))
        printf("# %s: wait %lld of rank %d, before %s\n", what, (long long)p.index, p.rank,
               on_paper(c, STEPS, p).before);
}

/* Waits that no hazard names are tried in runs: one of every rank at once, and, if that changes anything, each alone.
 */
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

/* Steps from `first` to the second; later ones are like that. Of the redundant waits rank 0's are printed: they stand
 * before transfers and kernels whose input is older than the wait is for (what backward gathers again, what was
 * received before forward), and stay because a queue follows all that was submitted before. */
static void leave_out(cut k, const char *recompute, int first)
{
    trained want;
    counts n = { 0 };
    bench_case c = layout_case(k, recompute);
    train_case(&want, &c, &(training){ .steps = STEPS });
    assert_true(want.hazards == 0.0);
    for (int step = first; step < 2; step++) leave_out_of(&c, &want, step, &n);
    if (world_rank() == 0)
        printf("# TP2 PP%d DP%d S%d CP%d, recompute %s: %lld waits (%d ranks, %d steps) left out, %lld named by the "
               "hazard "
               "checker, "
               "%lld redundant\n",
               k.pipeline, k.data, k.shard, k.context, recompute, (long long)n.total, world_ranks(), 2 - first,
               (long long)n.named, (long long)n.redundant);
    trained_close(&want);
    assert_int_equal(n.unproved, 0);
}

static const cut data_ranks = { 1, 2, 1, 1 }, stages = { 2, 1, 1, 1 }, both = { 2, 2, 1, 1 }, contexts = { 1, 1, 2, 1 },
                 shards = { 1, 2, 1, 2 };

static void recompute_none(void **state)
{
    (void)state;
    leave_out(data_ranks, "none", 0);
}
static void recompute_layer(void **state)
{
    (void)state;
    leave_out(data_ranks, "layer", 1);
}
static void pipeline(void **state)
{
    (void)state;
    leave_out(stages, "none", 1);
}
static void context_none(void **state)
{
    (void)state;
    leave_out(contexts, "none", 1);
}
static void context_layer(void **state)
{
    (void)state;
    leave_out(contexts, "layer", 1);
}
static void pipeline_data(void **state)
{
    (void)state;
    leave_out(both, "none", 1);
}
static void pipeline_data_layer(void **state)
{
    (void)state;
    leave_out(both, "layer", 1);
}

static void shard_data(void **state)
{
    (void)state;
    leave_out(shards, "none", 1);
}
static void shard_data_mlp(void **state)
{
    (void)state;
    leave_out(shards, "attention_mlp", 1);
}

/* What is named on paper is named in a run, too. */
static void named_in_a_run(void **state)
{
    trained want;
    bench_case c = layout_case(world_ranks() == 8 ? both : data_ranks, "none");
    int64_t waits = on_paper(&c, STEPS, (place){ 0, 1, -1 }).waits, tried = 0, found = 0;
    (void)state;
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

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest four[] = {
        cmocka_unit_test(pipeline),       cmocka_unit_test(context_none),    cmocka_unit_test(context_layer),
        cmocka_unit_test(recompute_none), cmocka_unit_test(recompute_layer), cmocka_unit_test(named_in_a_run),
    };
    const struct CMUnitTest eight[] = {
        cmocka_unit_test(pipeline_data),  cmocka_unit_test(pipeline_data_layer), cmocka_unit_test(shard_data),
        cmocka_unit_test(shard_data_mlp), cmocka_unit_test(named_in_a_run),
    };
    int failed = world_ranks() == 8 ? cmocka_run_group_tests_name("waits", eight, NULL, NULL)
                                    : cmocka_run_group_tests_name("waits", four, NULL, NULL);
    world_stop();
    return failed;
}
