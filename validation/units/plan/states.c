/* Compares the memory of each rank with the table of parameters and with values by hand. (units/bench/dry_run_ranks.c
 * and program/dry_run.t check that the ranks' flops and parameters add up to the model's.) */
#include "deck_source.h"
#include "model/param.h"
#include "plan/model/rank_share.h"
#include <stdlib.h>

static void is_near(size_t found, int64_t expected, int64_t padding)
{
    if (llabs((long long)found - expected) > padding) fail_msg("%zu bytes, %lld by hand", found, (long long)expected);
}

/* Checks the bytes of the first rank of a stage. The table of parameters rounds each bucket up to 32 elements per owner
 * and part, and each array of a bucket up to 64 bytes. */
static void expect_states(const bench_case *c, int stage, int64_t weights, int64_t gradients, int64_t optimizer)
{
    mesh m;
    arena a;
    param_table t;
    arena_open(&a, NULL, 0);
    mesh_open(&m, &c->layout, stage * (c->layout.ranks / c->layout.degree[AXIS_PIPELINE]), MESH_PAPER);
    param_table_open(&t, c, &m, &a);
    int64_t owners = m.gradient.size, padding = t.bucket_count * 32 * owners * m.axis[AXIS_SHARD].size,
            align = 64 * 6 * t.bucket_count;
    is_near(a.by_kind[WEIGHTS], weights, padding * 4 + align);
    is_near(a.by_kind[GRADIENTS], gradients, padding * 8 + align);
    is_near(a.by_kind[OPTIMIZER], optimizer, padding / owners * 12 + align);
    param_table_close(&t);
    mesh_close(&m);
}

/* By hand: a middle stage of grok (8 layers, one of 8 experts), and 1/64 of llama 2, where each rank holds all gains,
 * but only a part of their optimizer state. FP32 gradients need no second copy for sums over tensor ranks. */
static void states_by_hand(void **state)
{
    bench_case grok = case_of("[grok1-314b]\nsize = full\n", 512, true),
               llama2 = case_of("[llama2-70b]\nsize = full\n", 64, true);
    int64_t expert = 8 * 3 * 6144ll * 32768 / 4, attention = 8 * 6144ll * (2 * 1536 + 2 * 256),
            small = 8 * (2 + 8) * 6144ll, held = expert + attention + small;
    expect_states(&grok, 1, 2 * held, 2 * held + 4 * small, 12 * (expert / 2 + attention / 16 + small / 16));
    int64_t part = model_parameters(&llama2.model) / 64, gains = 63 * 161 * 8192ll / 64;
    expect_states(&llama2, 0, 2 * (part + gains), 4 * (part + gains), 12 * part);
}

/* By hand: FP8 nemotron has a BF16 master only for its FP8 weights, which are stored twice. 12 layers per stage, FP32
 * embedding, BF16 norms, BF16 gradients with FP32 sums of the norms, two data ranks. */
static void masters_by_hand(void **state)
{
    bench_case c = case_of("[nemotron4-340b]\nsize = full\nprecision = fp8\n", 128, true);
    int64_t h = 18432, matrices = 12 * h * (2 * 12 * 192 + 2 * 192 + 2 * 73728 / 8), norms = 12 * 4 * h,
            table = 32000 * h;
    expect_states(&c, 3, 2 * (matrices + norms), 2 * matrices + 6 * norms, (6 * matrices + 4 * norms) / 2);
    expect_states(&c, 0, 2 * (matrices + norms) + 4 * table, 2 * (matrices + table) + 6 * norms,
                  (6 * matrices + 4 * (norms + table)) / 2);
}

/* By hand: GPT-3's gradients are FP32 and need no separate sums. The last stage receives the gradient of the tied
 * table; a stage that uses the table twice has two. */
static void gradients_by_hand(void **state)
{
    bench_case whole = case_of("[gpt3-175b]\nsize = full\n", 64, true),
               small = case_of("[gpt3-52k]\nsize = full\ntensor = 1\n", 1, true);
    int64_t h = 12288, layers = 12 * (4 * 1536 * h + 2 * 6144 * h + 3 * 1536 + 6144 + 4 * h + 2 * h),
            held = layers + (6400 + 16384) * h;
    expect_states(&whole, 0, 2 * held, 4 * (held + 6400 * h), 12 * held);
    expect_states(&small, 0, 2 * 75424, 4 * (75424 + 1024 * 16), 12 * 75424);
}

enum { MOST_ELEMENTS = 1 << 20 };

/* Counts how often the active ranks own each element of the model. Elements are numbered by logical row. */
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

/* Over all ranks of a mesh, the owned runs cover the whole model, each element once. */
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
        cmocka_unit_test(states_by_hand),
        cmocka_unit_test(masters_by_hand),
        cmocka_unit_test(gradients_by_hand),
        cmocka_unit_test(owned_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
