/* The door to NCCL, and the thread that watches it. What is being called is process state, as NCCL's is. */
#include "machine/cuda/transfers/nccl_watch.h"
#include "base/clock.h"
#include "base/fail.h"
#include "machine/world.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MILLISECONDS = 20, ABANDON_SECONDS = 5 };

static struct {
    bool opened;
    _Atomic(const char *) who, call; /* of the main thread's call, if began is not 0 */
    _Atomic double began;
    void (*let_go)(void);
    atomic_bool ending, gone;
} watch;

static void rest(void)
{
    const struct timespec pause = { 0, LOOK_MILLISECONDS * 1000000L };
    nanosleep(&pause, NULL);
}

/* The function's name, without its arguments. */
static int call_length(void) { return (int)strcspn(watch.call, "("); }

static void *watch_calls(void *unused)
{
    for (;;) {
        double began = atomic_load(&watch.began);
        if (began > 0.0 && world_stalled(began) && atomic_load(&watch.began) == began)
            FAIL_STATUS(STATUS_HANG, "%.*s for %s: no rank of this node has completed anything for %.0f s",
                        call_length(), watch.call, watch.who, world_stall_seconds());
        rest();
    }
    return unused;
}

/* Signals are the main thread's. */
static void start_thread(void *(*run)(void *))
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) pthread_detach(thread);
}

void nccl_open(void)
{
    char why[256] = "";
    if (watch.opened) return;
    if (!nccl_load(why, sizeof why)) FAIL("NCCL: %s", why);
    start_thread(watch_calls);
    watch.opened = true;
}

/* The run already ends: that is left to who ends it. */
static void stand_aside(void)
{
    while (atomic_load(&watch.ending)) pause();
}

void nccl_begin(const char *who, const char *call)
{
    stand_aside();
    watch.who = who;
    watch.call = call;
    atomic_store(&watch.began, clock_seconds());
}

void nccl_end(ncclResult_t result, const char *file, int line)
{
    atomic_store(&watch.began, 0.0);
    if (result == ncclSuccess) return;
    stand_aside();
    fail_at(file, line, STATUS_FAILED, "%.*s for %s: %s; %s", call_length(), watch.call, watch.who,
            ncclGetErrorString(result), ncclGetLastError(NULL));
}

static void *abandon(void *unused)
{
    watch.let_go();
    atomic_store(&watch.gone, true);
    return unused;
}

void nccl_abandon(void (*let_go)(void))
{
    if (!watch.opened || atomic_exchange(&watch.ending, true)) return;
    atomic_store(&watch.began, 0.0);
    watch.let_go = let_go;
    start_thread(abandon);
    for (double began = clock_seconds(); !atomic_load(&watch.gone) && clock_seconds() - began < ABANDON_SECONDS;)
        rest();
}
