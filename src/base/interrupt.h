/* Signals that ask a process to stop: SIGTERM, SIGINT, SIGUSR1. They are kept until somebody looks; no handler runs. */
#pragma once

/* From now on; before there are threads, which inherit it. */
void interrupt_install(void);
/* The number of the first that came; 0: none did. */
int interrupt_signal(void);
