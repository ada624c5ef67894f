/* The signal that came is the process's own state, as its handlers are. */
#include "base/interrupt.h"
#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t came;

static void note(int number)
{
    if (!came) came = number;
}

static void install(int number, int flags)
{
    struct sigaction action = { .sa_handler = note, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void interrupt_install(void)
{
    signal(SIGPIPE, SIG_IGN); /* an error of the write instead: the record is still to come */
    install(SIGTERM, SA_RESTART);
    install(SIGUSR1, SA_RESTART);
    install(SIGINT, SA_RESTART | (int)SA_RESETHAND);
}

int interrupt_signal(void) { return came; }
