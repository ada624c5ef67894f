/* Checked calls of NCCL. The watch sees a call while it blocks. Communicators are blocking: a non-blocking one would
 * start a thread for every transfer. */
#pragma once
#include "machine/cuda/device/libraries.h"

/* Ends the run if the call fails, and prints the call, `who` and NCCL's message. who must outlive the call. */
#define NCCL(who, call) nccl_end((nccl_begin((who), #call), (call)), __FILE__, __LINE__)
/* Does the same for a call that may fail, and returns its result. */
#define NCCL_TRY(who, call) nccl_tried((nccl_begin((who), #call), (call)))
void nccl_begin(const char *who, const char *call);
ncclResult_t nccl_tried(ncclResult_t result);
void nccl_end(ncclResult_t result, const char *file, int line);

/* Loads the library before the first call. Ends the run if that fails. */
void nccl_open(void);
/* Runs let_go in a separate thread and waits for it for at most 5 s. let_go releases the peers of a failed run. */
void nccl_abandon(void (*let_go)(void));
