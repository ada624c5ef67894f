/* The thread that watches: looks at the board, talks to other nodes, judges, and ends the run. */
#include "base/clock.h"
#include "base/fail.h"
#include "machine/watch/process.h"
#include "machine/watch/verdict.h"
#include "machine/watch/watch.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MILLISECONDS = 50 };
/* Seconds. FRESH: a thread that ticked so recently is awake. GAP: so long only a suspended one is not run, which did
 * not see what happened meanwhile. GRACE: some launchers give the others of one that is gone a second. LEFT: a script
 * that asked may still start a run. TOLD: for the one that speaks. */
static const double FRESH = 1.0, GAP = 5.0, GRACE = 0.2, LEFT = 10.0, TOLD = 2.0;
/* Nodes may start so many times a rank's patience apart. */
static const double START = 10.0;

static struct {
    uint64_t seen;
    double seen_at, looked_at, gone_at, left_at;
    bool said;
} thread;

void watch_rest(void)
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

/* A rank of this node, known to keep waiting who waits for e. */
static bool is_held_here(const board *b, const watch_event *e, double now)
{
    for (int i = 0; i < b->slots; i++) {
        rank_state s;
        board_read(b, i, now, &s);
        if (!rank_has_entered(&s, e) || rank_is_stopped(&s)) return true;
    }
    return false;
}

/* Of what ranks of other nodes do nothing is known: who waits for them waits on, but not for ever for their start. */
static bool may_judge(const board *b, const watch_event *e, double patiences, double now)
{
    bool sees_all = !watch.link && b->slots == watch.ranks, starts = !watch.link && e->order == 1;
    return e->group.key != WORLD_KEY || sees_all || (starts && patiences > START) || is_held_here(b, e, now);
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
        double waited = now - e.since;
        if (waited <= limit || (alone && !may_judge(b, &e, waited / limit, now))) continue;
        if (least == 0.0 || limit < least) least = limit;
    }
    return least;
}

static bool one_is_gone(const board *b)
{
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence == RANK_HERE && board_is_gone(b, i)) return true;
    return false;
}

/* The first that left without MPI and has ended; -1: none. */
static int who_left(const board *b)
{
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence == RANK_LEFT && board_is_gone(b, i)) return i;
    return -1;
}

static void rest_for_ever(int number)
{
    (void)number;
    for (;;) pause();
}

/* Keeps the main thread out of MPI. Open MPI 5 ends a rank with another status when a peer's TCP connection closes. */
static void hold_main_thread(void)
{
    const struct sigaction action = { .sa_handler = rest_for_ever };
    sigaction(SIGRTMAX, &action, NULL);
    pthread_kill(watch.main, SIGRTMAX);
}

static void end_run(int status)
{
    if (status == STATUS_HANG) hold_main_thread();
    watch.over = true;
    board_forget(watch.name);
    fail_end(status);
}

static void read_board(const board *b, double now, rank_state *s)
{
    for (int i = 0; i < b->slots; i++) {
        board_read(b, i, now, &s[i]);
        if (s[i].presence != RANK_ABSENT) continue;
        s[i].rank =
            watch.own->rank - watch.slot + i; /* as launchers number the processes of a node, unless told otherwise */
        watch_text(s[i].host, sizeof s[i].host, watch.own->host);
    }
}

/* One on each board says why the run ends. */
static bool may_tell(board *b)
{
    int32_t nobody = 0;
    return atomic_compare_exchange_strong(&b->alarm, &nobody, watch.slot + 1);
}

/* Then nothing is in the way of the end. */
static void end_saying(board *b, const char *text, int status)
{
    ssize_t unused = write(STDERR_FILENO, text, strlen(text));
    (void)unused;
    b->told = status;
    end_run(status);
}

static void add_what_is_left(char *text, size_t length)
{
    const char *leaves = watch.leaves;
    size_t used = strlen(text);
    if (leaves) snprintf(text + used, length - used, "xgsw: %s\n", leaves);
}

static void tell(board *b, const rank_state *s, int count, double quiet)
{
    static char text[VERDICT_BYTES + WATCH_SENTENCE];
    if (!may_tell(b)) return;
    verdict_say(s, count, quiet, clock_seconds(), text);
    add_what_is_left(text, sizeof text);
    end_saying(b, text, STATUS_HANG);
}

static void refuse_without(board *b, int slot)
{
    char text[512];
    watch_event asked;
    if (!may_tell(b)) return;
    cell_load(&b->slot[slot].doing, &asked);
    snprintf(
        text, sizeof text,
        "xgsw: rank %d on %s has answered %s and ended, and the others wait for it in MPI_Init: give all ranks the "
        "same arguments\n",
        b->slot[slot].rank, b->slot[slot].host, asked.name);
    end_saying(b, text, STATUS_REFUSED);
}

/* The one that speaks may be stopped itself. */
static void obey(const board *b)
{
    for (double began = clock_seconds(); !b->told && clock_seconds() - began < TOLD;) watch_rest();
    end_run(b->told ? b->told : STATUS_HANG);
}

static rank_state *states_of(int count)
{
    rank_state *s = calloc((size_t)count, sizeof *s);
    if (!s) end_run(STATUS_HANG);
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
    if (n == 0 || thread.said || !link_judges(l)) return;
    fprintf(stderr, "xgsw: %d nodes cannot be reached by TCP: a hang is judged by each node for itself\n", n);
    thread.said = true;
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
    if (!one_is_gone(b) || thread.gone_at == 0.0) thread.gone_at = now;
    bool gone = now - thread.gone_at > GRACE;
    int left = who_left(b);
    if (left < 0 || thread.left_at == 0.0) thread.left_at = now;
    if (now - thread.left_at > LEFT) refuse_without(b, left);
    node_word word = { quiet, exceeded_limit(b, false, now), gone };
    if (l && talk(b, l, &word, now)) b->alarm = b->told = STATUS_HANG;
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
    watch.own->tick = now;
    double quiet = quiet_seconds(b, now);
    if (speaks(b, now)) judge(b, quiet, now);
    else watch.linked = true;
    if (b->alarm) obey(b);
}

void *watch_thread(void *unused)
{
    while (!watch.over) {
        look(watch.board);
        watch_rest();
    }
    return unused;
}
