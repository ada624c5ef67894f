/* What the steps of a mixture of experts share: who exchanges rows, and where. */
#pragma once
#include "parallel/conjugate.h"

typedef struct {
    sequence_parallel tensor; /* gathers and sums the experts' rows in one strip */
    group *ranks;             /* of the experts: each has experts / ranks of them */
    group *whole[2];          /* tensor, context: ranks that share a sequence */
    router_args args;
    tensor order;                                /* [groups, tokens / groups] I32; absent: one group */
    tensor exchanged;                            /* [EP C, E/EP, h], on its way to or from other ranks; EP > 1 */
    tensor gathered, d_gathered, partial, parts; /* [T EP C, E/EP, h]; T > 1 */
    mark counted;                                /* the statistics of the layer's forward are of whole sequences */
    tensor balance, load;                        /* of the step: [b] F64, [2, E] F64 */
} mixture;
