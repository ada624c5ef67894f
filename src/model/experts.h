/* State that the steps of a mixture of experts share: ranks that exchange rows, and buffers. */
#pragma once
#include "parallel/conjugate.h"
#include "plan/model/chunks.h"

typedef struct {
    sequence_parallel tensor; /* gathers and sums the experts' rows in one strip */
    group *ranks;             /* expert ranks: each holds experts / ranks of the experts */
    group *sequence_ranks[2]; /* tensor and context ranks, which share a sequence */
    router_args args;
    tensor order;                                /* [groups, tokens / groups] I32; absent: one group */
    tensor exchanged;                            /* [EP C, E/EP, h], on the way to or from other ranks; EP > 1 */
    tensor gathered, d_gathered, partial, parts; /* [T EP C, E/EP, h]; T > 1 */
    mark statistics_summed;                      /* when the layer's statistics are summed over sequence_ranks */
    tensor balance, load;                        /* of the step: [b] F64, [layers of the model, 2, E] F64 */
    const chunk_extent *chunk;                   /* [chunks] of the stage */
    int chunks;
    int64_t microbatch;     /* current microbatch */
    tensor logits, choices; /* check models, instead of the tape's: [microbatches, layers, tokens, E], [.., 2] */
} mixture;

/* Returns the sequence position of local position i of g's context rank `rank` / T and tensor rank `rank` mod T. */
int64_t mixture_position(const capacity_groups *g, int64_t sequence, int rank, int64_t i);
/* Returns what a check model's router computed, [tokens, E], or chose, [tokens, 2], in a microbatch of this step.
 * layer: in the stage. */
tensor mixture_logits(const mixture *x, int64_t microbatch, int64_t layer);
tensor mixture_choices(const mixture *x, int64_t microbatch, int64_t layer);
