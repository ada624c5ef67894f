/* Trains models in every layout on emulated devices and compares them with the same layout on the host. Losses, norms,
 * gradients and weights are within the limits of bench/check/check.h; no hazard; gathered weights equal the owners';
 * the bits do not depend on the order of the devices' work. If experts were chosen differently, the reference is one
 * rank with the devices' choices. Runs a quarter of a list of layouts (by the day), every second one below 8 ranks in 2
 * orders; `long`: all in 10 orders, plus every cut x sharding x overlap with two recompute masks each. Runs layouts for
 * exactly the number of ranks. EMULATOR_SEED: the first order; EMULATOR_WORKLOAD=NAME: only this one. */
#include "emulator.h"
#include "units/train/agreement.h"

enum { ORDERS = 2, ORDERS_LONG = 10, STEPS = 2, STEPS_BF16 = 4, DECK = 2048, MOST_LAYOUTS = 640, KEY_BYTES = 256 };

typedef struct {
    int ranks;
    const char *workload;
    char keys[KEY_BYTES];
} layout;

/* Every cut once, combined with varying precisions, masks, shardings and overlap. */
static const layout chosen[] = {
    { 1, "llama3.1-70b", "recompute = attention; layers = 2" },
    { 1, "llama2-70b", "precision = bf16; recompute = attention_mlp; microbatch = 2" },
    { 1, "gpt3-175b", "recompute = elementwise" },
    { 1, "grok1-314b", "precision = bf16; capacity = none; recompute = mlp" },
    { 2, "llama3.1-70b", "tensor = 2; strips = 4; recompute = mlp" },
    { 2, "llama2-70b", "context = 2; recompute = layer; context_gradients = bf16" },
    { 2, "llama3.1-70b", "pipeline = 2; chunks_per_stage = 3; layers = 6; recompute = attention_mlp" },
    { 2, "nemotron4-340b", "precision = bf16; shard = 2; recompute = attention_mlp" },
    { 2, "gpt3-175b", "precision = bf16; pipeline = 2; recompute = attention_mlp" },
    { 2, "grok1-314b", "expert = 2; data = 2; recompute = attention_mlp" },
    { 2, "grok1-314b", "precision = bf16; expert = 2; context = 2; sharding = optimizer" },
    { 3, "llama3.1-70b", "data = 3; sharding = optimizer" },
    { 3, "gpt3-175b", "data = 3; sharding = optimizer; recompute = mlp; global_batch = 3" },
    { 4, "llama2-70b", "shard = 2; pipeline = 2; chunks_per_stage = 2; layers = 6; recompute = attention_mlp" },
    { 4, "llama3.1-70b", "tensor = 4; vocabulary = 130; overlap = off; recompute = layer; global_batch = 1" },
    { 4, "llama2-70b", "tensor = 2; data = 2; sharding = optimizer; recompute = attention; microbatch = 2" },
    { 4, "llama3.1-70b",
      "precision = bf16; tensor = 2; context = 2; strips = 2; context_gradients = bf16; recompute = elementwise" },
    { 4, "llama2-70b", "pipeline = 4; schedule = gpipe; layers = 6; recompute = layer" },
    { 4, "nemotron4-340b", "tensor = 2; pipeline = 2; chunks_per_stage = 2; layers = 2; strips = 2" },
    { 4, "gpt3-175b", "context = 2; tensor = 2; strips = 2; sharding = optimizer" },
    { 4, "grok1-314b", "shard = 2; data = 2; recompute = layer" },
    { 4, "grok1-314b", "precision = bf16; data = 4; expert = 4; sharding = optimizer; recompute = layer" },
    { 5, "llama2-70b", "data = 5; sharding = optimizer; recompute = layer; global_batch = 5" },
    { 6, "grok1-314b", "tensor = 2; data = 3; sharding = optimizer; recompute = attention; global_batch = 3" },
    { 7, "llama3.1-70b", "precision = bf16; data = 7; sharding = optimizer; global_batch = 7" },
    { 8, "llama2-70b", "tensor = 8; recompute = attention; global_batch = 1" },
    { 8, "llama3.1-70b", "context = 8; sharding = optimizer; recompute = layer; global_batch = 1" },
    { 8, "llama3.1-70b", "shard = 8; global_batch = 8" },
    { 8, "llama3.1-70b",
      "tensor = 2; data = 2; pipeline = 2; chunks_per_stage = 2; layers = 6; sharding = none; recompute = layer" },
    { 8, "nemotron4-340b", "precision = bf16; shard = 2; data = 2; tensor = 2; global_batch = 8" },
    { 8, "gpt3-175b", "precision = bf16; tensor = 2; data = 2; pipeline = 2; sharding = optimizer" },
    { 8, "grok1-314b", "tensor = 2; data = 2; context = 2; expert = 2; sharding = optimizer" },
    { 8, "llama2-70b",
      "tensor = 2; context = 2; pipeline = 2; strips = 4; sharding = optimizer; recompute = elementwise" },
};
enum { CHOSEN = sizeof chosen / sizeof chosen[0] };

/* --- Every way ------------------------------------------------------------------------------------------------- */

typedef struct {
    int ranks;
    bool tensor, shards, pipeline;
    const char *keys;
} cut;
static const cut cuts[] = {
    { 1, false, false, false, "layers = 2" },
    { 2, true, false, false, "tensor = 2" },
    { 4, true, false, false, "tensor = 4" },
    { 8, true, false, false, "tensor = 8; global_batch = 2" },
    { 8, false, true, false, "data = 8; global_batch = 8" },
    { 4, true, true, false, "tensor = 2; data = 2" },
    { 8, true, true, false, "tensor = 4; data = 2" },
    { 2, false, true, false, "context = 2" },
    { 4, false, true, false, "context = 4" },
    { 4, true, true, false, "tensor = 2; context = 2" },
    { 4, false, true, false, "data = 2; context = 2" },
    { 8, true, true, false, "tensor = 2; data = 2; context = 2" },
    { 2, false, false, false, "shard = 2" },
    { 8, true, true, false, "shard = 2; data = 2; tensor = 2; global_batch = 8" },
    { 4, false, true, false, "shard = 2; context = 2" },
    { 8, true, false, true, "shard = 2; tensor = 2; pipeline = 2; chunks_per_stage = 2; layers = 6" },
    { 8, false, false, true, "pipeline = 8; layers = 6" },
    { 8, false, false, true, "pipeline = 4; chunks_per_stage = 2; layers = 6" },
    { 4, false, false, true, "pipeline = 4; schedule = gpipe; layers = 6" },
    { 2, false, false, true, "pipeline = 2; chunks_per_stage = 3; layers = 6" },
    { 8, true, true, true, "tensor = 2; context = 2; pipeline = 2; layers = 6" },
    { 8, true, true, true, "tensor = 2; data = 2; pipeline = 2; layers = 6" },
    { 8, true, true, true, "tensor = 2; data = 2; pipeline = 2; chunks_per_stage = 2; layers = 6" },
    { 8, true, false, true, "tensor = 2; pipeline = 4; schedule = gpipe; layers = 6" },
};
/* Additional cuts for experts. */
static const cut expert_cuts[] = {
    { 2, false, true, false, "data = 2; expert = 2" },
    { 4, true, true, false, "tensor = 2; context = 2; expert = 2" },
    { 4, false, true, false, "data = 4; expert = 4; capacity = none" },
    { 8, true, true, false, "data = 2; tensor = 2; context = 2; expert = 4" },
    { 8, true, true, true, "data = 2; expert = 2; tensor = 2; pipeline = 2; chunks_per_stage = 2; layers = 6" },
};
enum { CUTS = sizeof cuts / sizeof cuts[0], EXPERT_CUTS = sizeof expert_cuts / sizeof expert_cuts[0], MASKS = 7 };
static const char *const masks[] = {
    "none", "attention", "mlp", "layer", "attention_mlp", "elementwise", "attention_elementwise"
};
static const char *const shardings[] = { "none", "optimizer" }, *const overlaps[] = { "on", "off" };
static const char *const precisions[] = { "fp32", "bf16" };
static const char *const workloads[] = { "llama3.1-70b", "llama2-70b", "nemotron4-340b", "gpt3-175b", "grok1-314b" };
enum { WORKLOADS = 5 };

/* Adds two masks each, in turn: recomputation runs the same kernels, and the host's tests use every mask. Workloads
 * alternate; every third layout is BF16; strips are 1, 2 and 4 in turn. */
static void add_ways(const cut *k, layout *list, int *count)
{
    for (int turn = 0; turn < 2; turn++)
        for (int sharding = 0; sharding <= k->shards; sharding++)
            for (int overlap = 0; overlap <= (k->tensor || k->pipeline); overlap++) {
                int i = (*count)++;
                if (i >= MOST_LAYOUTS) FAIL("more than %d layouts", MOST_LAYOUTS);
                list[i] =
                    (layout){ .ranks = k->ranks, .workload = workloads[strstr(k->keys, "expert") ? 4 : i % WORKLOADS] };
                snprintf(list[i].keys, KEY_BYTES,
                         "precision = %s; %s; recompute = %s; sharding = %s; overlap = %s; strips = %d",
                         precisions[i / WORKLOADS % 3 == 2], k->keys, masks[(i + 3 * turn) % MASKS],
                         shardings[sharding], overlaps[overlap], 1 << i % 3);
            }
}

static layout list[MOST_LAYOUTS];

static int list_layouts(void)
{
    int count = 0;
    for (int i = 0; i < CHOSEN; i++) list[count++] = chosen[i];
    for (int i = 0; i < CUTS && test_is_long(); i++) add_ways(&cuts[i], list, &count);
    for (int i = 0; i < EXPERT_CUTS && test_is_long(); i++) add_ways(&expert_cuts[i], list, &count);
    return count;
}

/* --- One layout ------------------------------------------------------------------------------------------------ */

static bench_case case_on(const layout *l, case_backend backend)
{
    char text[DECK];
    int length = snprintf(text, sizeof text,
                          "layouts\n\n[%s]\nsize = check\nsequence = 32\ntokens = uniform\nwarmup = 0\n"
                          "steps = %d\ncheck = off\nbackend = cuda\n%s%s%s\n",
                          l->workload, STEPS_BF16, strstr(l->keys, "precision") ? "" : "precision = fp32\n",
                          strstr(l->keys, "layers") ? "" : "layers = 2\n", l->keys);
    for (int i = 0; i < length; i++)
        if (text[i] == ';') text[i] = '\n';
    bench_case c = case_of(text, world_ranks());
    init_as_checked(&c);
    c.backend = backend;
    return c;
}

/* The limits of weights are for the four steps of the check. Adam's first updates are nearly signs, which BF16 flips
 * more often: after two steps weights differ more, relative to their change. FP32 is far below its limits after two
 * steps. */
static int steps_of(const bench_case *c) { return c->precision == PRECISION_BF16 ? STEPS_BF16 : STEPS; }

/* Returns whether the run is within the limits. The limits are for distances to one rank, whose order of sums differs
 * as on devices. */
static bool agrees(const bench_case *c, const trained *got, const trained *host)
{
    trained one;
    bench_case alone = alone_of(c);
    bool alike = same_decisions(got, host);
    if (!alike) train_following(&one, &alone, got);
    spreads s = { .from[0] = spread_of(got, alike ? host : &one) };
    print_spread(c, "", &s, 0);
    if (!alike) trained_close(&one);
    return spread_in_limits(&s.from[0], c, false) < 1.0;
}

static bool same_bits(const trained *a, const trained *b)
{
    size_t bytes = (size_t)a->base[a->rows] * sizeof(double);
    return !memcmp(a->loss, b->loss, sizeof a->loss) && !memcmp(a->norm, b->norm, sizeof a->norm) &&
           !memcmp(a->gradient, b->gradient, bytes) && !memcmp(a->last_gradient, b->last_gradient, bytes) &&
           !memcmp(a->weight, b->weight, bytes);
}

/* Returns the number of orders to train in. */
static unsigned orders_of(const layout *l)
{
    if (l >= list + CHOSEN) return 1;
    if (test_is_long()) return ORDERS_LONG;
    return l->ranks < 8 && (l - list) % 2 == 0 ? ORDERS : 1;
}

/* Each layout uses different orders. */
static unsigned first_order(const layout *l)
{
    const char *given = getenv("EMULATOR_SEED");
    return (given ? (unsigned)strtoul(given, NULL, 10) : 1) + (unsigned)(l - list) * ORDERS_LONG;
}

/* Trains on devices and asserts properties of every run. */
static void train(trained *x, const bench_case *c, unsigned order)
{
    emulator_seed(order * 64u + (unsigned)world_rank());
    train_case(x, c, &(training){ .steps = steps_of(c) });
    hold_alone(x);
}

static void train_layout(void **state)
{
    const layout *l = *state;
    trained host, first, other;
    bench_case c = case_on(l, BACKEND_HOST), on_devices = case_on(l, BACKEND_CUDA);
    assert_int_equal(c.layout.ranks, world_ranks());
    train_case(&host, &c, &(training){ .steps = steps_of(&c) });
    train(&first, &on_devices, first_order(l));
    assert_true(agrees(&c, &first, &host));
    for (unsigned i = 1; i < orders_of(l); i++) {
        train(&other, &on_devices, first_order(l) + i);
        assert_true(same_bits(&other, &first));
        trained_close(&other);
    }
    trained_close(&first);
    trained_close(&host);
}

/* Selects a quarter per day of the layouts for this number of ranks, at least one. */
static bool is_turn(int i, uint32_t seed)
{
    uint32_t before = 0, all = 0;
    for (int k = 0; k < CHOSEN; k++)
        if (list[k].ranks == list[i].ranks) all++, before += k < i;
    uint32_t turns = all < 4 ? all : 4;
    return before % turns == seed % turns;
}

static bool is_due(int i, uint32_t seed)
{
    const char *only = getenv("EMULATOR_WORKLOAD");
    if (list[i].ranks != world_ranks() || (only && strcmp(only, list[i].workload))) return false;
    return test_is_long() || is_turn(i, seed);
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[MOST_LAYOUTS];
    int count = list_layouts(), taken = 0;
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    uint32_t seed = seed_of_test();
    for (int i = 0; i < count; i++)
        if (is_due(i, seed))
            tests[taken++] =
                (struct CMUnitTest){ .name = list[i].keys, .test_func = train_layout, .initial_state = &list[i] };
    int failed = _cmocka_run_group_tests("agreement_layouts", tests, (size_t)taken, NULL, NULL);
    world_stop();
    return failed;
}
