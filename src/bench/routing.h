/* What the routers of a check model decided: by the rule, and as the references would have, whose steps take it. */
#pragma once
#include "bench/reference.h"
#include "train/trainer.h"

/* How many of this rank's choices of the last step are not the two largest of the logits that its routers computed, or
 * were dropped or kept against the rule. The caller has waited for the step. t NULL: takes no part. */
int64_t routing_broken(const trainer *t);
/* The last step's choices into the references' trainers. Collective over the world. */
void routing_give(const trainer *t, reference of[], int references);
/* Of the tokens that this rank's reference has routed as it was given: how many it would have given to another expert,
 * and by how much that one's logit was larger, at most. */
typedef struct {
    int64_t flips;
    double margin;
} routing_flips;
routing_flips routing_compare(const trainer *t);
