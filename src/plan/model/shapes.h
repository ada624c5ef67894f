/* Model shapes: values that follow from a few sizes. */
#pragma once
#include "plan/catalogue/catalogue.h"

extern const mesh_layout one_rank_layout; /* the layout of one rank */

/* Sets head_dim, padded_vocabulary (a multiple of 128 x tensor) and output_init_std (init_std / sqrt(2 layers), or
 * init_std with INIT_FAN_IN). */
void shape_complete(model_shape *m, int tensor);
/* Returns the check model's complete shape on a layout; rope and labels are the workload's. slots: see shape_slots. The
 * sequence can be cut into the strips; learned positions are twice as long. The init std is that of shape_init_std, but
 * at most 0.81 / sqrt(hidden), or 0.81 / sqrt(fan-in) with INIT_FAN_IN unless the embedding is tied. */
model_shape shape_check(const workload_row *w, const mesh_layout *layout, int strips, int slots);
/* Returns the largest number of strips, at most `most`, with which strips x tensor divides a context rank's positions;
 * 1 for one tensor rank. */
int strips_within(int most, int64_t positions, int tensor);
/* Returns the init std for a model of another width: the recipe's x sqrt(recipe hidden / hidden), or the recipe's with
 * INIT_FAN_IN. */
double shape_init_std(const workload_row *w, int64_t hidden);
/* Returns the slots of embedding and loss in the pipeline's chunks: 2 if layers + 2 is divisible by pipeline x chunks,
 * 0 if layers is (or without a pipeline), -1 if neither is. */
int shape_slots(int64_t layers, const mesh_layout *layout);
/* Returns whether bytes of parameters and of activations, and the tokens, fit in 63 bits with a margin. If not, *what
 * is the formula of the first that does not. */
bool shape_fits(const bench_case *c, const char **what);
