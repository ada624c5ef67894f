/* Names that decks and machines share: kinds of operations, of planted faults, of tokens. */
#pragma once
#include <stdbool.h>

/* Every kind of operation, once, as ROW(constant, name). The enumeration, the words of decks and reports, and the
 * tables of kernels (host_NAME, cuda_NAME) are made from these lists. For properties see machine/op/op_rules.c. */

#define OPS_OF_LAYERS(ROW)                                                                                             \
    ROW(OP_MATMUL, matmul)                                                                                             \
    ROW(OP_EMBEDDING_FORWARD, embedding_forward)                                                                       \
    ROW(OP_EMBEDDING_BACKWARD, embedding_backward)                                                                     \
    ROW(OP_NORM_FORWARD, norm_forward)                                                                                 \
    ROW(OP_NORM_BACKWARD, norm_backward)                                                                               \
    ROW(OP_ROPE_FORWARD, rope_forward)                                                                                 \
    ROW(OP_ROPE_BACKWARD, rope_backward)                                                                               \
    ROW(OP_ATTENTION_FORWARD, attention_forward)                                                                       \
    ROW(OP_ATTENTION_BACKWARD, attention_backward)                                                                     \
    ROW(OP_ADD, add)                                                                                                   \
    ROW(OP_SWIGLU_FORWARD, swiglu_forward)                                                                             \
    ROW(OP_SWIGLU_BACKWARD, swiglu_backward)                                                                           \
    ROW(OP_GELU_FORWARD, gelu_forward)                                                                                 \
    ROW(OP_GELU_BACKWARD, gelu_backward)                                                                               \
    ROW(OP_COLUMN_SUMS, column_sums)                                                                                   \
    ROW(OP_GEGLU_FORWARD, geglu_forward)                                                                               \
    ROW(OP_GEGLU_BACKWARD, geglu_backward)                                                                             \
    ROW(OP_GROUPED_MATMUL, grouped_matmul)                                                                             \
    ROW(OP_ROUTER_FORWARD, router_forward)                                                                             \
    ROW(OP_ROUTER_BACKWARD, router_backward)                                                                           \
    ROW(OP_PERMUTE, permute)                                                                                           \
    ROW(OP_UNPERMUTE_FORWARD, unpermute_forward)                                                                       \
    ROW(OP_UNPERMUTE_BACKWARD, unpermute_backward)                                                                     \
    ROW(OP_SQUARED_RELU_FORWARD, squared_relu_forward)                                                                 \
    ROW(OP_SQUARED_RELU_BACKWARD, squared_relu_backward)                                                               \
    ROW(OP_QUANTIZE, quantize)                                                                                         \
    ROW(OP_TRANSPOSE, transpose)                                                                                       \
    ROW(OP_CROSS_ENTROPY, cross_entropy)                                                                               \
    ROW(OP_ADAMW, adamw)

/* Transfers between ranks. */
#define OPS_OF_TRANSFER(ROW)                                                                                           \
    ROW(OP_ALL_GATHER, all_gather)                                                                                     \
    ROW(OP_REDUCE_SCATTER, reduce_scatter)                                                                             \
    ROW(OP_ALL_REDUCE, all_reduce)                                                                                     \
    ROW(OP_ALL_TO_ALL, all_to_all)                                                                                     \
    ROW(OP_EXCHANGE, exchange)

#define OPS_AROUND_LAYERS(ROW)                                                                                         \
    ROW(OP_FILL, fill)                                                                                                 \
    ROW(OP_COPY, copy)                                                                                                 \
    ROW(OP_SUM, sum)                                                                                                   \
    ROW(OP_SUM_PARTS, sum_parts)                                                                                       \
    ROW(OP_TOKENS, tokens)                                                                                             \
    ROW(OP_STEP_BEGIN, step_begin)                                                                                     \
    ROW(OP_SQUARE_SUM, square_sum)                                                                                     \
    ROW(OP_STEP_CLIP, step_clip)                                                                                       \
    ROW(OP_FP8_SCALES, fp8_scales)

/* Operations of set-up, checksums and planted faults. */
#define OPS_OUTSIDE_STEPS(ROW)                                                                                         \
    ROW(OP_INITIALIZE, initialize)                                                                                     \
    ROW(OP_DIGEST, digest)                                                                                             \
    ROW(OP_SIGNED_SUMS, signed_sums)                                                                                   \
    ROW(OP_SCALE, scale)                                                                                               \
    ROW(OP_FLIP, flip)

/* Operations that a step submits; a deck's fault can name them. */
#define OPS_OF_STEPS(ROW) OPS_OF_LAYERS(ROW) OPS_OF_TRANSFER(ROW) OPS_AROUND_LAYERS(ROW)
/* Operations for which a machine has a kernel. */
#define OPS_COMPUTED(ROW) OPS_OF_LAYERS(ROW) OPS_AROUND_LAYERS(ROW) OPS_OUTSIDE_STEPS(ROW)

#define OP_CONSTANT(constant, name) constant,
typedef enum { OPS_OF_STEPS(OP_CONSTANT) OPS_OUTSIDE_STEPS(OP_CONSTANT) OP_KINDS } op_kind;

const char *op_kind_name(op_kind kind);
/* Returns the kind with this name, or OP_KINDS. */
op_kind op_kind_named(const char *name);
bool op_is_transfer(op_kind kind);

/* Effect of a planted fault on the operation that it strikes. drop: not executed; its results are zero. stale: not
 * executed; its results are what memory held. repeat: executed twice. scale: its results times 2. flip: the
 * highest exponent bit of one written element is inverted. unwait: the wait before it is left out. */
typedef enum { FAULT_NONE, FAULT_DROP, FAULT_STALE, FAULT_REPEAT, FAULT_SCALE, FAULT_FLIP, FAULT_UNWAIT } fault_kind;

/* Tokens of a batch: independent and uniform, documents that count up, or all zero. */
typedef enum { TOKENS_UNIFORM, TOKENS_RAMP, TOKENS_ZEROS } tokens_kind;
