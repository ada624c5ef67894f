/* One transformer layer: its family's steps. */
#pragma once
#include "model/step_call.h"

/* layer: its number in the model; slot: those of this microbatch. Returns what it hands on. */
residual layer_forward(workspace *w, int64_t layer, tensor *slot, residual in);
/* dx: gradient of what it handed on, replaced by that of its input. */
void layer_backward(workspace *w, int64_t layer, tensor *slot, tensor dx);
