/* Signals that ask a process to stop: SIGTERM, SIGINT, SIGUSR1. They stay pending until read; no handler runs. */
#pragma once

/* Blocks these signals. Call it before threads start, because they inherit the mask. */
void interrupt_install(void);
/* Returns the number of the first signal received, or 0. */
int interrupt_signal(void);
