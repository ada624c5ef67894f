/* host/: the host machine, whose queues run on this rank's cores. Kernels are host_NAME for each kind of operation, in
 * plain C with OpenMP, products by oneDNN. Scratch is the queue's, host_scratch_of(o) long and 64-byte aligned. */
#pragma once
#include "machine/queue/backend.h"

/* Bytes of scratch, whatever the settings; builds and caches the oneDNN primitive of a product. */
size_t host_scratch_of(const machine_tuning *t, const op *o);
/* Runs a computing operation to completion. */
void host_compute(const op *o, void *scratch);

#define HOST_KERNEL(constant, name) void host_##name(const op *o, void *scratch);
OPS_COMPUTED(HOST_KERNEL)

/* Bytes of scratch, for the kernels that need it. */
size_t host_matmul_scratch(const op *o);
size_t host_embedding_backward_scratch(const op *o);
size_t host_norm_backward_scratch(const op *o);
size_t host_attention_backward_scratch(const op *o);
size_t host_gelu_backward_scratch(const op *o);
size_t host_column_sums_scratch(const op *o);
size_t host_cross_entropy_scratch(const op *o);

/* What is asked of oneDNN (onednn.c, with one file per major version of its interface).
 * x: c[m, n], a[m, k], b[k, n], or such matrices of groups [g, m, n], ...; c = a b (WRITE) or c += a b (UPDATE),
 * accumulated in FP32 and rounded once. Rows of c are contiguous; of a and b, rows or columns. a and b are both F32, or
 * both BF16 if onednn_multiplies_bf16; c is F32 or like a. */
void onednn_multiply(const tensor x[3], access_mode how, void *scratch);
/* Bytes of scratch that onednn_multiply needs; builds what it runs. */
size_t onednn_scratch(const tensor x[3], access_mode how);

/* Returns whether the library multiplies faster if the rows of the right operand lie a little further apart. */
bool onednn_reads_slowly(const tensor x[3]);

/* Returns whether this processor multiplies BF16 by itself. If not, oneDNN refuses, or is slower than in FP32. */
bool onednn_multiplies_bf16(void);
/* "oneDNN 2.6.3 (avx512_core_bf16)" as loaded. */
const char *onednn_library(char *text, size_t length);

/* Transfers: start posts messages, test returns true when finished. state is one per running transfer. */
typedef struct host_transfer host_transfer;
size_t host_transfer_scratch(const op *o);
host_transfer *host_transfer_open(void); /* reused for many transfers; owned by the executor */
void host_transfer_close(host_transfer *t);
void host_transfer_start(host_transfer *t, const op *o, void *scratch);
bool host_transfer_test(host_transfer *t);

/* Parts of consecutive ranks, added in rank order. Part i lies at base + i stride; `own` (-1: none) at own_part. */
typedef struct {
    char *base;
    size_t stride;
    int count, own;
    char *own_part;
} rank_parts;

/* What a running sum is kept in: F32 for F32 and BF16, else the type itself. */
dtype rank_sum_type(dtype type);
/* to[i] = before[i] + part 0 [i] + part 1 [i] + ... for i < n; F32 and BF16 in FP32, rounded once to to_type; of I32
 * the largest of them. before: a running sum, NULL: none; it may be `to`. */
void rank_sum(void *to, dtype to_type, const void *before, const rank_parts *parts, dtype type, int64_t n);

/* Proof of an access list: WRITE operands are filled with NaN before, READ operands must be unchanged after. */
typedef struct {
    uint64_t sum[OP_OPERANDS]; /* of READ operands, before */
} access_proof;
void access_proof_before(access_proof *p, const op *o);
/* Ends the run, naming the operation and the operand, if a READ operand changed. */
void access_proof_after(access_proof *p, const op *o);

/* The executor behind machine/queue/backend.h. */
void *executor_open(const machine_options *options, history *h);
void executor_close(void *state);
void executor_submit(void *state, const submission *s);
/* Runs operations until the queue's `serial` is complete. */
void executor_sync(void *state, int queue, uint64_t serial);
