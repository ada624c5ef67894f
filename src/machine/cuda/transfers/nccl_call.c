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

static const double POLL_SECONDS = 0.02, ABORT_SECONDS = 5.0; /* seconds */

static struct {
    bool opened;
    const char *name, *call; /* the main thread's current communicator and call */
    void (*abort_all)(void);
    atomic_bool aborting, aborted;
} calls;

/* Starts a detached thread. It blocks all signals, because only the main thread handles them. */
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

/* Sleeps forever if another thread aborts: it reports the cause, and an error here is only a consequence. */
static void sleep_if_aborting(void)
{
    while (atomic_load(&calls.aborting)) pause();
}

static int call_length(void) { return (int)strcspn(calls.call, "("); }

void nccl_begin(const char *name, const char *call)
{
    sleep_if_aborting();
    calls.name = name;
    calls.call = call;
    activity e = { .step = -1, .microbatch = -1, .layer = -1, .since = clock_seconds() };
    snprintf(e.kind, sizeof e.kind, "%.*s", call_length(), call);
    activity_text(e.name, sizeof e.name, name);
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
    sleep_if_aborting();
    fail_at(file, line, STATUS_FAILED, "%.*s for %s: %s; %s", call_length(), calls.call, calls.name,
            ncclGetErrorString(result), ncclGetLastError(NULL));
}

static void *run_abort(void *unused)
{
    calls.abort_all();
    atomic_store(&calls.aborted, true);
    return unused;
}

void nccl_abort_with(void (*abort_all)(void))
{
    if (!calls.opened || atomic_exchange(&calls.aborting, true)) return;
    calls.abort_all = abort_all;
    start_thread(run_abort);
    for (double began = clock_seconds(); !atomic_load(&calls.aborted) && clock_seconds() - began < ABORT_SECONDS;)
        clock_rest(POLL_SECONDS);
}
