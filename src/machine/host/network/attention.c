/* network/: kernels of the network, one file each. Attention in blocks of 64 queries by 64 keys (Dao 2023, algorithms 1
 * and 2). Scores are stored transposed, [key][query], so that softmax works on vectors of queries, and only operands of
 * a query block need to be transposed. Head dims are padded with zeros to a multiple of 16. Rows beyond a tensor's
 * positions are zero; their results are masked or not stored. */
#include "base/lanes.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"
#include "machine/host/rows/tile.h"

enum { BLOCK = 64, TILE_FLOATS = BLOCK * LARGEST_HEAD_DIM };
enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV };

typedef struct {
    int64_t s, t, b, heads, group, d, padded, blocks, key_blocks;
    int64_t key_offset; /* query i sees the existing keys of 0 .. i + key_offset */
    float scale;
} attention_shape;

static int64_t blocks_of(int64_t positions) { return (positions + BLOCK - 1) / BLOCK; }

static attention_shape shape_of(const op *o)
{
    const tensor *q = &o->operand[0].tensor, *k = &o->operand[1].tensor;
    return (attention_shape){ .s = q->dim[0],
                              .t = k->dim[0],
                              .b = q->dim[1],
                              .heads = q->dim[2],
                              .group = q->dim[2] / k->dim[2],
                              .d = q->dim[3],
                              .padded = (q->dim[3] + TILE_MULTIPLE - 1) / TILE_MULTIPLE * TILE_MULTIPLE,
                              .blocks = blocks_of(q->dim[0]),
                              .key_blocks = blocks_of(k->dim[0]),
                              .key_offset = o->args.attention.causal ? k->dim[0] - q->dim[0] : k->dim[0],
                              .scale = o->args.attention.scale };
}

/* One head of one batch row. */
typedef struct {
    int64_t b, head;
} head_place;

static void *head_row(const tensor *t, head_place at, int64_t position)
{
    return row_at(t->data, t->type, position * t->stride[0] + at.b * t->stride[1] + at.head * t->stride[2]);
}

static void load_tile(float *tile, const attention_shape *a, const tensor *t, head_place at, int64_t block)
{
    for (int64_t i = 0; i < BLOCK; i++) {
        int64_t position = block * BLOCK + i, valid = position < t->dim[0] ? a->d : 0;
        float *row = tile + i * a->padded;
        if (valid) row_load(row, head_row(t, at, position), t->type, valid);
        for (int64_t k = valid; k < a->padded; k++) row[k] = 0.0f;
    }
}

/* to [padded][BLOCK] = factor * from [BLOCK][padded]. */
static void transpose_tile(float *restrict to, const float *restrict from, int64_t padded, float factor)
{
    for (int64_t k = 0; k < padded; k += VECTOR_FLOATS)
        for (int64_t i = 0; i < BLOCK; i++)
            for (int64_t l = 0; l < VECTOR_FLOATS; l++) to[(k + l) * BLOCK + i] = factor * from[i * padded + k + l];
}

/* UPDATE adds the row's old FP32 values. */
static void store_row(const operand *to, head_place at, int64_t position, float *sum, int64_t d)
{
    void *row = head_row(&to->tensor, at, position);
    const float *old = row;
    if (to->access == UPDATE)
        for (int64_t k = 0; k < d; k++) sum[k] += old[k];
    row_store(row, to->tensor.type, sum, d);
}

/* Stores the rows of a transposed tile [padded][BLOCK], each multiplied by its factor. */
static void store_transposed(const operand *to, const attention_shape *a, head_place at, int64_t block,
                             const float *tile, const float *factor)
{
    float row[LARGEST_HEAD_DIM];
    for (int64_t i = 0; i < smaller(BLOCK, a->s - block * BLOCK); i++) {
        for (int64_t k = 0; k < a->d; k++) row[k] = tile[k * BLOCK + i] * factor[i];
        store_row(to, at, block * BLOCK + i, row, a->d);
    }
}

/* Returns the log-sum-exp of a query block, one float per query. */
static float *lse_row(const tensor *lse, head_place at, int64_t block)
{
    return (float *)lse->data + at.b * lse->stride[0] + at.head * lse->stride[1] + block * BLOCK;
}

/* scores [key][query] = keys * queries transposed, or values * d_out transposed. */
static void score_tile(float *scores, const attention_shape *a, const float *rows, const float *transposed)
{
    tile_multiply((tile_product){ .c = scores,
                                  .a = rows,
                                  .b = transposed,
                                  .m = BLOCK,
                                  .n = BLOCK,
                                  .depth = a->padded,
                                  .a_row = a->padded,
                                  .a_depth = 1 });
}

/* sums [padded][query] += rows' [padded][key] * scores [key][query]. */
static void sum_over_keys(float *sums, const attention_shape *a, const float *rows, const float *scores)
{
    tile_accumulate((tile_product){ .c = sums,
                                    .a = rows,
                                    .b = scores,
                                    .m = a->padded,
                                    .n = BLOCK,
                                    .depth = BLOCK,
                                    .a_row = 1,
                                    .a_depth = a->padded });
}

/* sums [key][padded] += scores [key][query] * rows [query][padded]. */
static void sum_over_queries(float *sums, const attention_shape *a, const float *scores, const float *rows)
{
    tile_accumulate((tile_product){
        .c = sums, .a = scores, .b = rows, .m = BLOCK, .n = a->padded, .depth = BLOCK, .a_row = BLOCK, .a_depth = 1 });
}

/* Returns the number of key blocks that a block of queries sees. */
static int64_t key_blocks_of(const attention_shape *a, int64_t block)
{
    return blocks_of(smaller((block + 1) * BLOCK + a->key_offset, a->t));
}

/* Sets scores to `value` where a query does not see the key, or the key does not exist. */
static void mask_tile(float *scores, const attention_shape *a, int64_t block, int64_t keys, float value)
{
    for (int64_t key = 0; key < BLOCK; key++) {
        int64_t at = keys * BLOCK + key,
                masked = at < a->t ? smaller(at - a->key_offset - block * BLOCK, BLOCK) : BLOCK;
        for (int64_t query = 0; query < masked; query++) scores[key * BLOCK + query] = value;
    }
}

/* Running maxima and sums of a query block, and its output, transposed and not yet normalized. */
typedef struct {
    _Alignas(64) float maximum[BLOCK], sum[BLOCK], out[TILE_FLOATS];
} query_state;

/* Includes the scores in the maxima, and scales down earlier sums. */
static void raise_maxima(query_state *state, const float *scores, int64_t padded)
{
    float maximum[BLOCK], rescale[BLOCK];
    memcpy(maximum, state->maximum, sizeof maximum);
    for (int64_t key = 0; key < BLOCK; key++)
#pragma omp simd
        for (int64_t i = 0; i < BLOCK; i++)
            maximum[i] = scores[key * BLOCK + i] > maximum[i] ? scores[key * BLOCK + i] : maximum[i];
#pragma omp simd
    for (int64_t i = 0; i < BLOCK; i++) {
        rescale[i] = exp_shared(state->maximum[i] - maximum[i]);
        state->sum[i] *= rescale[i];
        state->maximum[i] = maximum[i];
    }
    for (int64_t k = 0; k < padded; k++)
#pragma omp simd
        for (int64_t i = 0; i < BLOCK; i++) state->out[k * BLOCK + i] *= rescale[i];
}

static void exponentiate(query_state *state, float *scores)
{
    for (int64_t key = 0; key < BLOCK; key++) {
        float *score = scores + key * BLOCK;
#pragma omp simd
        for (int64_t i = 0; i < BLOCK; i++) {
            score[i] = exp_shared(score[i] - state->maximum[i]);
            state->sum[i] += score[i];
        }
    }
}

static void open_state(query_state *state, int64_t padded)
{
    for (int64_t i = 0; i < BLOCK; i++) state->maximum[i] = -INFINITY, state->sum[i] = 0.0f;
    memset(state->out, 0, (size_t)(padded * BLOCK) * sizeof *state->out);
}

static void close_state(query_state *state, const op *o, const attention_shape *a, head_place at, int64_t block)
{
    float *lse = lse_row(&o->operand[LSE].tensor, at, block), factor[BLOCK];
    for (int64_t i = 0; i < BLOCK; i++) factor[i] = 1.0f / state->sum[i];
    store_transposed(&o->operand[OUT], a, at, block, state->out, factor);
    for (int64_t i = 0; i < smaller(BLOCK, a->s - block * BLOCK); i++) lse[i] = state->maximum[i] + logf(state->sum[i]);
}

static void forward_block(const op *o, const attention_shape *a, head_place at, int64_t block)
{
    const head_place kv = { at.b, at.head / a->group };
    _Alignas(64) float rows[TILE_FLOATS], queries[TILE_FLOATS], scores[BLOCK * BLOCK];
    query_state state;
    load_tile(rows, a, &o->operand[Q].tensor, at, block);
    transpose_tile(queries, rows, a->padded, a->scale);
    open_state(&state, a->padded);
    for (int64_t keys = 0; keys < key_blocks_of(a, block); keys++) {
        load_tile(rows, a, &o->operand[K].tensor, kv, keys);
        score_tile(scores, a, rows, queries);
        mask_tile(scores, a, block, keys, -INFINITY);
        raise_maxima(&state, scores, a->padded);
        exponentiate(&state, scores);
        mask_tile(scores, a, block, keys, 0.0f);
        load_tile(rows, a, &o->operand[V].tensor, kv, keys);
        sum_over_keys(state.out, a, rows, scores);
    }
    close_state(&state, o, a, at, block);
}

/* Starts with the last query blocks, which see most keys and take longest. */
void host_attention_forward(const op *o, void *scratch)
{
    attention_shape a = shape_of(o);
    int64_t heads = a.b * a.heads;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < a.blocks * heads; task++)
        forward_block(o, &a, (head_place){ task % heads / a.heads, task % a.heads }, a.blocks - 1 - task / heads);
}

/* A block of queries in backward. q_transposed is scaled; dq is transposed; dot: D = rowsum(d_out * out). */
typedef struct {
    _Alignas(64) float q[TILE_FLOATS], q_transposed[TILE_FLOATS], d_out[TILE_FLOATS],
        d_out_transposed[TILE_FLOATS], dq[TILE_FLOATS];
    _Alignas(64) float lse[BLOCK], dot[BLOCK];
} query_tiles;

typedef struct {
    _Alignas(64) float k[TILE_FLOATS], v[TILE_FLOATS], p[BLOCK * BLOCK], ds[BLOCK * BLOCK];
} key_tiles;

static void open_queries(query_tiles *t, const op *o, const attention_shape *a, head_place at, int64_t block)
{
    const float *lse = lse_row(&o->operand[LSE].tensor, at, block);
    float *out = t->dq;
    load_tile(out, a, &o->operand[OUT].tensor, at, block);
    load_tile(t->d_out, a, &o->operand[D_OUT].tensor, at, block);
    load_tile(t->q, a, &o->operand[Q].tensor, at, block);
    for (int64_t i = 0; i < BLOCK; i++) {
        const float *row = out + i * a->padded, *d_row = t->d_out + i * a->padded;
        lanes sum = { 0.0f };
        for (int64_t k = 0; k < a->padded; k += VECTOR_FLOATS)
            sum = lanes_fma(lanes_load(row + k, VECTOR_FLOATS), lanes_load(d_row + k, VECTOR_FLOATS), sum);
        t->dot[i] = lanes_sum(sum);
        t->lse[i] = block * BLOCK + i < a->s ? lse[i] : 0.0f;
    }
    transpose_tile(t->q_transposed, t->q, a->padded, a->scale);
    transpose_tile(t->d_out_transposed, t->d_out, a->padded, 1.0f);
    memset(t->dq, 0, (size_t)(a->padded * BLOCK) * sizeof *t->dq);
}

/* Turns scores into p = exp(score - lse). score_gradients turns dp into ds = p (dp - D) scale. */
static void probabilities(const query_tiles *t, float *p)
{
    for (int64_t key = 0; key < BLOCK; key++)
#pragma omp simd
        for (int64_t i = 0; i < BLOCK; i++) p[key * BLOCK + i] = probability_shared(p[key * BLOCK + i], t->lse[i]);
}

static void score_gradients(const query_tiles *t, const float *p, float *ds, float scale)
{
    for (int64_t key = 0; key < BLOCK; key++)
#pragma omp simd
        for (int64_t i = 0; i < BLOCK; i++)
            ds[key * BLOCK + i] = score_gradient(p[key * BLOCK + i], ds[key * BLOCK + i], t->dot[i]) * scale;
}

static void backward_tile(query_tiles *t, key_tiles *x, const attention_shape *a, int64_t block, int64_t keys,
                          float *dk, float *dv)
{
    score_tile(x->p, a, x->k, t->q_transposed);
    probabilities(t, x->p);
    mask_tile(x->p, a, block, keys, 0.0f);
    sum_over_queries(dv, a, x->p, t->d_out);
    score_tile(x->ds, a, x->v, t->d_out_transposed);
    score_gradients(t, x->p, x->ds, a->scale);
    sum_over_queries(dk, a, x->ds, t->q);
    sum_over_keys(t->dq, a, x->k, x->ds);
}

/* Returns the elements of one head's dk in scratch; dv has as many. */
static int64_t head_elements(const attention_shape *a) { return a->key_blocks * BLOCK * a->padded; }

/* Computes dq of one head, and its share of dk and dv in scratch, dk before dv. */
static void backward_head(const op *o, const attention_shape *a, head_place at, float *scratch)
{
    const head_place kv = { at.b, at.head / a->group };
    const int64_t tile = BLOCK * a->padded;
    const float one[BLOCK] = { [0 ... BLOCK - 1] = 1.0f };
    float *dk = scratch + 2 * (at.b * a->heads + at.head) * head_elements(a), *dv = dk + head_elements(a);
    query_tiles queries;
    key_tiles keys;
    memset(dk, 0, (size_t)(2 * head_elements(a)) * sizeof *dk);
    for (int64_t block = 0; block < a->blocks; block++) {
        open_queries(&queries, o, a, at, block);
        for (int64_t i = 0; i < key_blocks_of(a, block); i++) {
            load_tile(keys.k, a, &o->operand[K].tensor, kv, i);
            load_tile(keys.v, a, &o->operand[V].tensor, kv, i);
            backward_tile(&queries, &keys, a, block, i, dk + i * tile, dv + i * tile);
        }
        store_transposed(&o->operand[DQ], a, at, block, queries.dq, one);
    }
}

/* Stores one row of dk or dv: the sum over the query heads of its group, in order. */
static void sum_group(const operand *to, const attention_shape *a, head_place kv, int64_t position,
                      const float *scratch)
{
    float sum[LARGEST_HEAD_DIM] = { 0 };
    for (int64_t i = 0; i < a->group; i++) {
        const float *part =
            scratch + 2 * (kv.b * a->heads + kv.head * a->group + i) * head_elements(a) + position * a->padded;
        for (int64_t k = 0; k < a->d; k++) sum[k] += part[k];
    }
    store_row(to, kv, position, sum, a->d);
}

size_t host_attention_backward_scratch(const op *o)
{
    attention_shape a = shape_of(o);
    return (size_t)(2 * a.b * a.heads * head_elements(&a)) * sizeof(float);
}

void host_attention_backward(const op *o, void *scratch)
{
    attention_shape a = shape_of(o);
    int64_t heads = a.b * a.heads, kv_heads = a.heads / a.group;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < heads; task++)
        backward_head(o, &a, (head_place){ task / a.heads, task % a.heads }, scratch);
#pragma omp parallel for schedule(static)
    for (int64_t position = 0; position < a.t; position++)
        for (int64_t i = 0; i < a.b * kv_heads; i++) {
            head_place kv = { i / kv_heads, i % kv_heads };
            sum_group(&o->operand[DK], &a, kv, position, scratch);
            sum_group(&o->operand[DV], &a, kv, position, (float *)scratch + head_elements(&a));
        }
}
