/* Checked calls of NCCL. The watch sees a call while it blocks. Communicators are blocking: a non-blocking one would
 * start a thread for every transfer. */
#pragma once
#include "machine/cuda/device/libraries.h"

/* Ends the run if the call fails. Prints the call, the communicator's name and NCCL's message. Keep name valid. */
#define NCCL(name, call) nccl_end((nccl_begin((name), #call), (call)), __FILE__, __LINE__)
/* Does the same for a call that may fail, and returns its result. */
#define NCCL_TRY(name, call) nccl_tried((nccl_begin((name), #call), (call)))
void nccl_begin(const char *name, const char *call);
ncclResult_t nccl_tried(ncclResult_t result);
void nccl_end(ncclResult_t result, const char *file, int line);

/* Loads the library before the first call. Ends the run if that fails. */
void nccl_open(void);
/* Runs abort_all, which releases the peers of a failed run, in a separate thread. Waits for it for at most 5 s. */
void nccl_abort_with(void (*abort_all)(void));
