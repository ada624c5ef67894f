/* The host machine: queues of operations run on this rank's cores. Its kernels are plain C, OpenMP, oneDNN for
 * products: one function host_NAME per operation kind; scratch is the queue's, at least host_scratch_of(o) long and
 * 64-byte aligned. */
#pragma once
#include "machine/backend.h"

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

/* Proof of an operation's access list: WRITE operands are filled with NaN before it, READ operands must be unchanged
 * after. */
typedef struct {
    uint64_t sum[OP_OPERANDS]; /* of READ operands, before */
} access_proof;
void access_proof_before(access_proof *p, const op *o);
/* Ends the run, naming the operation and the operand, if a READ operand changed. */
void access_proof_after(access_proof *p, const op *o);

/* The executor behind machine/backend.h. */
void *executor_open(const machine_options *options, history *h);
void executor_close(void *state);
void executor_submit(void *state, const submission *s);
/* Runs operations until the queue's `serial` is complete. */
void executor_sync(void *state, int queue, uint64_t serial);
