/* Signals that ask a process to stop: SIGTERM, SIGINT, SIGUSR1. They are kept until somebody looks; no handler runs. */
#pragma once
#include <pthread.h>

/* From now on; before there are threads, which inherit it. */
void interrupt_install(void);
/* The number of the first that came; 0: none did. */
int interrupt_signal(void);
/* Starts a thread that takes no signals, which are the main thread's. Returns the code of pthread_create. */
int interrupt_start_thread(pthread_t *made, void *(*run)(void *), void *of);
