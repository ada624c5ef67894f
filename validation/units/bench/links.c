/* Rounds of pairs: every two ranks of a node meet once, also nodes whose numbers differ in one bit. Slow pairs. */
#include "bench/calibrate/deviations.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_NODES = 5, MOST_RANKS = 9 };

static int of_node; /* ranks per node */
static int node_of(int rank) { return rank / of_node * of_node; }

static int pairs_met(const rank_map *m, int met[MOST_NODES * MOST_RANKS][MOST_NODES * MOST_RANKS])
{
    int pairs = 0;
    memset(met, 0, sizeof(int) * MOST_NODES * MOST_RANKS * MOST_NODES * MOST_RANKS);
    for (int round = 0; round < links_rounds(m); round++)
        for (int r = 0; r < m->ranks; r++) {
            int peer = links_peer(m, r, round);
            if (peer < 0) continue;
            assert_int_not_equal(peer, r);
            assert_int_equal(links_peer(m, peer, round), r);
            met[r][peer]++;
            pairs += peer > r;
        }
    return pairs;
}

/* If there are several nodes, the last one has one rank less. */
static void meets_everybody_once(void **state)
{
    static int met[MOST_NODES * MOST_RANKS][MOST_NODES * MOST_RANKS];
    (void)state;
    for (int nodes = 1; nodes <= MOST_NODES; nodes++)
        for (of_node = 1; of_node <= MOST_RANKS; of_node++) {
            int ranks = nodes * of_node - (nodes > 1 && of_node > 1), expected = 0;
            rank_map m = rank_map_open(ranks, node_of);
            int pairs = pairs_met(&m, met);
            for (int a = 0; a < ranks; a++)
                for (int b = 0; b < ranks; b++) {
                    int apart = (a / of_node) ^ (b / of_node);
                    bool one_bit = a % of_node == b % of_node && apart && !(apart & (apart - 1));
                    assert_int_equal(met[a][b], a != b && (apart == 0 || one_bit));
                    expected += met[a][b];
                }
            assert_int_equal(2 * pairs, expected);
            rank_map_close(&m);
        }
}

/* Measures all pairs of four ranks; pairs whose bit is set in `slow` take 50 % longer. Returns the deviations found. */
static deviations found_of(unsigned slow)
{
    static const int ends[6][2] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 1, 2 }, { 1, 3 }, { 2, 3 } };
    link_pair pair[6];
    for (int i = 0; i < 6; i++)
        pair[i] = (link_pair){ .a = ends[i][0], .b = ends[i][1], .pace.excess = slow >> i & 1 ? 0.5 : 0.01 };
    return deviations_find(&(operation_table){ .ranks = 4 }, &(link_table){ pair, 6 }, 4);
}

/* If the slow pairs share a rank, the rank is reported; otherwise the pair. */
static void a_rank_is_named_where_bad_pairs_meet(void **state)
{
    deviations none = found_of(0), one = found_of(1u << 4), star = found_of(1u << 1 | 1u << 3 | 1u << 5);
    (void)state;
    assert_int_equal(none.count, 0);
    assert_int_equal(one.count, 1);
    assert_true(one.list[0].kind == SLOW_PAIR && one.list[0].rank == 1 && one.list[0].peer == 3);
    assert_int_equal(star.count, 1);
    assert_true(star.list[0].kind == SLOW_LINKS && star.list[0].rank == 2);
    free(one.list);
    free(star.list);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(meets_everybody_once),
                                        cmocka_unit_test(a_rank_is_named_where_bad_pairs_meet) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
