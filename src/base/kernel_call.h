/* A call of the kernel by the processor's own instruction: no library stands between, so none can answer in its place.
 * One file an architecture, which the Makefile chooses; where there is none for it (kernel_call_other.c), the C library
 * calls. */
#pragma once

/* Below 0: an error. */
long kernel_call(long number, long first, long second, long third);
