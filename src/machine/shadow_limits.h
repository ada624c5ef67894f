/* How far a machine's results may be from the host's, kind by kind; op_rules.c says which kind has which limit. */
#pragma once
#include "machine/op.h"

/* |x - reference| <= roundings units in the last place of the larger + absolute x largest |reference| of the tensor;
 * exact: no difference at all. */
typedef struct {
    bool exact;
    double roundings, absolute;
} shadow_limit;

/* Of one operand of an operation whose operands lie in host memory, or nowhere. */
typedef shadow_limit op_limit(const op *o, const op_home *home, int which);
op_limit limit_of_product, limit_of_embedding_backward, limit_of_norm_forward, limit_of_norm_backward,
    limit_of_attention_forward, limit_of_attention_backward, limit_of_attention_merge, limit_of_cross_entropy,
    limit_of_scalars, limit_of_doubles;
