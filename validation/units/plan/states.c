/* What each rank holds, against the table of parameters and by hand. That all ranks' flops and parameters are the
 * model's is held by units/bench/dry_run_ranks.c, and for every cell of the recipes by program/dry_run.t. */
#include "deck_source.h"
#include "model/param.h"
#include "plan/model/rank_share.h"

static int64_t distance(size_t a, int64_t b) { return (int64_t)a > b ? (int64_t)a - b : b - (int64_t)a; }

/* The table of parameters rounds each bucket up to 32 elements for every owner of every part. */
static void agrees_with_the_table(const bench_case *c, int tensor_rank)
{
    mesh m;
    arena a;
    param_table t;
    arena_open(&a, NULL, 0);
    mesh_open(&m, &c->layout, tensor_rank, MESH_PAPER);
    param_table_open(&t, c, &m, &a);
    rank_states s = states_of(c, m.at);
    int64_t owners = m.gradient.size, padding = t.bucket_count * 32 * owners * m.axis[AXIS_SHARD].size,
            align = 64 * 6 * t.bucket_count;
    assert_int_equal(s.parameters, param_count_local(&t));
    assert_true(distance(a.by_kind[WEIGHTS], s.weights) <= padding * 4 + align);
    assert_true(distance(a.by_kind[GRADIENTS], s.gradients) <= padding * 8 + align);
    assert_true(distance(a.by_kind[OPTIMIZER], s.optimizer) <= padding / owners * 12 + align);
    param_table_close(&t);
    mesh_close(&m);
}

static void agrees_where_it_is_built(void **state)
{
    static const char *const decks[] = {
        "[llama3.1-8b]\nsize = full\ndata = 8\n",
        "[llama3.1-8b]\nsize = full\ndata = 8\nsharding = none\n",
        "[llama3.1-8b]\nsize = full\ndata = 8\nprecision = fp32\n",
        "[llama3.1-8b]\nsize = full\n",
        "[llama3.1-70b]\nsize = full\ntensor = 4\n",
        "[llama3.1-405b]\nsize = full\ntensor = 8\n",
        "[llama3.1-405b]\nsize = full\nlayers = 8\n",
        "[llama2-70b]\nsize = full\ntensor = 8\nsharding = optimizer\n",
        "[llama2-70b]\nsize = full\ntensor = 8\n",
        "[llama2-70b]\nsize = full\n",
        "[llama2-70b]\nsize = full\nshard = 16\ntensor = 2\nsharding = optimizer\n",
        "[llama3.1-70b]\nsize = full\nshard = 8\ntensor = 2\npipeline = 2\n",
        "[nemotron4-340b]\nsize = full\ntensor = 8\npipeline = 8\n",
        "[grok1-314b]\nsize = full\n",
        "[grok1-314b]\nsize = full\nshard = 8\ntensor = 2\n",
        "[gpt3-175b]\nsize = full\n",
        "[gpt3-175b]\nsize = full\nshard = 8\ntensor = 4\n",
        "[gpt3-175b]\nsize = full\nshard = 8\ntensor = 2\npipeline = 2\nsharding = optimizer\n",
    };
    for (size_t i = 0; i < sizeof decks / sizeof decks[0]; i++) {
        bench_case c = case_of(decks[i], 64, true);
        agrees_with_the_table(&c, 0);
        agrees_with_the_table(&c, c.layout.degree[AXIS_TENSOR] - 1);
    }
}

/* By hand: a middle stage of grok (8 layers, one of 8 experts), a 64th of llama 2, a stage of nemotron. */
static void states_by_hand(void **state)
{
    bench_case grok = case_of("[grok1-314b]\nsize = full\n", 512, true),
               llama2 = case_of("[llama2-70b]\nsize = full\n", 64, true);
    bench_case nemotron = case_of("[nemotron4-340b]\nsize = full\n", 128, true);
    rank_states g = states_of(&grok, (int[AXES]){ [AXIS_PIPELINE] = 1 }), l = states_of(&llama2, (int[AXES]){ 0 }),
                n = states_of(&nemotron, (int[AXES]){ [AXIS_PIPELINE] = 1 });
    int64_t expert = 8 * 3 * 6144ll * 32768 / 4, attention = 8 * 6144ll * (2 * 1536 + 2 * 256),
            small = 8 * (2 + 8) * 6144ll;
    assert_int_equal(g.experts, expert);
    assert_int_equal(g.parameters, expert + attention + small);
    assert_int_equal(g.replicated, small);
    assert_int_equal(g.weights, 2 * g.parameters);
    assert_int_equal(g.gradients, 2 * g.parameters + 4 * small);
    assert_int_equal(g.optimizer, 12 * (expert / 2 + attention / 16 + small / 16)); /* data 8 x context 2 */
    assert_int_equal(l.parameters * 64, model_parameters(&llama2.model));
    int64_t others = 63 * 161 * 8192ll / 64; /* gains, of which weights and gradients are whole */
    assert_int_equal(l.weights, 2 * (l.parameters + others));
    assert_int_equal(l.gradients,
                     4 * (l.parameters + others)); /* FP32 sums: those of the gains over tensor ranks need no others */
    assert_int_equal(l.optimizer, 12 * l.parameters);
    assert_int_equal(n.optimizer, 4 * n.parameters / 2); /* no master, BF16 moments, two data ranks */
}

/* By hand: FP8 nemotron has a BF16 master of its FP8 weights alone; 12 layers a stage, FP32 embedding, BF16 head and
 * norms. */
static void masters_by_hand(void **state)
{
    bench_case c = case_of("[nemotron4-340b]\nsize = full\nprecision = fp8\n", 128, true);
    int64_t h = 18432, matrices = 12 * h * (2 * 12 * 192 + 2 * 192 + 2 * 73728 / 8), norms = 12 * 4 * h,
            table = 32000 * h;
    rank_states first = states_of(&c, (int[AXES]){ 0 }), middle = states_of(&c, (int[AXES]){ [AXIS_PIPELINE] = 3 }),
                last = states_of(&c, (int[AXES]){ [AXIS_PIPELINE] = 7 });
    assert_int_equal(first.optimizer, (6 * matrices + 4 * (norms + table)) / 2); /* two data ranks */
    assert_int_equal(middle.optimizer, (6 * matrices + 4 * norms) / 2);
    assert_int_equal(last.optimizer, (6 * matrices + 4 * (norms + table + 2 * h)) / 2);
    assert_int_equal(first.weights, 2 * (matrices + norms) + 4 * table);
    assert_int_equal(last.weights, 2 * (matrices + norms + table + 2 * h));
}

/* By hand: GPT-3's gradients are FP32 and need no sums beside them; a table that one stage uses twice has two. */
static void gradients_by_hand(void **state)
{
    bench_case whole = case_of("[gpt3-175b]\nsize = full\n", 64, true),
               small = case_of("[gpt3-52k]\nsize = full\ntensor = 1\n", 1, true),
               cut = case_of("[gpt3-52k]\nsize = full\npipeline = 2\n", 2, true);
    int64_t h = 12288, split = 4 * 1536 * h + 2 * 6144 * h + 3 * 1536 + 6144, every = 4 * h + 2 * h,
            tables = (6400 + 6400 + 16384) * h; /* the last stage's of the tied table is received */
    rank_states first = states_of(&whole, (int[AXES]){ 0 }), one = states_of(&small, (int[AXES]){ 0 });
    assert_int_equal(first.gradients, 4 * (12 * (split + every) + tables));
    assert_int_equal(one.gradients, 4 * (75424 + 1024 * 16));
    assert_int_equal(one.weights, 2 * 75424);
    assert_int_equal(one.optimizer, 12 * 75424);
    int64_t halves = 0;
    for (int stage = 0; stage < 2; stage++) halves += states_of(&cut, (int[AXES]){ [AXIS_PIPELINE] = stage }).gradients;
    assert_int_equal(halves, one.gradients + 2 * 4 * 1024 * 16); /* each end receives the other's */
}

enum { MOST_ELEMENTS = 1 << 20 };

/* How often the ranks that speak own each element of the model; rows lie one behind another, by their logical number.
 */
static void count_owned(const bench_case *c, int rank, unsigned char *times, int64_t *elements)
{
    mesh m;
    arena a;
    param_table t;
    arena_open(&a, NULL, 0);
    mesh_open(&m, &c->layout, rank, MESH_PAPER);
    param_table_open(&t, c, &m, &a);
    for (int i = 0; i < t.rows; i++) {
        const param *p = &t.row[i];
        int64_t base = (int64_t)p->logical * (MOST_ELEMENTS / 64), whole = p->rule.rows * p->rule.columns;
        assert_true(p->logical < 64 && whole <= MOST_ELEMENTS / 64);
        elements[p->logical] = whole;
        fragment f = param_owned(&t, i);
        for (param_run r = { 0 }; bucket_first_owner(&t.buckets[p->bucket]) && param_next_run(p, f, &r);)
            for (int64_t k = 0; r.logical >= 0 && k < r.count; k++) times[base + r.logical + k]++;
    }
    param_table_close(&t);
    mesh_close(&m);
}

/* Over all ranks of a mesh the runs of what they own are the whole model, each element once. */
static void owned_once(void **state)
{
    static const char *const spread[] = { "data = 3\nsharding = none", "data = 3\nsharding = optimizer",
                                          "shard = 3\nsharding = none", "shard = 3\ndata = 2\nsharding = optimizer" };
    static unsigned char times[MOST_ELEMENTS];
    for (int i = 0; i < 4; i++) {
        char body[160];
        int64_t elements[64] = { 0 }, parameters = 0;
        snprintf(body, sizeof body, "[llama3.1-8b]\nsize = check\ntensor = 2\npipeline = 2\n%s\n", spread[i]);
        bench_case c = case_of(body, 24, true);
        memset(times, 0, sizeof times);
        for (int rank = 0; rank < c.layout.ranks; rank++) count_owned(&c, rank, times, elements);
        for (int row = 0; row < 64; row++) {
            parameters += elements[row];
            for (int64_t k = 0; k < elements[row]; k++) assert_int_equal(times[row * (MOST_ELEMENTS / 64) + k], 1);
        }
        assert_int_equal(parameters, model_parameters(&c.model));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_where_it_is_built), cmocka_unit_test(states_by_hand), cmocka_unit_test(masters_by_hand),
        cmocka_unit_test(gradients_by_hand),        cmocka_unit_test(owned_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
