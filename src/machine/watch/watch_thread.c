/* The watching thread: reads the board, decides whether the run stalls, and ends it. */
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

static const double CHECK_INTERVAL = 0.05;     /* seconds, like the next six */
static const double AWAKE_SECONDS = 1.0;       /* a thread that ticked this recently is awake */
static const double SUSPENDED_SECONDS = 5.0;   /* a thread that paused this long was suspended and missed events */
static const double GONE_GRACE = 0.2;          /* after a rank is gone; some launchers give the others one second */
static const double LEFT_GRACE = 10.0;         /* after a rank left; its script may still start a run */
static const double PRINT_SECONDS = 2.0;       /* for the rank that prints */
static const double OTHER_NODES_SECONDS = 1.5; /* for other nodes to read that the run ends, or to print */
static const double WORLD_PATIENCES = 10.0; /* of a wait for all: nodes may start apart, or one rank may work for all */

watch_process watch = { .own = &watch.initial, .initial.limit = 60.0 }; /* before the deck is read */
static struct {
    uint64_t progress;
    double progress_at, checked_at, gone_at, left_at;
} thread;

void watch_begin_thread(pthread_t *started, void *(*run)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(started, NULL, run, NULL)) FAIL("cannot start the watchdog thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void watch_sleep(void) { clock_rest(CHECK_INTERVAL); }

bool watch_leads_node(const board *b, double now)
{
    for (int i = 0; i < watch.slot; i++)
        if (b->slot[i].presence == RANK_PRESENT && now - b->slot[i].tick < AWAKE_SECONDS) return false;
    return true;
}

/* Counts from the last completion of any rank. Time in which this thread was suspended does not count. */
static double seconds_without_progress(const board *b, double now)
{
    uint64_t sum = 0;
    for (int i = 0; i < b->slots; i++) sum += b->slot[i].activity.progress + (uint64_t)b->slot[i].presence;
    double gap = now - thread.checked_at;
    if (gap > SUSPENDED_SECONDS) thread.progress_at += gap;
    if (sum != thread.progress || thread.progress_at > now) thread.progress_at = now;
    thread.progress = sum;
    thread.checked_at = now;
    return now - thread.progress_at;
}

static bool is_blocked_here(const board *b, const activity *e, double now)
{
    for (int i = 0; i < b->slots; i++) {
        rank_state s;
        board_read(b, i, now, &s);
        if (!rank_has_entered(&s, e) || rank_is_stopped(&s)) return true;
    }
    return false;
}

/* Returns whether this node may judge a wait alone. A wait for all ranks must be long, unless a rank here blocks it. */
static bool may_judge(const board *b, const activity *e, double patiences, double now)
{
    bool sees_all = b->slots == watch.ranks;
    return e->group.key != ACTIVITY_WORLD || sees_all || patiences > WORLD_PATIENCES || is_blocked_here(b, e, now);
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

static bool any_is_gone(const board *b)
{
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence == RANK_PRESENT && board_is_gone(b, i)) return true;
    return false;
}

/* Returns the first rank that left without MPI and has terminated; -1: none. */
static int left_rank(const board *b)
{
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence == RANK_LEFT && board_is_gone(b, i)) return i;
    return -1;
}

static void pause_forever(int number)
{
    (void)number;
    for (;;) pause();
}

/* Keeps the main thread out of MPI: Open MPI 5 ends a rank with another status when a peer's TCP connection closes. */
static void pause_main_thread(void)
{
    const struct sigaction action = { .sa_handler = pause_forever };
    sigaction(SIGRTMAX, &action, NULL);
    pthread_kill(watch.main, SIGRTMAX);
}

static void end_run(int status)
{
    watch.over = true;
    board_unlink(watch.name);
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

static bool become_printer(board *b)
{
    int32_t nobody = 0;
    return atomic_compare_exchange_strong(&b->printer, &nobody, watch.slot + 1);
}

/* Prints without a lock of stdio, and gives other nodes time before it ends the run. */
static void print_and_end(board *b, const char *text, int status)
{
    ssize_t unused = write(STDERR_FILENO, text, strlen(text));
    (void)unused;
    double rest = watch.place ? OTHER_NODES_SECONDS : 0.0;
    if (status == STATUS_HANG) pause_main_thread();
    for (double began = clock_seconds(); clock_seconds() - began < rest;) watch_sleep();
    b->exit_status = status;
    end_run(status);
}

static void add_last_sentence(char *text, size_t length)
{
    const char *sentence = watch.last_sentence;
    size_t used = strlen(text);
    if (sentence) snprintf(text + used, length - used, "xgsw: %s\n", sentence);
}

void watch_report_and_end(board *b, const rank_state *all, double idle)
{
    static char text[CULPRIT_BYTES + WATCH_SENTENCE];
    if (!become_printer(b)) return;
    culprit_report(all, watch.ranks, idle, clock_seconds(), text);
    add_last_sentence(text, sizeof text);
    print_and_end(b, text, STATUS_HANG);
}

static void refuse_run(board *b, int slot)
{
    char text[512];
    activity asked;
    if (!become_printer(b)) return;
    activity_load(&b->slot[slot].activity.doing, &asked);
    snprintf(
        text, sizeof text,
        "xgsw: rank %d on %s has answered %s and ended, but the others wait for it in MPI_Init: give all ranks the "
        "same arguments\n",
        b->slot[slot].rank, b->slot[slot].host, asked.name);
    print_and_end(b, text, STATUS_REFUSED);
}

/* Waits a limited time, because the rank that prints may be stopped itself. */
static void wait_for_printer(const board *b)
{
    pause_main_thread();
    for (double began = clock_seconds(); !b->exit_status && clock_seconds() - began < PRINT_SECONDS;) watch_sleep();
    end_run(b->exit_status ? b->exit_status : STATUS_HANG);
}

rank_state *watch_all_states(const board *b, double now)
{
    const node_place *place = watch.place;
    rank_state *all = calloc((size_t)watch.ranks, sizeof *all), *here = calloc((size_t)b->slots, sizeof *here);
    if (!all || !here) end_run(STATUS_HANG);
    for (int i = 0; i < watch.ranks; i++) {
        all[i] = (rank_state){ .rank = i };
        rank_set_unreachable(&all[i]);
        activity_text(all[i].host, sizeof all[i].host, place ? place[i].host : "another node");
    }
    watch_read_board(b, now, here);
    for (int i = 0; i < b->slots; i++)
        if (here[i].rank >= 0 && here[i].rank < watch.ranks) all[here[i].rank] = here[i];
    free(here);
    return all;
}

double watch_patience(void) { return watch.own->limit + watch.own->activity.allowance; }
/* An idle node checks for a request every 1/8 of the patience. The rest is time for the file system. */
double watch_node_timeout(void) { return 0.25 * watch_patience() + 3.0; }

static bool first_node_may_judge(double excess, double now)
{
    return watch.first_node_known &&
           (excess < watch_node_timeout() || now - watch.first_node_read < watch_node_timeout());
}

static void judge(board *b, double idle, double now)
{
    if (!any_is_gone(b) || thread.gone_at == 0.0) thread.gone_at = now;
    bool gone = now - thread.gone_at > GONE_GRACE;
    int left = left_rank(b);
    if (left < 0 || thread.left_at == 0.0) thread.left_at = now;
    if (now - thread.left_at > LEFT_GRACE) refuse_run(b, left);
    double limit = watch_exceeded(b, true, now);
    bool stalls = limit > 0.0 && idle > limit && !first_node_may_judge(idle - limit, now);
    if (!gone && !stalls) return;
    rank_state *all = watch_all_states(b, now);
    watch_report_and_end(b, all, idle);
    free(all);
}

static void check_board(board *b)
{
    double now = clock_seconds();
    watch.own->tick = now;
    double idle = seconds_without_progress(b, now);
    watch.idle_seconds = idle;
    if (watch_leads_node(b, now)) judge(b, idle, now);
    if (b->printer) wait_for_printer(b);
}

void *watch_thread(void *unused)
{
    while (!watch.over) {
        check_board(watch.board);
        watch_sleep();
    }
    return unused;
}
