/* The door to NCCL. What is being called is process state, as NCCL's is. */
#include "machine/cuda/transfers/nccl_call.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/interrupt.h"
#include "machine/op/activity.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double LOOK = 0.02, ABANDON = 5.0; /* seconds */

static struct {
    bool opened;
    const char *who, *call; /* of the main thread's call */
    void (*let_go)(void);
    atomic_bool ending, gone;
} calls;

void nccl_open(void)
{
    char why[256] = "";
    if (calls.opened) return;
    if (!nccl_load(why, sizeof why)) FAIL("NCCL: %s", why);
    calls.opened = true;
}

/* The run already ends: that is left to who ends it. */
static void stand_aside(void)
{
    while (atomic_load(&calls.ending)) pause();
}

/* The function's name, without its arguments. */
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

void nccl_end(ncclResult_t result, const char *file, int line)
{
    activity_wait_end();
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
    pthread_t thread;
    calls.let_go = let_go;
    if (interrupt_start_thread(&thread, abandon, NULL) == 0) pthread_detach(thread);
    for (double began = clock_seconds(); !atomic_load(&calls.gone) && clock_seconds() - began < ABANDON;)
        clock_rest(LOOK);
}
