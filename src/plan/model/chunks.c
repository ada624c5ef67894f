/* Chunks of the pipeline. */
#include "plan/model/chunks.h"
#include "plan/model/shapes.h"

/* Slot 0 is the embedding, or the first layer if embedding and loss have no slots. */
chunk_extent chunk_of(const bench_case *c, int stage, int chunk)
{
    int64_t layers = c->model.layers, stages = c->layout.degree[AXIS_PIPELINE],
            chunks = stages * c->layout.chunks_per_stage;
    int64_t slots = shape_slots(layers, &c->layout), number = chunk * stages + stage;
    int64_t length = (layers + slots) / chunks, first = number * length - slots / 2, last = first + length;
    if (first < 0) first = 0;
    if (last > layers) last = layers;
    return (chunk_extent){
        .first_layer = first, .layers = last - first, .has_embedding = number == 0, .has_loss = number == chunks - 1
    };
}

int64_t stage_layers(const bench_case *c, int stage)
{
    int64_t layers = 0;
    for (int i = 0; i < c->layout.chunks_per_stage; i++) layers += chunk_of(c, stage, i).layers;
    return layers;
}

unsigned stage_places(const bench_case *c, int stage)
{
    unsigned places = stage_layers(c, stage) ? AT_LAYER : 0;
    for (int i = 0; i < c->layout.chunks_per_stage; i++) {
        chunk_extent e = chunk_of(c, stage, i);
        places |= (e.has_embedding ? AT_EMBEDDING : 0u) | (e.has_loss ? AT_LOSS : 0u);
    }
    return places;
}
