/* The process that is watched, and its threads. */
#include "machine/watch/process.h"
#include "base/fail.h"
#include <signal.h>
#include <time.h>

enum { LOOK_MILLISECONDS = 50 };

watch_process watch = { .own = &watch.alone, .alone.limit = 60.0 }; /* before the deck is read */

void watch_begin_thread(pthread_t *thread, void *(*run)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(thread, NULL, run, NULL)) FAIL("no thread that watches the run");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void watch_rest(void)
{
    const struct timespec pause = { 0, LOOK_MILLISECONDS * 1000000L };
    nanosleep(&pause, NULL);
}
