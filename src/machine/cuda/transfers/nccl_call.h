/* Checks every call of NCCL, and tells the watch while it blocks. A non-blocking communicator would start a thread for
 * every transfer. */
#pragma once
#include "machine/cuda/device/libraries.h"

/* A failure ends the run with the call, whose it was, and the library's words. who lives as long as the call. */
#define NCCL(who, call) nccl_end((nccl_begin((who), #call), (call)), __FILE__, __LINE__)
/* The same for a call that may fail: returns its result. */
#define NCCL_TRY(who, call) nccl_tried((nccl_begin((who), #call), (call)))
void nccl_begin(const char *who, const char *call);
ncclResult_t nccl_tried(ncclResult_t result);
void nccl_end(ncclResult_t result, const char *file, int line);

/* Before the first call: loads the library, or ends the run. */
void nccl_open(void);
/* Runs what lets go of the peers, in a thread of its own, for as long as the bound allows; then the run ends anyway. */
void nccl_abandon(void (*let_go)(void));
