/* Signals are blocked and taken from the pending ones, because handlers corrupted the heap inside oneDNN's products in
 * some runs. The received signal is state of the process, as its signals are. */
#include "base/interrupt.h"
#include <signal.h>
#include <stddef.h>
#include <time.h>

static int came;

static sigset_t asking(void)
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
    const sigset_t set = asking();
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int interrupt_signal(void)
{
    const struct timespec now = { 0, 0 };
    const sigset_t set = asking();
    int number = came ? 0 : sigtimedwait(&set, NULL, &now);
    if (number > 0) came = number;
    return came;
}
