/* A thread reads another thread's activity consistently. check-long adds a sanitizer (machine/thread_races.t). */
#include "base/clock.h"
#include "machine/watch/board.h"
#include "units/tests.h"
#include <pthread.h>
#include <unistd.h>

enum { EVENTS = 200000 };
static board *b;
static atomic_bool done;

/* Returns an activity whose fields all hold n. */
static activity event_of(int64_t n)
{
    activity e = { .step = n, .number = n, .elements = n, .order = (uint64_t)n, .since = (double)n };
    memset(e.name, (int)('a' + n % 26), sizeof e.name - 1);
    return e;
}

static void *tell(void *unused)
{
    for (int64_t n = 1; n <= EVENTS; n++) {
        activity e = event_of(n);
        activity_store(&b->slot[0].activity.completed, &e);
        b->slot[0].activity.progress = (uint64_t)n;
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
        activity whole = event_of(s.completed.step);
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

int main(void)
{
    TESTS(tests, an_event_is_read_whole, a_living_rank_keeps_its_slot);
    if (!(b = board_private()) || !board_claim(b, 0, 3)) return 1;
    return cmocka_run_group_tests_name("stall_threads", tests, NULL, NULL);
}
