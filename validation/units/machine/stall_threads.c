/* What one thread says of itself another reads whole, and what a node says another node. In check-long a sanitizer
 * looks on (machine/thread_races.t). */
#include "base/clock.h"
#include "machine/watch/board.h"
#include "machine/watch/link.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { EVENTS = 200000 };
static board *b;
static atomic_bool done;

/* All its fields say the same. */
static watch_event event_of(int64_t n)
{
    watch_event e = { .step = n, .number = n, .elements = n, .order = (uint64_t)n, .since = (double)n };
    memset(e.name, (int)('a' + n % 26), sizeof e.name - 1);
    return e;
}

static void *tell(void *unused)
{
    for (int64_t n = 1; n <= EVENTS; n++) {
        watch_event e = event_of(n);
        cell_store(&b->slot[0].completed, &e);
        b->slot[0].heartbeat = (uint64_t)n;
    }
    done = true;
    return unused;
}

static void an_event_is_read_whole(void **state)
{
    pthread_t thread;
    int64_t latest = 0;
    assert_int_equal(pthread_create(&thread, NULL, tell, NULL), 0);
    while (!done) {
        rank_state s;
        board_read(b, 0, clock_seconds(), &s);
        watch_event whole = event_of(s.completed.step);
        if (s.completed.step) assert_memory_equal(&whole, &s.completed, sizeof whole);
        assert_true(s.completed.step >= latest);
        latest = s.completed.step;
    }
    pthread_join(thread, NULL);
}

static void a_living_rank_keeps_its_slot(void **state)
{
    assert_false(board_claim(b, 1, 0));
    b->slot[0].pid = (int32_t)getppid();
    assert_false(board_claim(b, 0, 7));
    b->slot[0].pid = (int32_t)getpid();
    assert_true(b->slot[0].rank == 3);
}

/* A node's letters are larger than what a socket takes at once. At most SECONDS until it is heard; so long its answer
 * may be under way. */
enum { RANKS = 5000, SECONDS = 10, ANSWER = 1 };
static bool is_heard(const link_address *everybody, uint64_t own)
{
    rank_state *states = calloc(RANKS, sizeof *states);
    links *l = link_open(everybody, 2 * RANKS, own);
    const node_word word = { .quiet = 0.0 };
    bool made = false;
    for (double began = clock_seconds(); l && states && !made && clock_seconds() - began < SECONDS; usleep(10000)) {
        link_talk(l, &word, states, clock_seconds());
        made = link_made(l);
    }
    for (double heard = clock_seconds(); made && clock_seconds() - heard < ANSWER; usleep(10000))
        link_talk(l, &word, states, clock_seconds());
    free(states);
    return made;
}

/* The first node judges, and need not know where the other listens. */
static void nodes_of_many_ranks_hear_each_other(void **state)
{
    link_address *everybody = calloc(2 * RANKS, sizeof *everybody);
    int ends[2], status = 1;
    assert_int_equal(pipe(ends), 0);
    everybody[RANKS] = (link_address){ .board = 2, .slots = RANKS };
    pid_t other = fork();
    if (other == 0) _exit(read(ends[0], everybody, sizeof *everybody) < 1 || !is_heard(everybody, 2));
    everybody[0] = link_listen();
    everybody[0].board = 1;
    everybody[0].slots = RANKS;
    assert_int_equal(write(ends[1], everybody, sizeof *everybody), sizeof *everybody);
    assert_true(is_heard(everybody, 1));
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    free(everybody);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(an_event_is_read_whole),
                                        cmocka_unit_test(a_living_rank_keeps_its_slot),
                                        cmocka_unit_test(nodes_of_many_ranks_hear_each_other) };
    if (!(b = board_alone()) || !board_claim(b, 0, 3)) return 1;
    return cmocka_run_group_tests_name("stall_threads", tests, NULL, NULL);
}
