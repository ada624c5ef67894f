/* The layers of each chunk of the pipeline. The model is cut into pipeline x chunks_per_stage chunks of equal length;
 * chunk c of stage p has number c * pipeline + p. If shape_slots returns 2, embedding and loss count as one layer each,
 * so the first or last chunk may hold no layer. Narayanan et al. 2021, section 2.2. */
#pragma once
#include "plan/model/params.h"

typedef struct {
    int64_t first_layer, layers;
    bool has_embedding, has_loss; /* has_loss: final norm, head and loss */
} chunk_extent;

/* Returns the extent of a chunk. The case's layers and slots must be divisible (plan/deck/contradictions.c). */
chunk_extent chunk_of(const bench_case *c, int stage, int chunk);
/* Returns the layers of all chunks of a stage. */
int64_t stage_layers(const bench_case *c, int stage);
/* Returns where a stage uses parameters: bits AT_EMBEDDING, AT_LAYER, AT_LOSS. */
unsigned stage_places(const bench_case *c, int stage);
