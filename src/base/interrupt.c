/* Signals are blocked, and pending ones are polled, because handlers corrupted the heap inside oneDNN's products in
 * some runs. The received signal belongs to the process, as its signals do. */
#include "base/interrupt.h"
#include <signal.h>
#include <stddef.h>
#include <time.h>

static int received;

static sigset_t stop_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    return set;
}

/* Ignores SIGPIPE, so that a write fails with an error and the record can still be written. */
void interrupt_install(void)
{
    const sigset_t set = stop_signals();
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int interrupt_signal(void)
{
    const struct timespec now = { 0, 0 };
    const sigset_t set = stop_signals();
    int number = received ? 0 : sigtimedwait(&set, NULL, &now);
    if (number > 0) received = number;
    return received;
}
