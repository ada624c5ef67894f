/* Agreement of a mixture of experts: one small case cut every way, against one rank, which takes the case's choices
 * where they differ (agreement.h). Without a capacity; with one where its groups are one rank's or where the one rank
 * has the layout's; and with one that drops nothing, against none. */
#include "agreement.h"

enum { STEPS = 4, RANKS = 8, DECK = 1024, BATCH_SEQUENCES = 8, LAYERS = 2, PIPELINED = 6 };

static bench_case case_for(const char *precision, int layers, const char *capacity, const char *keys)
{
    char text[DECK];
    int length =
        snprintf(text, sizeof text,
                 "experts\n\n[grok1-314b]\nsize = small\nhidden = 64\nffn = 64\nheads = 16\nkv_heads = 8\n"
                 "sequence = 64\nvocabulary = 250\nwarmup = 0\nsteps = %d\ntokens = uniform\ncheck = off\n"
                 "backend = host\nglobal_batch = %d\nprecision = %s\nlayers = %d\ncapacity = %s\n%s%s\n",
                 STEPS, BATCH_SEQUENCES, precision, layers, capacity, strstr(keys, "data") ? "" : "data = 1\n", keys);
    for (int i = 0; i < length; i++)
        if (text[i] == ';') text[i] = '\n';
    bench_case c = case_of(text, RANKS);
    init_as_checked(&c);
    return c;
}

/* groups: of whose ranks tokens compete. */
static references reference_of(const char *precision, int layers, const char *capacity, capacity_groups groups)
{
    references r;
    bench_case alone = case_for(precision, layers, capacity, "micro_batch = 1; recompute = none");
    alone.capacity_groups = groups;
    references_train(&r, &alone, STEPS);
    return r;
}

static const capacity_groups one_group = { 0 };

/* The first of each list in `make check`. */
static const char *const cuts[] = {
    "expert = 2; tensor = 2; context = 2",
    "overlap = off",
    "data = 2; expert = 2",
    "data = 4; expert = 4",
    "data = 8; expert = 8",
    "data = 8; expert = 2",
    "tensor = 2",
    "tensor = 8",
    "context = 2; expert = 2",
    "context = 8; expert = 4",
    "data = 2; context = 2; expert = 4",
    "data = 2; tensor = 2; expert = 2",
    "data = 2; tensor = 4; expert = 2; overlap = off",
    "data = 2; tensor = 2; context = 2; expert = 4",
    "data = 2; tensor = 2; context = 2; expert = 2; weight_gradient_queue = off",
    "data = 2; micro_batch = 2; expert = 2",
    "shard = 2",
    "shard = 4",
    "shard = 8",
    "shard = 2; data = 2; tensor = 2",
    "shard = 2; context = 2; tensor = 2",
};
static const char *const pipelines[] = {
    "data = 2; expert = 2; pipeline = 2; chunks_per_stage = 3",
    "pipeline = 8",
    "data = 2; expert = 2; pipeline = 4; chunks_per_stage = 2",
    "data = 2; expert = 2; pipeline = 4; schedule = gpipe",
    "data = 4; expert = 4; pipeline = 2",
    "context = 2; tensor = 2; expert = 2; pipeline = 2; chunks_per_stage = 4",
    "data = 2; tensor = 2; expert = 2; pipeline = 2",
    "shard = 2; pipeline = 2; chunks_per_stage = 3",
    "shard = 2; data = 2; pipeline = 2",
};
static const char *const every[] = {
    "none", "attention", "mlp", "layer", "attention_mlp", "elementwise", "attention_elementwise"
};
enum {
    CUTS = sizeof cuts / sizeof *cuts,
    PIPELINES = sizeof pipelines / sizeof *pipelines,
    MASKS = sizeof every / sizeof *every
};

/* Of a cut's masks one, by turns, with a sharding and a number of strips; `long`: all. */
static void cut_every_way(const char *precision, int layers, const char *const *list, int count)
{
    references r = reference_of(precision, layers, "none", one_group);
    int turn = strcmp(precision, "fp32") ? 1 : 2, masks = test_is_long() ? MASKS : 1;
    for (int k = 0; k < (test_is_long() ? count : 1); k++) {
        spreads worst = no_spread;
        bench_case c;
        char keys[DECK / 2], what[64];
        for (int m = 0; m < masks; m++) {
            snprintf(keys, sizeof keys, "%s; recompute = %s; sharding = %s; strips = %d", list[k],
                     every[(k + m + turn) % MASKS], m % 2 ? "none" : "optimizer", 1 << (k + m) % 3);
            c = case_for(precision, layers, "none", keys);
            compare_case(&worst, &c, (training){ 0 }, &r);
        }
        snprintf(what, sizeof what, ", %d recomputes", masks);
        judge(&c, what, &worst, r.count);
    }
    references_close(&r);
}

static void fp32(void **state)
{
    (void)state;
    cut_every_way("fp32", LAYERS, cuts, CUTS);
    cut_every_way("fp32", PIPELINED, pipelines, PIPELINES);
}
static void bf16(void **state)
{
    (void)state;
    cut_every_way("bf16", LAYERS, cuts, CUTS);
    cut_every_way("bf16", PIPELINED, pipelines, PIPELINES);
}

/* ---- capacities ---- */

typedef struct {
    const char *precision, *capacity;
    int layers;
    const char *keys;
} limited;

static double dropped_of(const trained *x)
{
    double all = 0.0;
    for (int64_t step = 0; step < x->steps; step++) all += x->dropped[step];
    return all;
}

/* A rank's microbatch is one sequence, as one rank's; or the one rank has the groups of the layout. */
static void capacities(void **state)
{
    static const limited list[] = {
        { "fp32", "0.5", LAYERS, "data = 2; expert = 2; recompute = layer" },
        { "bf16", "1", LAYERS, "expert = 2; tensor = 2; context = 2; recompute = mlp" },
        { "bf16", "1", PIPELINED, "data = 2; expert = 2; pipeline = 2; chunks_per_stage = 3" },
        { "fp32", "1", LAYERS, "data = 8; expert = 8" },
        { "fp32", "1", LAYERS, "data = 2; tensor = 2; expert = 2; strips = 4" },
        { "bf16", "1.25", LAYERS, "data = 4; expert = 4; recompute = attention_mlp" },
        { "bf16", "0.5", LAYERS, "context = 4; expert = 4" },
        { "bf16", "1", LAYERS, "shard = 4" },
        { "fp32", "1", PIPELINED, "data = 2; tensor = 2; expert = 2; pipeline = 2; recompute = elementwise" },
    };
    (void)state;
    for (int i = 0; i < (test_is_long() ? (int)(sizeof list / sizeof *list) : 2); i++) {
        const limited *l = &list[i];
        spreads found = no_spread;
        char what[64];
        bench_case c = case_for(l->precision, l->layers, l->capacity, l->keys);
        const int *degree = c.layout.degree;
        references r = reference_of(l->precision, l->layers, l->capacity,
                                    (capacity_groups){ degree[AXIS_TENSOR], degree[AXIS_CONTEXT], c.strips });
        assert_true(dropped_of(&r.of[0]) > 0.0);
        compare_case(&found, &c, (training){ 0 }, &r);
        snprintf(what, sizeof what, ", capacity %s, %g of one rank's choices dropped", l->capacity,
                 dropped_of(&r.of[0]));
        judge(&c, what, &found, r.count);
        references_close(&r);
    }
}

/* Rows beyond what is chosen are zero: a capacity that drops nothing is none, but for the order of sums over them. */
static void nothing_dropped(void **state)
{
    static const limited list[] = {
        { "fp32", "3", LAYERS, "expert = 2; tensor = 2; context = 2" },
        { "bf16", "2.5", LAYERS, "data = 2; expert = 2; recompute = layer" },
        { "bf16", "3", LAYERS, "data = 2; tensor = 2; expert = 2" },
        { "fp32", "2.5", PIPELINED, "data = 2; expert = 2; pipeline = 2; chunks_per_stage = 3" },
    };
    (void)state;
    for (int i = 0; i < (test_is_long() ? (int)(sizeof list / sizeof *list) : 1); i++) {
        const limited *l = &list[i];
        spreads found = no_spread;
        char what[64];
        references r = reference_of(l->precision, l->layers, "none", one_group);
        bench_case c = case_for(l->precision, l->layers, l->capacity, l->keys);
        compare_case(&found, &c, (training){ 0 }, &r);
        snprintf(what, sizeof what, ", capacity %s, nothing dropped", l->capacity);
        judge(&c, what, &found, r.count);
        references_close(&r);
    }
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(fp32), cmocka_unit_test(bf16), cmocka_unit_test(capacities),
                                        cmocka_unit_test(nothing_dropped) };
    int failed = cmocka_run_group_tests_name("agreement_experts", tests, NULL, NULL);
    world_stop();
    return failed;
}
