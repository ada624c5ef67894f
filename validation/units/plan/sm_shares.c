/* How many SMs products leave free: by the layout, by the transfers of copy engines, and by the deck. */
#include "plan/model/sm_shares.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODE = 8, ALONE = 1 };

static bench_case laid_out(int tensor, int pipeline, int context, int expert, int shard)
{
    bench_case c = { .layout = { .degree = { [AXIS_TENSOR] = tensor,
                                             [AXIS_PIPELINE] = pipeline,
                                             [AXIS_CONTEXT] = context,
                                             [AXIS_SHARD] = shard,
                                             [AXIS_DATA] = 2 },
                                 .expert = expert,
                                 .chunks_per_stage = pipeline > 1 ? 5 : 1 } };
    c.layout.ranks = tensor * pipeline * context * shard * 2;
    return c;
}

static sm_shares shares_in(const bench_case *c, int stage, int domain)
{
    return sm_shares_of(c, stage, copy_engine_kinds(&c->layout, domain));
}

/* Recipes on nodes of 8 GPUs, and a case where copy engines reach no other rank. */
static void the_rule_of_recipes(void **state)
{
    static const struct {
        int layout[5], left, without_engines;
        const char *words;
    } rows[] = {
        { { 1, 1, 2, 1, 1 }, 0, 8, "0 SMs left free; copy engines move context" },
        { { 4, 8, 1, 1, 1 }, 4, 8, "4 SMs left free: pipeline links 4; copy engines move tensor/expert" },
        { { 8, 8, 2, 1, 1 }, 8, 12, "8 SMs left free: pipeline links 4, context 4; copy engines move tensor/expert" },
        { { 4, 8, 2, 8, 1 }, 8, 12, "8 SMs left free: pipeline links 4, tensor/expert 4; copy engines move context" },
        { { 1, 1, 1, 1, 64 }, 8, 8, "8 SMs left free: shard 8" },
        { { 1, 1, 1, 1, 1 }, 0, 0, "0 SMs left free" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[SM_SHARES_TEXT];
        const int *n = rows[i].layout;
        bench_case c = laid_out(n[0], n[1], n[2], n[3], n[4]);
        sm_shares r = shares_in(&c, 1, NODE);
        assert_int_equal(r.left_free, rows[i].left);
        assert_string_equal(sm_shares_text(&r, text), rows[i].words);
        assert_int_equal(shares_in(&c, 1, ALONE).left_free, rows[i].without_engines);
    }
}

/* Without interleaving, the first and the last stage have only one neighbour. */
static void ends_of_a_pipeline_have_two_links(void **state)
{
    bench_case c = laid_out(1, 4, 1, 1, 1);
    assert_int_equal(shares_in(&c, 0, NODE).left_free, 4);
    c.layout.chunks_per_stage = 1;
    assert_int_equal(shares_in(&c, 0, NODE).left_free, 2);
    assert_int_equal(shares_in(&c, 1, NODE).left_free, 4);
    assert_int_equal(shares_in(&c, 3, NODE).left_free, 2);
}

/* transfer_sms overrides the rule. The blocks of all transfers that may run at once fit into it. */
static void the_deck_wins(void **state)
{
    static const int rows[][4] = { { 16, 1, 4, 4 }, { 8, 1, 1, 1 }, { 64, 4, 16, 16 }, { 0, 8, 16, 16 } };
    char text[SM_SHARES_TEXT];
    bench_case c = laid_out(4, 4, 2, 1, 1);
    c.transfer_sms_given = true;
    for (int i = 0; i < 4; i++) {
        c.transfer_sms = rows[i][0];
        sm_shares r = shares_in(&c, 1, NODE);
        assert_int_equal(r.left_free, rows[i][0]);
        assert_true(r.link_blocks == rows[i][1] && r.separate_blocks == rows[i][2] && r.shared_blocks == rows[i][3]);
        assert_true(r.left_free == 0 || 4 * r.link_blocks + 2 * r.separate_blocks + r.shared_blocks <= r.left_free);
    }
    sm_shares r = shares_in(&c, 1, NODE);
    assert_string_equal(sm_shares_text(&r, text),
                        "0 SMs left free by transfer_sms; copy engines move tensor/expert, context");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_rule_of_recipes),
                                        cmocka_unit_test(ends_of_a_pipeline_have_two_links),
                                        cmocka_unit_test(the_deck_wins) };
    return cmocka_run_group_tests_name("sm_shares", tests, NULL, NULL);
}
