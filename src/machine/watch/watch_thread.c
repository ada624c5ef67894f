/* The watching thread: it reads the board, judges and ends the run. */
#include "base/clock.h"
#include "base/fail.h"
#include "machine/watch/culprit.h"
#include "machine/watch/process.h"
#include "machine/watch/watch.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds. LOOK: between looks. FRESH: a thread that ticked so recently is awake. GAP: a thread that paused so long was
 * suspended and missed what happened. GRACE: after a rank is gone; some launchers leave the others one second. LEFT:
 * after a rank left; its script may still start a run. TOLD: for the rank that prints. */
static const double LOOK = 0.05, FRESH = 1.0, GAP = 5.0, GRACE = 0.2, LEFT = 10.0, TOLD = 2.0;
/* Patiences before a node judges a wait for all ranks: nodes may start apart, or one rank may work for all. */
static const double FAR = 10.0;
/* Seconds for other nodes to hear that the run ends, or to print what they know, before the first one ends it. */
static const double OTHERS = 1.5;

watch_process watch = { .own = &watch.alone, .alone.limit = 60.0 }; /* before the deck is read */
static struct {
    uint64_t seen;
    double seen_at, looked_at, gone_at, left_at;
} thread;

void watch_begin_thread(pthread_t *made, void *(*run)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(made, NULL, run, NULL)) FAIL("no thread that watches the run");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void watch_rest(void) { clock_rest(LOOK); }

bool watch_speaks(const board *b, double now)
{
    for (int i = 0; i < watch.slot; i++)
        if (b->slot[i].presence == RANK_HERE && now - b->slot[i].tick < FRESH) return false;
    return true;
}

/* Returns the seconds since any rank completed anything. Time in which this thread was suspended does not count. */
static double quiet_seconds(const board *b, double now)
{
    uint64_t sum = 0;
    for (int i = 0; i < b->slots; i++) sum += b->slot[i].activity.progress + (uint64_t)b->slot[i].presence;
    double gap = now - thread.looked_at;
    if (gap > GAP) thread.seen_at += gap;
    if (sum != thread.seen || thread.seen_at > now) thread.seen_at = now;
    thread.seen = sum;
    thread.looked_at = now;
    return now - thread.seen_at;
}

/* Returns whether a rank of this node keeps those waiting that wait for e. */
static bool is_held_here(const board *b, const activity *e, double now)
{
    for (int i = 0; i < b->slots; i++) {
        rank_state s;
        board_read(b, i, now, &s);
        if (!rank_has_entered(&s, e) || rank_is_stopped(&s)) return true;
    }
    return false;
}

/* Returns whether this node may judge a wait alone: a wait for all ranks only late, unless it sees who is missing. */
static bool may_judge(const board *b, const activity *e, double patiences, double now)
{
    bool sees_all = b->slots == watch.ranks;
    return e->group.key != ACTIVITY_WORLD || sees_all || patiences > FAR || is_held_here(b, e, now);
}

double watch_exceeded(const board *b, bool alone, double now)
{
    double least = 0.0;
    for (int i = 0; i < b->slots; i++) {
        board_slot *s = (board_slot *)&b->slot[i];
        activity e;
        double limit = s->limit + s->activity.allowance;
        if (s->presence == RANK_ENDING || !s->activity.waits) continue;
        activity_load(&s->activity.waiting, &e);
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

/* Returns the first rank that left without MPI and has terminated; -1: none. */
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

/* Keeps the main thread out of MPI: Open MPI 5 ends a rank with another status when a peer's TCP connection closes. */
static void hold_main_thread(void)
{
    const struct sigaction action = { .sa_handler = rest_for_ever };
    sigaction(SIGRTMAX, &action, NULL);
    pthread_kill(watch.main, SIGRTMAX);
}

static void end_run(int status)
{
    watch.over = true;
    board_forget(watch.name);
    fail_end(status);
}

void watch_read_board(const board *b, double now, rank_state *s)
{
    for (int i = 0; i < b->slots; i++) {
        board_read(b, i, now, &s[i]);
        if (s[i].presence != RANK_ABSENT) continue;
        s[i].rank = watch.own->rank - watch.slot + i; /* as launchers number the processes of a node */
        activity_text(s[i].host, sizeof s[i].host, watch.own->host);
    }
}

/* Lets one rank of each board print why the run ends. */
static bool may_tell(board *b)
{
    int32_t nobody = 0;
    return atomic_compare_exchange_strong(&b->alarm, &nobody, watch.slot + 1);
}

/* Prints without a lock of stdio, and lets other nodes hear of it before the run ends. */
static void end_saying(board *b, const char *text, int status)
{
    ssize_t unused = write(STDERR_FILENO, text, strlen(text));
    (void)unused;
    double rest = watch.place ? OTHERS : 0.0;
    if (status == STATUS_HANG) hold_main_thread();
    for (double began = clock_seconds(); clock_seconds() - began < rest;) watch_rest();
    b->told = status;
    end_run(status);
}

static void add_what_is_left(char *text, size_t length)
{
    const char *leaves = watch.leaves;
    size_t used = strlen(text);
    if (leaves) snprintf(text + used, length - used, "xgsw: %s\n", leaves);
}

void watch_tell(board *b, const rank_state *all, double quiet)
{
    static char text[CULPRIT_BYTES + WATCH_SENTENCE];
    if (!may_tell(b)) return;
    culprit_say(all, watch.ranks, quiet, clock_seconds(), text);
    add_what_is_left(text, sizeof text);
    end_saying(b, text, STATUS_HANG);
}

static void refuse_without(board *b, int slot)
{
    char text[512];
    activity asked;
    if (!may_tell(b)) return;
    activity_load(&b->slot[slot].activity.doing, &asked);
    snprintf(
        text, sizeof text,
        "xgsw: rank %d on %s has answered %s and ended, but the others wait for it in MPI_Init: give all ranks the "
        "same arguments\n",
        b->slot[slot].rank, b->slot[slot].host, asked.name);
    end_saying(b, text, STATUS_REFUSED);
}

/* Waits for the rank that prints, for some time only, because it may be stopped itself. */
static void obey(const board *b)
{
    hold_main_thread();
    for (double began = clock_seconds(); !b->told && clock_seconds() - began < TOLD;) watch_rest();
    end_run(b->told ? b->told : STATUS_HANG);
}

rank_state *watch_all_states(const board *b, double now)
{
    const node_place *place = watch.place;
    rank_state *all = calloc((size_t)watch.ranks, sizeof *all), *here = calloc((size_t)b->slots, sizeof *here);
    if (!all || !here) end_run(STATUS_HANG);
    for (int i = 0; i < watch.ranks; i++) {
        all[i] = (rank_state){ .rank = i };
        rank_lose(&all[i]);
        activity_text(all[i].host, sizeof all[i].host, place ? place[i].host : "another node");
    }
    watch_read_board(b, now, here);
    for (int i = 0; i < b->slots; i++)
        if (here[i].rank >= 0 && here[i].rank < watch.ranks) all[here[i].rank] = here[i];
    free(here);
    return all;
}

double watch_patience(void) { return watch.own->limit + watch.own->activity.allowance; }
/* An idle node looks for a question once in 1/8 of the patience. The rest is time for the file system. */
double watch_lateness(void) { return 0.25 * watch_patience() + 3.0; }

/* Returns whether the node of rank 0 may still judge. */
static bool is_judged_elsewhere(double excess, double now)
{
    return watch.shares && (excess < watch_lateness() || now - watch.heard < watch_lateness());
}

/* Judges for the node. Only the rank that acts for its node calls it. */
static void judge(board *b, double quiet, double now)
{
    if (!one_is_gone(b) || thread.gone_at == 0.0) thread.gone_at = now;
    bool gone = now - thread.gone_at > GRACE;
    int left = who_left(b);
    if (left < 0 || thread.left_at == 0.0) thread.left_at = now;
    if (now - thread.left_at > LEFT) refuse_without(b, left);
    double limit = watch_exceeded(b, true, now);
    bool stalls = limit > 0.0 && quiet > limit && !is_judged_elsewhere(quiet - limit, now);
    if (!gone && !stalls) return;
    rank_state *all = watch_all_states(b, now);
    watch_tell(b, all, quiet);
    free(all);
}

static void look(board *b)
{
    double now = clock_seconds();
    watch.own->tick = now;
    double quiet = quiet_seconds(b, now);
    watch.quiet = quiet;
    if (watch_speaks(b, now)) judge(b, quiet, now);
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
