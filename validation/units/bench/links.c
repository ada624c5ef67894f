/* Rounds of pairs: every two ranks of a node meet once, and nodes whose numbers differ in one bit. */
#include "bench/calibrate/links.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_NODES = 5, MOST_RANKS = 9 };

static int pairs_met(const rank_place *place, int ranks, int met[MOST_NODES * MOST_RANKS][MOST_NODES * MOST_RANKS])
{
    int pairs = 0;
    memset(met, 0, sizeof(int) * MOST_NODES * MOST_RANKS * MOST_NODES * MOST_RANKS);
    for (int round = 0; round < links_rounds(place, ranks); round++)
        for (int r = 0; r < ranks; r++) {
            int peer = links_peer(place, ranks, r, round);
            if (peer < 0) continue;
            assert_int_not_equal(peer, r);
            assert_int_equal(links_peer(place, ranks, peer, round), r);
            met[r][peer]++;
            pairs += peer > r;
        }
    return pairs;
}

static void meets_everybody_once(void **state)
{
    static int met[MOST_NODES * MOST_RANKS][MOST_NODES * MOST_RANKS];
    rank_place place[MOST_NODES * MOST_RANKS];
    (void)state;
    for (int nodes = 1; nodes <= MOST_NODES; nodes++)
        for (int of = 1; of <= MOST_RANKS; of++) {
            int ranks = nodes * of, across = 0;
            for (int r = 0; r < ranks; r++) place[r] = (rank_place){ r / of, r % of, of };
            for (int a = 0; a < nodes; a++)
                for (int bit = 1; bit < nodes; bit *= 2) across += (a ^ bit) > a && (a ^ bit) < nodes;
            assert_int_equal(pairs_met(place, ranks, met), nodes * of * (of - 1) / 2 + across * of);
            for (int a = 0; a < ranks; a++)
                for (int b = 0; b < ranks; b++) {
                    int apart = (a / of) ^ (b / of);
                    bool one_bit = a % of == b % of && apart && !(apart & (apart - 1));
                    assert_int_equal(met[a][b], a != b && (apart == 0 || one_bit));
                }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(meets_everybody_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
