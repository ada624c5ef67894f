/* Checked calls of NCCL. The current call is process state, like NCCL's own state. */
#include "machine/cuda/transfers/nccl_call.h"
#include "base/clock.h"
#include "base/fail.h"
#include "machine/op/activity.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double LOOK = 0.02, ABANDON = 5.0; /* seconds */

static struct {
    bool opened;
    const char *who, *call; /* of the main thread: communicator and text of its call */
    void (*let_go)(void);
    atomic_bool ending, gone;
} calls;

/* Starts a detached thread that blocks all signals: only the main thread handles them. */
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
    if (calls.opened) return;
    if (!nccl_load(why, sizeof why)) FAIL("NCCL: %s", why);
    calls.opened = true;
}

/* Sleeps forever if the run is ending: the thread that ends it reports the cause, not its consequences here. */
static void stand_aside(void)
{
    while (atomic_load(&calls.ending)) pause();
}

static int call_length(void) { return (int)strcspn(calls.call, "("); }

void nccl_begin(const char *who, const char *call)
{
    stand_aside();
    calls.who = who;
    calls.call = call;
    activity e = { .step = -1, .microbatch = -1, .layer = -1, .since = clock_seconds() };
    snprintf(e.kind, sizeof e.kind, "%.*s", call_length(), call);
    activity_text(e.name, sizeof e.name, who);
    activity_wait(&e);
}

ncclResult_t nccl_tried(ncclResult_t result)
{
    activity_wait_end();
    if (result != ncclSuccess) cudaGetLastError(); /* clears the error, or the next launch would seem to have failed */
    return result;
}

void nccl_end(ncclResult_t result, const char *file, int line)
{
    nccl_tried(result);
    if (result == ncclSuccess) return;
    stand_aside();
    fail_at(file, line, STATUS_FAILED, "%.*s for %s: %s; %s", call_length(), calls.call, calls.who,
            ncclGetErrorString(result), ncclGetLastError(NULL));
}

static void *abandon(void *unused)
{
    calls.let_go();
    atomic_store(&calls.gone, true);
    return unused;
}

void nccl_abandon(void (*let_go)(void))
{
    if (!calls.opened || atomic_exchange(&calls.ending, true)) return;
    calls.let_go = let_go;
    start_thread(abandon);
    for (double began = clock_seconds(); !atomic_load(&calls.gone) && clock_seconds() - began < ABANDON;)
        clock_rest(LOOK);
}
