/* What a rank holds. Chunks: every layer is in one chunk, in model order; embedding and loss are at the ends; the
 * recipes' cuts. Memory, compared with the table of parameters and with values by hand. How many SMs products leave
 * free: by the layout, by the transfers of copy engines, and by the deck. (units/bench/dry_run.c and program/dry_run.t
 * check that the ranks' flops and parameters add up to the model's.) */
#include "plan/model/rank_share.h"
#include "deck_source.h"
#include "model/param.h"
#include "plan/model/chunks.h"
#include "plan/model/shapes.h"
#include "plan/model/sm_shares.h"

/* ---- chunks ---- */

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

/* ---- memory ---- */

static void is_near(size_t found, int64_t expected, int64_t padding)
{
    if (llabs((long long)found - expected) > padding) fail_msg("%zu bytes, %lld by hand", found, (long long)expected);
}

/* Checks the bytes of the first rank of a stage. The table of parameters rounds each bucket up to 32 elements per owner
 * and part, and each array of a bucket up to 64 bytes. */
static void expect_states(const bench_case *c, int stage, int64_t weights, int64_t gradients, int64_t optimizer)
{
    mesh m;
    arena a;
    param_table t;
    arena_open(&a, NULL, 0);
    mesh_open(&m, &c->layout, stage * (c->layout.ranks / c->layout.degree[AXIS_PIPELINE]), MESH_PAPER);
    param_table_open(&t, c, &m, &a);
    int64_t owners = m.gradient.size, padding = t.bucket_count * 32 * owners * m.axis[AXIS_SHARD].size,
            align = 64 * 6 * t.bucket_count;
    is_near(a.by_kind[WEIGHTS], weights, padding * 4 + align);
    is_near(a.by_kind[GRADIENTS], gradients, padding * 8 + align);
    is_near(a.by_kind[OPTIMIZER], optimizer, padding / owners * 12 + align);
    param_table_close(&t);
    mesh_close(&m);
}

/* By hand: a middle stage of grok (8 layers, one of 8 experts), and 1/64 of llama 2, where each rank holds all gains,
 * but only a part of their optimizer state. FP32 gradients need no second copy for sums over tensor ranks. */
static void states_by_hand(void **state)
{
    bench_case grok = case_of("[grok1-314b]\nsize = full\n", 512, true),
               llama2 = case_of("[llama2-70b]\nsize = full\n", 64, true);
    int64_t expert = 8 * 3 * 6144ll * 32768 / 4, attention = 8 * 6144ll * (2 * 1536 + 2 * 256),
            small = 8 * (2 + 8) * 6144ll, held = expert + attention + small;
    expect_states(&grok, 1, 2 * held, 2 * held + 4 * small, 12 * (expert / 2 + attention / 16 + small / 16));
    int64_t part = model_parameters(&llama2.model) / 64, gains = 63 * 161 * 8192ll / 64;
    expect_states(&llama2, 0, 2 * (part + gains), 4 * (part + gains), 12 * part);
}

/* By hand: FP8 nemotron has a BF16 master only for its FP8 weights, which are stored twice. 12 layers per stage, FP32
 * embedding, BF16 norms, BF16 gradients with FP32 sums of the norms, two data ranks. */
static void masters_by_hand(void **state)
{
    bench_case c = case_of("[nemotron4-340b]\nsize = full\nprecision = fp8\n", 128, true);
    int64_t h = 18432, matrices = 12 * h * (2 * 12 * 192 + 2 * 192 + 2 * 73728 / 8), norms = 12 * 4 * h,
            table = 32000 * h;
    expect_states(&c, 3, 2 * (matrices + norms), 2 * matrices + 6 * norms, (6 * matrices + 4 * norms) / 2);
    expect_states(&c, 0, 2 * (matrices + norms) + 4 * table, 2 * (matrices + table) + 6 * norms,
                  (6 * matrices + 4 * (norms + table)) / 2);
}

/* By hand: GPT-3's gradients are FP32 and need no separate sums. The last stage receives the gradient of the tied
 * table; a stage that uses the table twice has two. */
static void gradients_by_hand(void **state)
{
    bench_case whole = case_of("[gpt3-175b]\nsize = full\n", 64, true),
               small = case_of("[gpt3-52k]\nsize = full\ntensor = 1\n", 1, true);
    int64_t h = 12288, layers = 12 * (4 * 1536 * h + 2 * 6144 * h + 3 * 1536 + 6144 + 4 * h + 2 * h),
            held = layers + (6400 + 16384) * h;
    expect_states(&whole, 0, 2 * held, 4 * (held + 6400 * h), 12 * held);
    expect_states(&small, 0, 2 * 75424, 4 * (75424 + 1024 * 16), 12 * 75424);
}

enum { MOST_ELEMENTS = 1 << 20 };

/* Counts how often the active ranks own each element of the model. Elements are numbered by logical row. */
static void count_owned(const bench_case *c, int rank, unsigned char *times, int64_t *elements)
{
    mesh m;
    arena a;
    param_table t;
    arena_open(&a, NULL, 0);
    mesh_open(&m, &c->layout, rank, MESH_PAPER);
    param_table_open(&t, c, &m, &a);
    for (int i = 0; i < t.rows; i++) {
        const param *p = &t.row[i];
        int64_t base = (int64_t)p->logical * (MOST_ELEMENTS / 64), whole = p->rule.rows * p->rule.columns;
        assert_true(p->logical < 64 && whole <= MOST_ELEMENTS / 64);
        elements[p->logical] = whole;
        fragment f = param_owned(&t, i);
        for (param_run r = { 0 }; bucket_first_owner(&t.buckets[p->bucket]) && param_next_run(p, f, &r);)
            for (int64_t k = 0; r.logical >= 0 && k < r.count; k++) times[base + r.logical + k]++;
    }
    param_table_close(&t);
    mesh_close(&m);
}

/* Over all ranks of a mesh, the owned runs cover the whole model, each element once. */
static void owned_once(void **state)
{
    static const char *const spread[] = { "data = 3\nsharding = none", "data = 3\nsharding = optimizer",
                                          "shard = 3\nsharding = none", "shard = 3\ndata = 2\nsharding = optimizer" };
    static unsigned char times[MOST_ELEMENTS];
    for (int i = 0; i < 4; i++) {
        char body[160];
        int64_t elements[64] = { 0 }, parameters = 0;
        snprintf(body, sizeof body, "[llama3.1-8b]\nsize = check\ntensor = 2\npipeline = 2\n%s\n", spread[i]);
        bench_case c = case_of(body, 24, true);
        memset(times, 0, sizeof times);
        for (int rank = 0; rank < c.layout.ranks; rank++) count_owned(&c, rank, times, elements);
        for (int row = 0; row < 64; row++) {
            parameters += elements[row];
            for (int64_t k = 0; k < elements[row]; k++) assert_int_equal(times[row * (MOST_ELEMENTS / 64) + k], 1);
        }
        assert_int_equal(parameters, model_parameters(&c.model));
    }
}

/* ---- SMs ---- */

enum { NODE = 8, ALONE = 1 };

static bench_case laid_out(int tensor_ranks, int pipeline, int context, int expert, int shard)
{
    bench_case c = { .layout = { .degree = { [AXIS_TENSOR] = tensor_ranks,
                                             [AXIS_PIPELINE] = pipeline,
                                             [AXIS_CONTEXT] = context,
                                             [AXIS_SHARD] = shard,
                                             [AXIS_DATA] = 2 },
                                 .expert = expert,
                                 .chunks_per_stage = pipeline > 1 ? 5 : 1 } };
    c.layout.ranks = tensor_ranks * pipeline * context * shard * 2;
    return c;
}

static sm_shares shares_in(const bench_case *c, int stage, int domain)
{
    return sm_shares_of(c, stage, copy_engine_kinds(&c->layout, domain));
}

/* Recipes on nodes of 8 GPUs, and a case where copy engines reach no other rank. */
static void the_rule_of_recipes(void **state)
{
    static const struct {
        int layout[5], left, without_engines;
        const char *words;
    } rows[] = {
        { { 1, 1, 2, 1, 1 }, 0, 8, "0 SMs left free; copy engines move context" },
        { { 4, 8, 1, 1, 1 }, 4, 8, "4 SMs left free: pipeline links 4; copy engines move tensor/expert" },
        { { 8, 8, 2, 1, 1 }, 8, 12, "8 SMs left free: pipeline links 4, context 4; copy engines move tensor/expert" },
        { { 4, 8, 2, 8, 1 }, 8, 12, "8 SMs left free: pipeline links 4, tensor/expert 4; copy engines move context" },
        { { 1, 1, 1, 1, 64 }, 8, 8, "8 SMs left free: shard 8" },
        { { 1, 1, 1, 1, 1 }, 0, 0, "0 SMs left free" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[SM_SHARES_TEXT];
        const int *n = rows[i].layout;
        bench_case c = laid_out(n[0], n[1], n[2], n[3], n[4]);
        sm_shares r = shares_in(&c, 1, NODE);
        assert_int_equal(r.left_free, rows[i].left);
        assert_string_equal(sm_shares_text(&r, text), rows[i].words);
        assert_int_equal(shares_in(&c, 1, ALONE).left_free, rows[i].without_engines);
    }
}

/* Without interleaving, the first and the last stage have only one neighbour. */
static void ends_of_a_pipeline_have_two_links(void **state)
{
    bench_case c = laid_out(1, 4, 1, 1, 1);
    assert_int_equal(shares_in(&c, 0, NODE).left_free, 4);
    c.layout.chunks_per_stage = 1;
    assert_int_equal(shares_in(&c, 0, NODE).left_free, 2);
    assert_int_equal(shares_in(&c, 1, NODE).left_free, 4);
    assert_int_equal(shares_in(&c, 3, NODE).left_free, 2);
}

/* transfer_sms overrides the rule. The blocks of all transfers that may run at once fit into it. */
static void the_deck_wins(void **state)
{
    static const int rows[][4] = { { 16, 1, 4, 4 }, { 8, 1, 1, 1 }, { 64, 4, 16, 16 }, { 0, 8, 16, 16 } };
    char text[SM_SHARES_TEXT];
    bench_case c = laid_out(4, 4, 2, 1, 1);
    c.transfer_sms_given = true;
    for (int i = 0; i < 4; i++) {
        c.transfer_sms = rows[i][0];
        sm_shares r = shares_in(&c, 1, NODE);
        assert_int_equal(r.left_free, rows[i][0]);
        assert_true(r.link_blocks == rows[i][1] && r.separate_blocks == rows[i][2] && r.shared_blocks == rows[i][3]);
        assert_true(r.left_free == 0 || 4 * r.link_blocks + 2 * r.separate_blocks + r.shared_blocks <= r.left_free);
    }
    sm_shares r = shares_in(&c, 1, NODE);
    assert_string_equal(sm_shares_text(&r, text),
                        "0 SMs left free by transfer_sms; copy engines move tensor/expert, context");
}

TEST_PROGRAM("rank_share", NULL, NULL, every_layer_is_held_once, one_stage_holds_all, llama_405b_counts_its_ends,
             chunks_without_layers, llama_70b_counts_layers_alone, the_rule_of_recipes,
             ends_of_a_pipeline_have_two_links, the_deck_wins, states_by_hand, masters_by_hand, gradients_by_hand,
             owned_once)
