/* The ends of the network: batch and embedding; final norm, head and loss. Rows of the vocabulary are split over the
 * tensor axis. */
#pragma once
#include "model/step_call.h"

/* State of a microbatch in flight, in the chunk with the embedding or the loss. A rank has at most one such chunk, or
 * only one chunk. */
typedef struct {
    tensor tokens, labels;   /* [s, b] I32, local positions */
    tensor slot[SLOTS_MOST]; /* slots that the family's head makes: of the final norm, and the logits */
} end_state;

typedef struct {
    workspace *work;
    end_state *state;
    int64_t states;               /* microbatch m uses state[m mod states] */
    tensor loss_part, loss_parts; /* [s, b, 3] F32; [T, s, b, 3], absent on one tensor rank */
} network_ends;

/* Takes memory for the ends that a stage has, if it has any. */
void ends_open(network_ends *e, workspace *w, const chunk_extent *chunk, const schedule *order, arena *a);
void ends_close(network_ends *e);

/* Makes tokens and labels of a microbatch. first_sample: its first sequence in the step. scalars: the step's. */
void batch_make(network_ends *e, int64_t microbatch, int64_t first_sample, tensor scalars);
/* Writes the embedding to x. embed_backward adds the gradient dx to the table's. */
void embed_forward(network_ends *e, int64_t microbatch, tensor x);
void embed_backward(network_ends *e, int64_t microbatch, tensor dx);
/* Writes the loss [b] F64 of each sequence, summed over local positions. */
void head_forward(network_ends *e, int64_t microbatch, residual in, tensor loss);
/* Writes to dx the gradient of the residual stream, which begins here. */
void head_backward(network_ends *e, int64_t microbatch, tensor dx);
/* Submits the head's weight gradient that the microbatch's backward left out (schedule_defers). */
void head_backward_weight(network_ends *e, int64_t microbatch);
