/* Signals that ask a process to stop: SIGTERM, SIGINT, SIGUSR1. The first that came is kept; what becomes of it is up
 * to who asks. A second SIGINT ends the process at once, as without this. */
#pragma once

void interrupt_install(void);
/* Its number; 0: none came. */
int interrupt_signal(void);
