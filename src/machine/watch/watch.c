/* What the main thread tells, and the watch's life. */
#include "machine/watch/watch.h"
#include "base/clock.h"
#include "base/fail.h"
#include "machine/watch/launcher.h"
#include "machine/watch/process.h"
#include <sched.h>
#include <signal.h>

/* POLLS: between two yields; of 1, 4, 8, 16, 64 the best for 2 to 8 ranks on 2 cores under Open MPI and MPICH. */
enum { POLLS = 8 };

watch_process watch = { .own = &watch.alone, .alone.limit = 60.0 }; /* before the deck is read */

/* ---- what the main thread tells ---- */

static board_slot *own(void) { return atomic_load_explicit(&watch.own, memory_order_relaxed); }

void watch_limit(double seconds) { own()->limit = seconds; }
void watch_allow(double seconds) { own()->allowance = seconds; }

void watch_leaves(const char *sentence) { watch.leaves = sentence; }

/* One thread writes it: no need to lock the bus. */
void watch_progress(void)
{
    board_slot *s = own();
    uint64_t n = atomic_load_explicit(&s->heartbeat, memory_order_relaxed);
    atomic_store_explicit(&s->heartbeat, n + 1, memory_order_relaxed);
}

void watch_doing(const char *what, int64_t number)
{
    watch_event e = { .number = number + 1, .since = clock_seconds() };
    watch_text(e.kind, sizeof e.kind, what);
    cell_store(&own()->doing, &e);
    watch_progress();
}

void watch_completed(const watch_event *e)
{
    cell_store(&own()->completed, e);
    watch_progress();
}

/* A group that has no place takes one that another had. */
void watch_enter(const watch_event *e)
{
    board_slot *s = own();
    int at = 0;
    while (at < RANK_GROUPS && s->entered[at].key && s->entered[at].key != e->group.key) at++;
    if (at == RANK_GROUPS) at = (int)(e->group.key % RANK_GROUPS);
    atomic_store_explicit(&s->entered[at].order, e->order, memory_order_relaxed);
    atomic_store_explicit(&s->entered[at].key, e->group.key, memory_order_release);
}

void watch_wait(const watch_event *e)
{
    if (watch.depth++) return;
    board_slot *s = own();
    cell_store(&s->waiting, e);
    atomic_store_explicit(&s->waits, true, memory_order_release);
}

void watch_wait_end(void)
{
    if (--watch.depth == 0) atomic_store_explicit(&own()->waits, false, memory_order_release);
}

void watch_wait_for_all(const char *what)
{
    watch_event e = { .axis = "world", .step = -1, .microbatch = -1, .layer = -1, .since = clock_seconds() };
    watch_text(e.kind, sizeof e.kind, what);
    e.order = ++watch.era;
    e.number = (int64_t)e.order;
    e.group = (watch_group){ WORLD_KEY, 0, watch.ranks, 1, { watch.ranks }, { 1 } };
    watch_enter(&e);
    watch_wait(&e);
}

uint64_t watch_era(void) { return watch.era; }

/* MPICH never yields while it polls: ranks that share a core would wait for each other's time slices. */
void watch_yield(void)
{
    if (++watch.polls % POLLS == 0) sched_yield();
}

/* ---- its life ---- */

static void copy_cell(board_cell *to, board_cell *from)
{
    watch_event e;
    cell_load(from, &e);
    cell_store(to, &e);
}

static void take_slot(board *b, int slot)
{
    board_slot *before = own(), *s = &b->slot[slot];
    s->limit = before->limit;
    s->allowance = before->allowance;
    copy_cell(&s->doing, &before->doing);
    copy_cell(&s->waiting, &before->waiting);
    s->waits = before->waits;
    for (int i = 0; i < RANK_GROUPS; i++) {
        s->entered[i].order = before->entered[i].order;
        s->entered[i].key = before->entered[i].key;
    }
    watch.slot = slot;
    watch.own = s;
    watch.board = b;
}

void watch_begin_thread(pthread_t *thread, void *(*run)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(thread, NULL, run, NULL)) FAIL("no thread that watches the run");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void watch_start(void)
{
    launch_place at = launch_here();
    int rank = at.rank < 0 ? 0 : at.rank;
    board *b = NULL;
    watch.ranks = at.ranks < 1 ? 1 : at.ranks;
    if (at.locals > 1 && launch_name(watch.name, sizeof watch.name)) b = board_attach(watch.name, at.locals);
    if (b && !board_claim(b, at.local, rank)) b = NULL;
    int slot = b ? at.local : 0;
    if (!b && (!(b = board_alone()) || !board_claim(b, 0, rank))) FAIL("no memory to watch the run");
    take_slot(b, slot);
    watch_doing("starting MPI", -1);
    watch.main = pthread_self();
    watch_begin_thread(&watch.thread, watch_thread);
}

void watch_leave(const char *asked)
{
    launch_place at = launch_here();
    bool shared = at.locals > 1 && launch_name(watch.name, sizeof watch.name);
    board *b = shared ? board_attach(watch.name, at.locals) : NULL;
    if (!b || !board_claim(b, at.local, at.rank < 0 ? at.local : at.rank)) return;
    watch_event e = { .kind = "answering", .step = -1, .microbatch = -1, .layer = -1, .since = clock_seconds() };
    watch_text(e.name, sizeof e.name, asked);
    cell_store(&b->slot[at.local].doing, &e);
    board_leave(b, at.local, watch.name);
}

uint64_t watch_board(void) { return ((board *)watch.board)->identity; }

void watch_forget(void) { board_forget(watch.name); }

bool watch_move(const char *name, int slot, int slots)
{
    board *b = board_attach(name, slots);
    if (!b || !board_claim(b, slot, own()->rank)) return false;
    watch_text(watch.name, sizeof watch.name, name);
    take_slot(b, slot);
    return true;
}

void watch_world(int rank, int ranks)
{
    own()->rank = rank;
    watch.ranks = ranks;
}

node_place watch_place(void)
{
    board *b = watch.board;
    node_place here = { .board = b->identity, .slots = watch.slot == 0 ? b->slots : 0 };
    watch_text(here.host, sizeof here.host, own()->host);
    return here;
}

void watch_places(const node_place *of_rank) { watch.place = of_rank; }

/* Where the watch ends the run, the main thread does not. */
void watch_ending(void)
{
    while (watch.over) watch_rest();
    own()->presence = RANK_ENDING;
}

static bool all_have_ended(const board *b)
{
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence == RANK_HERE) return false;
    return true;
}

void watch_stop(void)
{
    watch_wait_for_all("the others' end");
    own()->presence = RANK_ENDED;
    while (!all_have_ended(watch.board)) watch_rest();
    watch_wait_end();
    watch.over = true;
    pthread_join(watch.thread, NULL);
}
