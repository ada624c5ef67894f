/* The watch: start, boards and end. */
#include "machine/watch/watch.h"
#include "base/clock.h"
#include "base/fail.h"
#include "machine/watch/launcher.h"
#include "machine/watch/process.h"

static board_slot *own_slot(void) { return atomic_load_explicit(&watch.own, memory_order_relaxed); }

void watch_limit(double seconds) { own_slot()->limit = seconds; }

void watch_set_last_sentence(const char *sentence) { watch.last_sentence = sentence; }

void watch_wait_for_all(const char *what) { activity_wait_for_ranks(what, 0, watch.ranks, true); }

static void take_slot(board *b, int slot)
{
    board_slot *s = &b->slot[slot];
    s->limit = own_slot()->limit;
    activity_publish(&s->activity);
    watch.slot = slot;
    watch.own = s;
    watch.board = b;
}

void watch_start(void)
{
    launch_place at = launch_here();
    int rank = at.rank < 0 ? 0 : at.rank;
    board *b = NULL;
    watch.ranks = at.ranks < 1 ? 1 : at.ranks;
    if (at.local_ranks > 1 && launch_name(watch.name, sizeof watch.name)) b = board_attach(watch.name, at.local_ranks);
    if (b && !board_claim(b, at.local_rank, rank)) b = NULL;
    int slot = b ? at.local_rank : 0;
    if (!b && (!(b = board_private()) || !board_claim(b, 0, rank))) FAIL("no memory to watch the run");
    take_slot(b, slot);
    activity_doing("starting MPI", -1);
    watch.main = pthread_self();
    watch_begin_thread(&watch.thread, watch_thread);
}

void watch_leave(const char *asked)
{
    launch_place at = launch_here();
    bool shared = at.local_ranks > 1 && launch_name(watch.name, sizeof watch.name);
    board *b = shared ? board_attach(watch.name, at.local_ranks) : NULL;
    if (!b || !board_claim(b, at.local_rank, at.rank < 0 ? at.local_rank : at.rank)) return;
    activity e = { .kind = "answering", .step = -1, .microbatch = -1, .layer = -1, .since = clock_seconds() };
    activity_text(e.name, sizeof e.name, asked);
    activity_store(&b->slot[at.local_rank].activity.doing, &e);
    board_leave(b, at.local_rank, watch.name);
}

uint64_t watch_board(void) { return ((board *)watch.board)->identity; }

void watch_unlink_board(void) { board_unlink(watch.name); }

bool watch_move(const char *name, int slot, int slots)
{
    board *b = board_attach(name, slots);
    if (!b || !board_claim(b, slot, own_slot()->rank)) return false;
    activity_text(watch.name, sizeof watch.name, name);
    take_slot(b, slot);
    return true;
}

void watch_world(int rank, int ranks)
{
    own_slot()->rank = rank;
    watch.ranks = ranks;
}

node_place watch_place(void)
{
    board *b = watch.board;
    node_place here = { .board = b->identity, .slots = watch.slot == 0 ? b->slots : 0 };
    activity_text(here.host, sizeof here.host, own_slot()->host);
    return here;
}

void watch_set_places(const node_place *of_rank) { watch.place = of_rank; }

/* If the watch ends the run, the main thread waits here and leaves the exit status to it. */
void watch_ending(void)
{
    while (watch.over) watch_sleep();
    own_slot()->presence = RANK_ENDING;
}

static bool all_have_ended(const board *b)
{
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence == RANK_PRESENT) return false;
    return true;
}

void watch_stop(void)
{
    watch_wait_for_all("the others' end");
    own_slot()->presence = RANK_ENDED;
    while (!all_have_ended(watch.board)) watch_sleep();
    activity_wait_end();
    watch.over = true;
    pthread_join(watch.thread, NULL);
}
