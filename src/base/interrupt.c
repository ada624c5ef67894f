/* Blocked, and taken from those that wait: with handlers some runs died with a spoilt heap inside oneDNN's products
 * after a signal. The signal that came is the process's own state, as its signals are. */
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

/* SIGPIPE: an error of the write instead; the record is still to come. */
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
