/* What the routers of a check model decided. The references take it, and say where they would have decided otherwise.
 */
#pragma once
#include "bench/check/reference.h"
#include "train/trainer.h"

/* A sequence's choices as codes [layers, positions], each a pair of choices in one number, 0 where a rank has none: the
 * sum over the ranks is the whole. collect: this rank's part, of the last step. write: the whole, of one sequence, as
 * what one rank on the host is given before its next step in a microbatch of one sequence. */
void routing_collect(const trainer *t, int64_t sequence, double *codes);
void routing_write(const trainer *t, int64_t microbatch, const double *codes);
/* The last step's choices into the references' trainers. Collective over the world. */
void routing_give(const trainer *t, reference of[], int references);
/* The calibration's choices, as the reference of this rank is opened with: before the first step. The caller frees
 * them. Collective over the world. */
int32_t *routing_calibration(const trainer *t, const bench_case *check);
/* Of the tokens that this rank's reference has routed as it was given: how many it would have given to another expert,
 * and by how much that one's logit was larger, at most. */
typedef struct {
    int64_t flips;
    double margin;
} routing_flips;
routing_flips routing_compare(const trainer *t);
