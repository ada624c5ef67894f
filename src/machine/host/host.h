/* host/: the host machine, whose queues run on this rank's cores. Kernels host_NAME are C with OpenMP, one for each
 * kind of operation; oneDNN multiplies. scratch: host_scratch_of(o) bytes, 64-byte aligned, owned by the queue. */
#pragma once
#include "machine/queue/backend.h"

/* Returns the bytes of scratch, whatever the tuning. Builds and caches the oneDNN primitive of a product. */
size_t host_scratch_of(const machine_tuning *t, const op *o);
/* Runs a computing operation to completion. */
void host_compute(const op *o, void *scratch);

#define HOST_KERNEL(constant, name) void host_##name(const op *o, void *scratch);
OPS_COMPUTED(HOST_KERNEL)

/* Bytes of scratch of the kernels that need it. */
size_t host_matmul_scratch(const op *o);
size_t host_embedding_backward_scratch(const op *o);
size_t host_norm_backward_scratch(const op *o);
size_t host_attention_backward_scratch(const op *o);
size_t host_gelu_backward_scratch(const op *o);
size_t host_column_sums_scratch(const op *o);
size_t host_cross_entropy_scratch(const op *o);

/* Multiplies with oneDNN. x: c[m, n], a[m, k], b[k, n], or groups of them [g, m, n], ... Sets c = a b (WRITE) or
 * c += a b (UPDATE), summed in FP32 and rounded once. Rows of c are contiguous; rows or columns of a and of b are. a
 * and b are both F32, or both BF16 if onednn_multiplies_bf16. c is F32 or has a's format. */
void onednn_multiply(const tensor x[3], access_mode access, void *scratch);
/* Returns the bytes of scratch of onednn_multiply, and builds its primitive. */
size_t onednn_scratch(const tensor x[3], access_mode access);

/* Returns whether oneDNN multiplies faster if rows of the right operand have a gap between them. */
bool onednn_prefers_row_gap(const tensor x[3]);

/* Returns whether this processor multiplies BF16. If not, oneDNN refuses BF16 or is slower than in FP32. */
bool onednn_multiplies_bf16(void);
/* Writes the loaded version: "oneDNN 2.6.3 (avx512_core_bf16)". Returns text. */
const char *onednn_library(char *text, size_t length);

/* Transfers. start posts the messages; test returns true when all are done. One object per running transfer. */
typedef struct host_transfer host_transfer;
size_t host_transfer_scratch(const op *o);
host_transfer *host_transfer_open(void); /* reusable; owned by the caller */
void host_transfer_close(host_transfer *t);
void host_transfer_start(host_transfer *t, const op *o, void *scratch);
bool host_transfer_test(host_transfer *t);

/* Parts of consecutive ranks. Part i is at base + i * stride, except part `own` (-1: none), which is at own_part. */
typedef struct {
    char *base;
    size_t stride;
    int count, own;
    char *own_part;
} rank_parts;

/* Returns the format of a running sum: F32 for F32 and BF16, otherwise the type itself. */
dtype rank_sum_type(dtype type);
/* to[i] = before[i] + part 0 [i] + part 1 [i] + ..., i < n. Adds F32 and BF16 in FP32 and rounds once to to_type; takes
 * the maximum of I32. before: a running sum, or NULL; may be the same as `to`. */
void rank_sum(void *to, dtype to_type, const void *before, const rank_parts *parts, dtype type, int64_t n);

/* Checks an access list: fills WRITE operands with NaN before the operation, and compares READ operands after it. */
typedef struct {
    uint64_t sum[OP_OPERANDS]; /* checksums of READ operands before the operation */
} access_proof;
void access_proof_before(access_proof *p, const op *o);
/* Ends the run if a READ operand changed, and names the operation and the operand. */
void access_proof_after(access_proof *p, const op *o);

/* The executor, as declared in machine/queue/backend.h. */
void *executor_open(const machine_options *options, history *h);
void executor_close(void *state);
void executor_submit(void *state, const submission *s);
/* Runs operations until operation `serial` of the queue is complete. */
void executor_sync(void *state, int queue, uint64_t serial);
