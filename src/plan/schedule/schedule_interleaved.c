/* Interleaved 1F1B: a stage runs as many microbatches through a chunk as there are stages, then through the next chunk.
 * After a longer warm-up, forwards and backwards alternate. Narayanan et al. 2021 (efficient large-scale language model
 * training), section 2.2.2. Microbatches must be a multiple of the stages. */
#include "plan/schedule/schedule.h"

/* Adds the k-th forward. The k-th backward visits the chunks in the opposite order. */
static void forward(schedule *s, schedule_place p, int64_t k)
{
    schedule_add(s, FORWARD, k / p.stages % p.chunks, k / (p.stages * p.chunks) * p.stages + k % p.stages);
}

static void backward(schedule *s, schedule_place p, int64_t k)
{
    schedule_add(s, BACKWARD, p.chunks - 1 - k / p.stages % p.chunks,
                 k / (p.stages * p.chunks) * p.stages + k % p.stages);
}

void interleaved_write(schedule *s, schedule_place p)
{
    int64_t turns = p.microbatches * p.chunks, warmup = 2 * (p.stages - p.stage - 1) + (p.chunks - 1) * p.stages;
    if (warmup > turns) warmup = turns;
    for (int64_t k = 0; k < warmup; k++) forward(s, p, k);
    for (int64_t k = warmup; k < turns; k++) {
        forward(s, p, k);
        backward(s, p, k - warmup);
    }
    for (int64_t k = turns - warmup; k < turns; k++) backward(s, p, k);
}
