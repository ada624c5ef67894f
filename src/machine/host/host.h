/* The host machine's kernels: plain C, OpenMP, oneDNN for products. One function host_NAME per operation kind; scratch
 * is the queue's, at least host_scratch_of(o) long and 64-byte aligned. */
#pragma once
#include "machine/group.h"
#include "machine/op.h"
#include "machine/options.h"

/* Bytes of scratch the op needs, a transfer or not, whatever the settings; builds and caches the oneDNN primitive of a
 * product. */
size_t host_scratch_of(const machine_tuning *t, const op *o);
/* Runs a computing operation to completion. */
void host_compute(const op *o, void *scratch);

#define HOST_KERNEL(constant, name) void host_##name(const op *o, void *scratch);
OPS_COMPUTED(HOST_KERNEL)

/* Of the kernels that need scratch. */
size_t host_matmul_scratch(const op *o);
size_t host_embedding_backward_scratch(const op *o);
size_t host_norm_backward_scratch(const op *o);
size_t host_attention_forward_scratch(const op *o);
size_t host_attention_backward_scratch(const op *o);
size_t host_cross_entropy_scratch(const op *o);

const char *host_matmul_library(char *text, size_t length); /* "oneDNN 2.6.3 (avx512_core_bf16)" as loaded */

/* Transfers: start posts messages, test returns true when finished. state is one per running transfer. */
typedef struct host_transfer host_transfer;
size_t host_transfer_scratch(const op *o);
host_transfer *host_transfer_open(void); /* reused for many transfers; owned by the executor */
void host_transfer_close(host_transfer *t);
void host_transfer_start(host_transfer *t, const op *o, void *scratch);
bool host_transfer_test(host_transfer *t);
