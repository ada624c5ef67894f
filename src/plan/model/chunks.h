/* Which layers a chunk of the pipeline holds. The model is cut into pipeline x chunks_per_stage chunks of equal length,
 * chunk c of stage p being number c * pipeline + p; embedding and loss count as a slot each where shape_slots says so,
 * so the first or the last chunk may hold no layer at all. Narayanan et al. 2021, section 2.2. */
#pragma once
#include "plan/model/params.h"

typedef struct {
    int64_t first_layer, layers;
    bool has_embedding, has_loss; /* the embedding; final norm, head and loss */
} chunk_extent;

/* The case's layers and slots must divide (plan/deck/contradictions.c). */
chunk_extent chunk_of(const bench_case *c, int stage, int chunk);
/* Layers of all chunks of a stage. */
int64_t stage_layers(const bench_case *c, int stage);
/* Where a stage uses parameters: bits AT_EMBEDDING, AT_LAYER, AT_LOSS. */
unsigned stage_places(const bench_case *c, int stage);
