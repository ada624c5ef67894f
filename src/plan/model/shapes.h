/* Model shapes: what follows from a few sizes. */
#pragma once
#include "plan/catalogue/catalogue.h"

extern const mesh_layout layout_alone; /* of one rank */

/* head_dim, padded_vocabulary (a multiple of 128 x tensor) and output_init_std (init_std / sqrt(2 layers); INIT_FAN_IN:
 * init_std) from the rest. */
void shape_complete(model_shape *m, int tensor);
/* The check model's shape on a layout, completed; rope and labels as the workload's. slots: see shape_slots.
 * The sequence is long enough for the strips, and half of the learned positions. Its init std is the scaled one, but at
 * most 0.81 / sqrt(hidden), or 0.81 / sqrt(fan-in); with a tied embedding the first. */
model_shape shape_check(const workload_row *w, const mesh_layout *layout, int strips, int slots);
/* The most strips, at most so many, that deal a context rank's positions evenly to the tensor ranks; 1 for one rank. */
int strips_within(int most, int64_t positions, int tensor);
/* The recipe's init std for a model of another width: std x sqrt(recipe hidden / hidden); INIT_FAN_IN: the recipe's. */
double shape_init_std(const workload_row *w, int64_t hidden);
/* Slots that embedding and loss count for in the pipeline's chunks: 2 if layers + 2 is divisible by pipeline x chunks,
 * 0 if layers is (or without a pipeline), -1 if neither. */
int shape_slots(int64_t layers, const mesh_layout *layout);
/* Whether parameters, activations and tokens of a step can be counted in 63 bits, in bytes and with room to spare.
 * Otherwise *what names the first that cannot. */
bool shape_fits(const bench_case *c, const char **what);
