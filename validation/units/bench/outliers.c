/* Finds slow ranks in invented times: slow by a known fraction, with peers of several kinds, with noise. Rounds of
 * pairs: every two ranks of a node meet once, also nodes whose numbers differ in one bit; slow pairs. */
#include "bench/health/outliers.h"
#include "bench/calibrate/deviations.h"
#include "bench/facts/figures.h"
#include "units/tests.h"

enum { STEPS = 40, MOST_IN_RUN = 16 };
typedef struct {
    int ranks;
    double work[MOST_IN_RUN]; /* flops; the time is proportional to them */
    rank_pace pace[MOST_IN_RUN];
    double own[STEPS * MOST_IN_RUN];
} run;

/* Returns a reproducible number between -1 and 1. */
static double noise(uint64_t i)
{
    i = (i + 1) * 0x9E3779B97F4A7C15u, i ^= i >> 29, i *= 0xBF58476D1CE4E5B9u, i ^= i >> 32;
    return 2.0 * (double)(i >> 11) / 9007199254740992.0 - 1.0;
}

/* Returns a run where all ranks of a kind are equally fast, except for the noise. */
static run alike(int ranks, const double *work, double spread)
{
    run x = { .ranks = ranks };
    for (int i = 0; i < ranks; i++) {
        x.work[i] = work ? work[i] : 1.0;
        x.pace[i] = (rank_pace){ .flops = 1e9 * x.work[i], .bytes = 1e6 };
    }
    for (int i = 0; i < STEPS * ranks; i++) x.own[i] = 0.03 * x.work[i % ranks] * (1.0 + spread * noise((uint64_t)i));
    return x;
}

static void slow_down(run *x, int rank, double factor)
{
    for (int s = 0; s < STEPS; s++) x->own[s * x->ranks + rank] *= factor;
}

/* Returns the outliers as a bit mask. */
static unsigned outliers(run *x, int64_t steps)
{
    unsigned found = 0;
    find_paces(x->own, steps, x->ranks, x->pace);
    for (int i = 0; i < x->ranks; i++) found |= (unsigned)pace_is_outlier(&x->pace[i]) << i;
    return found;
}

static void equal_ranks_name_nobody(void **state)
{
    for (int ranks = 1; ranks <= MOST_IN_RUN; ranks++) {
        run x = alike(ranks, NULL, 0.3);
        assert_int_equal(outliers(&x, STEPS), 0);
        assert_int_equal(x.pace[0].peers, ranks - 1);
        assert_int_equal(isnan(x.pace[0].excess) != 0, ranks == 1);
    }
}

/* The excess is within 5 %: noise of 10 % per step gives a standard error below 2 %. */
static void a_slow_rank_is_named_with_its_excess(void **state)
{
    for (int ranks = 2; ranks <= MOST_IN_RUN; ranks++)
        for (double factor = 1.2; factor < 4.0; factor *= 1.5) {
            run x = alike(ranks, NULL, 0.1);
            slow_down(&x, ranks / 2, factor);
            assert_int_equal(outliers(&x, STEPS), 1u << ranks / 2);
            assert_true(fabs(1.0 + x.pace[ranks / 2].excess - factor) < 0.05 * factor);
        }
}

/* Three of eight ranks are slow; the other five set the norm. */
static void several_are_named(void **state)
{
    run x = alike(8, NULL, 0.05);
    slow_down(&x, 1, 1.5), slow_down(&x, 2, 1.5), slow_down(&x, 7, 3.0);
    assert_int_equal(outliers(&x, STEPS), 0x86);
}

/* Four stages of two tensor ranks. First, middle and last stages differ; ranks are compared only with equal stages. */
static void stages_are_compared_with_their_like(void **state)
{
    const double work[] = { 1.05, 1.05, 1.0, 1.0, 1.0, 1.0, 1.7, 1.7 };
    run x = alike(8, work, 0.05);
    assert_int_equal(outliers(&x, STEPS), 0);
    assert_int_equal(x.pace[0].peers, 1);
    assert_int_equal(x.pace[3].peers, 3);
    slow_down(&x, 6, 1.3), slow_down(&x, 4, 1.3);
    assert_int_equal(outliers(&x, STEPS), 0x50);
}

/* With one rank per stage, only the middle stages have peers. The other ranks are not judged. */
static void single_stages(void **state)
{
    const double work[] = { 1.05, 1.0, 1.0, 1.7 };
    run x = alike(4, work, 0.05);
    slow_down(&x, 0, 3.0), slow_down(&x, 2, 1.3);
    assert_int_equal(outliers(&x, STEPS), 4);
    assert_true(isnan(x.pace[0].excess) && isnan(x.pace[3].excess));
}

static void one_step_that_hung_names_nobody(void **state)
{
    run x = alike(2, NULL, 0.02);
    x.own[2 * 11] += 100.0;
    assert_int_equal(outliers(&x, STEPS), 0);
    assert_true(x.pace[0].excess > 10.0);
}

/* One rank stops in one step of three: more often than by chance. */
static void one_that_stops_often_is_named(void **state)
{
    run x = alike(2, NULL, 0.02);
    for (int s = 0; s < STEPS; s += 3) x.own[2 * s + 1] *= 3.0;
    assert_int_equal(outliers(&x, STEPS), 2);
}

static void few_steps_say_nothing(void **state)
{
    run x = alike(2, NULL, 0.0);
    slow_down(&x, 1, 3.0);
    assert_int_equal(outliers(&x, BLOCKS - 1), 0);
    assert_int_equal(outliers(&x, BLOCKS), 2);
}

/* The second of two ranks computes twice as long. It is judged unless its threads share cores with others. */
static void assert_judged(host_load load, case_backend backend, bool judged)
{
    static double zeros[2 * STEPS];
    double own[2 * STEPS];
    rank_work work[2] = { { .flops = 1.0 }, { .flops = 1.0 } };
    bench_case c = { .backend = backend, .layout = { .ranks = 2, .copies = 1 }, .ranks = 2 };
    facts f = {
        .load = load, .completed = STEPS, .total = STEPS, .pause = zeros, .ranks = { .step = own, .work = work }
    };
    for (int i = 0; i < 2 * STEPS; i++) own[i] = i % 2 ? 0.2 : 0.1;
    for (int table = 0; table < RANK_TABLES; table++) f.ranks.table[table] = table == RANK_COMPUTING ? own : zeros;
    figures g = figures_of(&f, &c);
    assert_int_equal(g.pace[1].peers, 1);
    assert_int_equal(pace_is_outlier(&g.pace[1]), judged);
    assert_int_equal(isnan(g.pace[1].excess) != 0, !judged);
    figures_free(&g);
}

static void ranks_whose_threads_share_cores_are_not_judged(void **state)
{
    assert_judged((host_load){ 2, 4, 2, 1, INFINITY }, BACKEND_HOST, true);
    assert_judged((host_load){ 2, 3, 2, 1, INFINITY }, BACKEND_HOST, false);
    assert_judged((host_load){ 2, 4, 2, 1, 3.5 }, BACKEND_HOST, false);
    assert_judged((host_load){ 2, 1, 1, 1, INFINITY }, BACKEND_HOST, true);
    assert_judged((host_load){ 2, 1, 2, 1, INFINITY }, BACKEND_CUDA, true);
}

/* ---- pairs ---- */

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
    assert_int_equal(none.count, 0);
    assert_int_equal(one.count, 1);
    assert_true(one.list[0].kind == SLOW_PAIR && one.list[0].rank == 1 && one.list[0].peer == 3);
    assert_int_equal(star.count, 1);
    assert_true(star.list[0].kind == SLOW_LINKS && star.list[0].rank == 2);
    free(one.list);
    free(star.list);
}

TEST_PROGRAM("outliers", NULL, NULL, equal_ranks_name_nobody, a_slow_rank_is_named_with_its_excess, several_are_named,
             stages_are_compared_with_their_like, single_stages, one_step_that_hung_names_nobody,
             one_that_stops_often_is_named, few_steps_say_nothing, meets_everybody_once,
             a_rank_is_named_where_bad_pairs_meet, ranks_whose_threads_share_cores_are_not_judged)
