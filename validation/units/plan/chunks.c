/* Chunks: every layer is in one chunk, in model order; embedding and loss are at the ends; the recipes' cuts. */
#include "plan/model/chunks.h"
#include "plan/model/shapes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bench_case cut(int64_t layers, int stages, int chunks)
{
    bench_case c = { .model.layers = layers };
    c.layout.degree[AXIS_PIPELINE] = stages;
    c.layout.chunks_per_stage = chunks;
    return c;
}

static void assert_chunk(const bench_case *c, int stage, int chunk, int64_t first, int64_t layers)
{
    chunk_extent e = chunk_of(c, stage, chunk);
    assert_int_equal(e.layers, layers);
    if (layers) assert_int_equal(e.first_layer, first);
}

/* Going through the chunks stage by stage, the layers are consecutive from 0 to the last. */
static void check_cover(const bench_case *c)
{
    int stages = c->layout.degree[AXIS_PIPELINE], chunks = c->layout.chunks_per_stage;
    int64_t next = 0, held = 0;
    for (int chunk = 0; chunk < chunks; chunk++)
        for (int stage = 0; stage < stages; stage++) {
            chunk_extent e = chunk_of(c, stage, chunk);
            if (e.layers) assert_int_equal(e.first_layer, next);
            assert_true(e.layers >= 0);
            next += e.layers;
            assert_int_equal(e.has_embedding, chunk == 0 && stage == 0);
            assert_int_equal(e.has_loss, chunk == chunks - 1 && stage == stages - 1);
        }
    for (int stage = 0; stage < stages; stage++) held += stage_layers(c, stage);
    assert_int_equal(next, c->model.layers);
    assert_int_equal(held, c->model.layers);
}

static void every_layer_is_held_once(void **state)
{
    for (int stages = 1; stages <= 8; stages++)
        for (int chunks = 1; chunks <= (stages > 1 ? 5 : 1); chunks++)
            for (int64_t layers = 1; layers <= 126; layers++) {
                bench_case c = cut(layers, stages, chunks);
                if (shape_slots(layers, &c.layout) >= 0) check_cover(&c);
            }
}

static void one_stage_holds_all(void **state)
{
    bench_case c = cut(32, 1, 1);
    assert_chunk(&c, 0, 0, 0, 32);
    assert_int_equal(stage_layers(&c, 0), 32);
}

/* 126 + 2 = 8 x 8 x 2: embedding and loss each take the place of a layer in the first and the last chunk. */
static void llama_405b_counts_its_ends(void **state)
{
    bench_case c = cut(126, 8, 8);
    assert_chunk(&c, 0, 0, 0, 1);
    assert_chunk(&c, 1, 0, 1, 2);
    assert_chunk(&c, 0, 1, 15, 2);
    assert_chunk(&c, 7, 7, 125, 1);
    assert_int_equal(stage_layers(&c, 0), 15);
    assert_int_equal(stage_layers(&c, 3), 16);
}

/* 30 + 2 = 4 x 8 x 1: the first chunk is only the embedding, the last chunk only the loss. */
static void chunks_without_layers(void **state)
{
    bench_case c = cut(30, 4, 8);
    assert_chunk(&c, 0, 0, 0, 0);
    assert_true(chunk_of(&c, 0, 0).has_embedding);
    assert_chunk(&c, 1, 0, 0, 1);
    assert_chunk(&c, 2, 7, 29, 1);
    assert_chunk(&c, 3, 7, 0, 0);
    assert_true(chunk_of(&c, 3, 7).has_loss);
    assert_int_equal(stage_layers(&c, 3), 7);
}

/* 82 is no multiple of 4 x 5 or 8 x 5: only layers are counted, 4 or 2 per chunk. */
static void llama_70b_counts_layers_alone(void **state)
{
    bench_case bf16 = cut(80, 4, 5), fp8 = cut(80, 8, 5);
    assert_chunk(&bf16, 0, 0, 0, 4);
    assert_chunk(&bf16, 3, 4, 76, 4);
    assert_chunk(&bf16, 0, 1, 16, 4);
    assert_chunk(&fp8, 7, 4, 78, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_is_held_once),      cmocka_unit_test(one_stage_holds_all),
        cmocka_unit_test(llama_405b_counts_its_ends),    cmocka_unit_test(chunks_without_layers),
        cmocka_unit_test(llama_70b_counts_layers_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
