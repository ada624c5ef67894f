/* How many SMs products leave free: by the layout, by the transfers of copy engines, and by the deck. */
#include "plan/model/room.h"
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

static transfer_room room_in(const bench_case *c, int stage, int domain)
{
    return room_of(c, stage, room_moved_within(&c->layout, domain));
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
        char text[ROOM_TEXT];
        const int *n = rows[i].layout;
        bench_case c = laid_out(n[0], n[1], n[2], n[3], n[4]);
        transfer_room r = room_in(&c, 1, NODE);
        assert_int_equal(r.left, rows[i].left);
        assert_string_equal(room_words(&r, text), rows[i].words);
        assert_int_equal(room_in(&c, 1, ALONE).left, rows[i].without_engines);
    }
}

/* Without interleaving, the first and the last stage have only one neighbour. */
static void ends_of_a_pipeline_have_two_links(void **state)
{
    bench_case c = laid_out(1, 4, 1, 1, 1);
    assert_int_equal(room_in(&c, 0, NODE).left, 4);
    c.layout.chunks_per_stage = 1;
    assert_int_equal(room_in(&c, 0, NODE).left, 2);
    assert_int_equal(room_in(&c, 1, NODE).left, 4);
    assert_int_equal(room_in(&c, 3, NODE).left, 2);
}

/* transfer_sms overrides the rule. The blocks of all transfers that may run at once fit into it. */
static void the_deck_wins(void **state)
{
    static const int rows[][4] = { { 16, 1, 4, 4 }, { 8, 1, 1, 1 }, { 64, 4, 16, 16 }, { 0, 8, 16, 16 } };
    char text[ROOM_TEXT];
    bench_case c = laid_out(4, 4, 2, 1, 1);
    c.transfer_sms_given = true;
    for (int i = 0; i < 4; i++) {
        c.transfer_sms = rows[i][0];
        transfer_room r = room_in(&c, 1, NODE);
        assert_int_equal(r.left, rows[i][0]);
        assert_true(r.link == rows[i][1] && r.apart == rows[i][2] && r.turns == rows[i][3]);
        assert_true(r.left == 0 || 4 * r.link + 2 * r.apart + r.turns <= r.left);
    }
    transfer_room r = room_in(&c, 1, NODE);
    assert_string_equal(room_words(&r, text),
                        "0 SMs left free by transfer_sms; copy engines move tensor/expert, context");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_rule_of_recipes),
                                        cmocka_unit_test(ends_of_a_pipeline_have_two_links),
                                        cmocka_unit_test(the_deck_wins) };
    return cmocka_run_group_tests_name("room", tests, NULL, NULL);
}
