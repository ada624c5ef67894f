/* The watching thread, and what the main thread tells it. Both are process state, as the process is. */
#include "machine/watch/watch.h"
#include "base/clock.h"
#include "base/fail.h"
#include "machine/watch/board.h"
#include "machine/watch/launcher.h"
#include "machine/watch/link.h"
#include "machine/watch/verdict.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* LOOK: between two looks. POLLS: between two yields; of 1, 4, 8, 16, 64 the best for 2 to 8 ranks on 2 cores under
 * Open MPI and MPICH. */
enum { LOOK_MILLISECONDS = 50, POLLS = 8, WORLD_KEY = 1 };
/* FRESH: a thread that ticked so recently is awake. GAP: so long only a suspended one is not run, which did not see
 * what happened meanwhile. GRACE: some launchers give the others of one that is gone a second. TOLD: for the one that
 * speaks. */
static const double FRESH = 1.0, GAP = 5.0, GRACE = 0.2, TOLD = 2.0, CONNECT = 6.0;

static struct {
    board_slot alone; /* of a process that did not start the watch */
    _Atomic(board *) board;
    _Atomic(board_slot *) own;
    _Atomic(links *) link; /* of a run that spans nodes */
    char name[BOARD_NAME];
    atomic_int ranks, slot;
    int depth;
    unsigned polls;
    uint64_t era;
    pthread_t thread;
    atomic_bool over;
    atomic_bool linked; /* or another rank of this node speaks */
    bool said;
} watch = { .own = &watch.alone, .alone.limit = 60.0 }; /* before the deck is read */

/* ---- what the main thread tells ---- */

static board_slot *own(void) { return atomic_load_explicit(&watch.own, memory_order_relaxed); }

void watch_limit(double seconds) { own()->limit = seconds; }
void watch_allow(double seconds) { own()->allowance = seconds; }

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

/* ---- the thread ---- */

static struct {
    uint64_t seen;
    double seen_at, looked_at, gone_at;
} thread;

static void rest(void)
{
    const struct timespec pause = { 0, LOOK_MILLISECONDS * 1000000L };
    nanosleep(&pause, NULL);
}

/* The first whose thread is awake speaks for the node. */
static bool speaks(const board *b, double now)
{
    for (int i = 0; i < watch.slot; i++)
        if (b->slot[i].presence == RANK_HERE && now - b->slot[i].tick < FRESH) return false;
    return true;
}

/* Seconds since any rank completed anything. What happened while this thread did not look is not known. */
static double quiet_seconds(const board *b, double now)
{
    uint64_t sum = 0;
    for (int i = 0; i < b->slots; i++) sum += b->slot[i].heartbeat + (uint64_t)b->slot[i].presence;
    double gap = now - thread.looked_at;
    if (gap > GAP) thread.seen_at += gap;
    if (sum != thread.seen || thread.seen_at > now) thread.seen_at = now;
    thread.seen = sum;
    thread.looked_at = now;
    return now - thread.seen_at;
}

/* Of what ranks of other nodes do nothing is known. */
static bool sees(const board *b, const watch_event *e)
{
    return watch.link ? e->group.key != WORLD_KEY : b->slots == watch.ranks || e->group.key != WORLD_KEY;
}

/* The least that a rank would wait of those that have waited longer; 0: none has. */
static double exceeded_limit(const board *b, bool alone, double now)
{
    double least = 0.0;
    for (int i = 0; i < b->slots; i++) {
        board_slot *s = (board_slot *)&b->slot[i];
        watch_event e;
        double limit = s->limit + s->allowance;
        if (s->presence == RANK_ENDING || !s->waits) continue;
        cell_load(&s->waiting, &e);
        if (now - e.since > limit && (!alone || sees(b, &e)) && (least == 0.0 || limit < least)) least = limit;
    }
    return least;
}

static bool one_is_gone(const board *b)
{
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence == RANK_HERE && board_is_gone(b, i)) return true;
    return false;
}

static void end_run(void)
{
    watch.over = true;
    board_forget(watch.name);
    fail_end(STATUS_HANG);
}

static void read_board(const board *b, double now, rank_state *s)
{
    for (int i = 0; i < b->slots; i++) {
        board_read(b, i, now, &s[i]);
        if (s[i].presence != RANK_ABSENT) continue;
        s[i].rank =
            own()->rank - watch.slot + i; /* as launchers number the processes of a node, unless told otherwise */
        watch_text(s[i].host, sizeof s[i].host, own()->host);
    }
}

/* Says why, once on each board; then nothing is in the way of the end. */
static void tell(board *b, const rank_state *s, int count, double quiet)
{
    static char text[VERDICT_BYTES];
    int32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&b->alarm, &nobody, watch.slot + 1)) return;
    verdict_say(s, count, quiet, clock_seconds(), text);
    ssize_t unused = write(STDERR_FILENO, text, strlen(text));
    (void)unused;
    b->told = 1;
    end_run();
}

/* The one that speaks may be stopped itself. */
static void obey(const board *b)
{
    for (double began = clock_seconds(); !b->told && clock_seconds() - began < TOLD;) rest();
    end_run();
}

static rank_state *states_of(int count)
{
    rank_state *s = calloc((size_t)count, sizeof *s);
    if (!s) end_run();
    return s;
}

static void judge_node(board *b, const node_word *word, double now)
{
    if (!word->gone && (word->limit == 0.0 || word->quiet <= word->limit)) return;
    rank_state *s = states_of(b->slots);
    read_board(b, now, s);
    tell(b, s, b->slots, word->quiet);
    free(s);
}

static void judge_run(board *b, links *l, double now)
{
    node_word word = link_word(l, now);
    if (!word.gone && (word.limit == 0.0 || word.quiet <= word.limit)) return;
    rank_state *s = states_of(watch.ranks);
    link_states(l, now, s);
    link_end(l);
    tell(b, s, watch.ranks, word.quiet);
    free(s);
}

static void say_unreached(const links *l, double now)
{
    int n = link_unreached(l, now);
    if (n == 0 || watch.said || !link_judges(l)) return;
    fprintf(stderr, "xgsw: %d nodes cannot be reached by TCP: a hang is judged by each node for itself\n", n);
    watch.said = true;
}

static bool talk(board *b, links *l, const node_word *word, double now)
{
    rank_state *s = states_of(b->slots);
    read_board(b, now, s);
    states_turn(s, b->slots, now);
    bool ends = link_talk(l, word, s, now);
    free(s);
    return ends;
}

/* For its node, of which this rank speaks. */
static void judge(board *b, double quiet, double now)
{
    links *l = watch.link;
    if (!one_is_gone(b)) thread.gone_at = now;
    bool gone = now - thread.gone_at > GRACE;
    node_word word = { quiet, exceeded_limit(b, false, now), gone };
    if (l && talk(b, l, &word, now)) b->alarm = b->told = 1;
    if (l) watch.linked = link_made(l);
    if (l) say_unreached(l, now);
    if (l && link_judges(l)) judge_run(b, l, now);
    if (l && !link_is_alone(l, now) && !gone) return;
    word.limit = exceeded_limit(b, true, now);
    judge_node(b, &word, now);
}

static void look(board *b)
{
    double now = clock_seconds();
    own()->tick = now;
    double quiet = quiet_seconds(b, now);
    if (speaks(b, now)) judge(b, quiet, now);
    else watch.linked = true;
    if (b->alarm) obey(b);
}

static void *run_thread(void *unused)
{
    while (!watch.over) {
        look(watch.board);
        rest();
    }
    return unused;
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

/* Signals are the main thread's. */
static void start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&watch.thread, NULL, run_thread, NULL)) FAIL("no thread that watches the run");
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
    start_thread();
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

link_address watch_address(void)
{
    board *b = watch.board;
    if (watch.slot != 0) return (link_address){ .board = 0 };
    link_address here = link_listen();
    here.board = b->identity;
    here.slots = (uint16_t)b->slots;
    return here;
}

/* Waits for the connection, lest a rank be lost before it is known. */
void watch_connect(const link_address *everybody)
{
    links *l = link_open(everybody, watch.ranks, watch_board());
    if (!l) FAIL("no memory for what nodes tell each other");
    watch.link = l;
    for (double began = clock_seconds(); !watch.linked && clock_seconds() - began < CONNECT;) rest();
}

/* Where the watch ends the run, the main thread does not. */
void watch_ending(void)
{
    while (watch.over) rest();
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
    while (!all_have_ended(watch.board)) rest();
    watch_wait_end();
    watch.over = true;
    pthread_join(watch.thread, NULL);
}
