/* What the steps of a mixture of experts share: who exchanges rows, and where. */
#pragma once
#include "parallel/conjugate.h"
#include "plan/model/chunks.h"

typedef struct {
    sequence_parallel tensor; /* gathers and sums the experts' rows in one strip */
    group *ranks;             /* of the experts: each has experts / ranks of them */
    group *whole[2];          /* tensor, context: ranks that share a sequence */
    router_args args;
    tensor order;                                /* [groups, tokens / groups] I32; absent: one group */
    tensor exchanged;                            /* [EP C, E/EP, h], on its way to or from other ranks; EP > 1 */
    tensor gathered, d_gathered, partial, parts; /* [T EP C, E/EP, h]; T > 1 */
    mark counted;                                /* the statistics of the layer's forward are of whole sequences */
    tensor balance, load;                        /* of the step: [b] F64, [layers of the model, 2, E] F64 */
    const chunk_extent *chunk;                   /* [chunks] of the stage */
    int chunks;
    int64_t microbatch;     /* the one at work */
    tensor logits, choices; /* of check models, in place of the tape's: [microbatches, layers, tokens, E], [.., 2] */
} mixture;

/* Where in the sequence position i stands of those that a rank holds: context rank `rank` / T, tensor rank `rank` mod T
 * of g. */
int64_t mixture_position(const capacity_groups *g, int64_t sequence, int rank, int64_t i);
/* What a check model's router computed, [tokens, E], and decided, [tokens, 2], in a microbatch of this step. layer: of
 * the stage. */
tensor mixture_logits(const mixture *x, int64_t microbatch, int64_t layer);
tensor mixture_choices(const mixture *x, int64_t microbatch, int64_t layer);
