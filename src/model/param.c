/* The parameter table. */
#include "model/param.h"
#include "base/fail.h"
#include "plan/model/chunks.h"
#include "plan/model/shapes.h"
#include <stdio.h>
#include <stdlib.h>

enum { BUCKET_PARTS = 8, SHARD_ALIGNMENT = 32 };
static const int64_t bucket_limit = (int64_t)128 << 20; /* elements, as in the recipes */

static int *number_of(const param_table *t, param_name name, int64_t layer)
{
    return &t->number[(layer + 1) * PARAM_NAMES + name];
}

int param_row(const param_table *t, param_name name, int64_t layer) { return *number_of(t, name, layer) - 1; }

static void add_row(param_table *t, int at, param_name name, int64_t layer, int logical, param p)
{
    p.bucket = at;
    p.logical = logical;
    t->row[t->rows] = p;
    t->buckets[at].params++;
    *number_of(t, name, layer) = ++t->rows;
}

/* On one rank: embedding, the matrices of all layers, head, the gains of all layers, final norm. */
enum { LAYER_MATRICES = 7, LAYER_GAINS = 2 };
static int logical_matrix(int64_t layer) { return (int)(1 + LAYER_MATRICES * layer); }
static int logical_head(const bench_case *c) { return logical_matrix(c->model.layers); }
static int logical_gain(const bench_case *c, int64_t layer) { return (int)(logical_head(c) + 1 + LAYER_GAINS * layer); }

/* A matrix [rows, columns] split along the tensor axis; padded: rows after padding. */
static param matrix(const mesh *m, param_split split, int64_t rows, int64_t columns, int64_t padded, double std)
{
    int64_t t = m->layout.degree[AXIS_TENSOR], at = m->at[AXIS_TENSOR];
    param p = { .rows = rows,
                .columns = columns,
                .local_rows = padded,
                .local_columns = columns,
                .split = split,
                .init_std = std };
    if (split == SPLIT_ROWS) p.local_rows = padded / t, p.first_row = at * p.local_rows;
    if (split == SPLIT_COLUMNS) p.local_columns = columns / t, p.first_column = at * p.local_columns;
    return p;
}

static param gain(int64_t hidden)
{
    return (param){ .rows = 1, .columns = hidden, .local_rows = 1, .local_columns = hidden, .split = SPLIT_NONE };
}

static param named(param p, const char *format, int64_t layer)
{
    snprintf(p.name, sizeof p.name, format, (long long)layer);
    return p;
}

/* Matrices of one layer; q, k, v and gate, up adjacent, so that each group is one product. */
static void add_layer(param_table *t, const bench_case *c, const mesh *m, int64_t l, int at)
{
    const model_shape *s = &c->model;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    double std = matrix_std(s, s->hidden, false);
    param output = matrix(m, SPLIT_COLUMNS, s->hidden, q, s->hidden, matrix_std(s, q, true));
    param down = matrix(m, SPLIT_COLUMNS, s->hidden, s->ffn, s->hidden, matrix_std(s, s->ffn, true));
    int n = logical_matrix(l);
    add_row(t, at, PARAM_Q, l, n++, named(matrix(m, SPLIT_ROWS, q, s->hidden, q, std), "layers.%lld.q", l));
    add_row(t, at, PARAM_K, l, n++, named(matrix(m, SPLIT_ROWS, kv, s->hidden, kv, std), "layers.%lld.k", l));
    add_row(t, at, PARAM_V, l, n++, named(matrix(m, SPLIT_ROWS, kv, s->hidden, kv, std), "layers.%lld.v", l));
    add_row(t, at, PARAM_ATTENTION_OUTPUT, l, n++, named(output, "layers.%lld.attention_output", l));
    add_row(t, at, PARAM_GATE, l, n++,
            named(matrix(m, SPLIT_ROWS, s->ffn, s->hidden, s->ffn, std), "layers.%lld.gate", l));
    add_row(t, at, PARAM_UP, l, n++, named(matrix(m, SPLIT_ROWS, s->ffn, s->hidden, s->ffn, std), "layers.%lld.up", l));
    add_row(t, at, PARAM_DOWN, l, n++, named(down, "layers.%lld.down", l));
}

static int64_t row_elements(const param *p) { return p->local_rows * p->local_columns; }

static int64_t bucket_rows_elements(const param_table *t, const bucket *b)
{
    int64_t n = 0;
    for (int i = b->first_param; i < b->first_param + b->params; i++) n += row_elements(&t->row[i]);
    return n;
}

static int open_bucket(param_table *t, bool decays, bool replicated)
{
    t->buckets[t->bucket_count] = (bucket){ .decays = decays, .replicated = replicated, .first_param = t->rows };
    return t->bucket_count++;
}

/* A few layers of a chunk to a bucket. */
static void add_chunk(param_table *t, const bench_case *c, const mesh *m, chunk_extent e, int64_t stage_layers)
{
    int64_t limit = bucket_limit;
    for (int64_t l = e.first_layer, open = -1; l < e.first_layer + e.layers; l++) {
        if (open < 0) open = open_bucket(t, true, false);
        add_layer(t, c, m, l, (int)open);
        int64_t n = bucket_rows_elements(t, &t->buckets[open]);
        if (l == e.first_layer && n * stage_layers / BUCKET_PARTS < limit) limit = n * stage_layers / BUCKET_PARTS;
        if (n >= limit) open = -1;
    }
}

static void add_gains(param_table *t, const bench_case *c, int at, chunk_extent e)
{
    int64_t h = c->model.hidden;
    for (int64_t l = e.first_layer; l < e.first_layer + e.layers; l++) {
        add_row(t, at, PARAM_ATTENTION_NORM, l, logical_gain(c, l), named(gain(h), "layers.%lld.attention_norm", l));
        add_row(t, at, PARAM_MLP_NORM, l, logical_gain(c, l) + 1, named(gain(h), "layers.%lld.mlp_norm", l));
    }
    if (e.has_loss)
        add_row(t, at, PARAM_FINAL_NORM, NO_LAYER, logical_gain(c, c->model.layers), named(gain(h), "final_norm", 0));
}

/* Buckets come in the order of first use, in which the optimizer updates and gathers them: the gains after the
 * embedding. */
static void add_rows(param_table *t, const bench_case *c, const mesh *m)
{
    const model_shape *s = &c->model;
    int stage = m->at[AXIS_PIPELINE], chunks = c->layout.chunks_per_stage;
    int64_t layers = stage_layers(c, stage);
    bool first = chunk_of(c, stage, 0).has_embedding, last = chunk_of(c, stage, chunks - 1).has_loss;
    param table = matrix(m, SPLIT_ROWS, s->vocabulary, s->hidden, s->padded_vocabulary, embedding_std(s));
    if (first) add_row(t, open_bucket(t, true, false), PARAM_EMBEDDING, NO_LAYER, 0, named(table, "embedding", 0));
    int gains = layers || last ? open_bucket(t, c->optimizer.decays_vectors, true) : -1;
    for (int i = 0; i < chunks; i++) add_chunk(t, c, m, chunk_of(c, stage, i), layers);
    table.init_std = matrix_std(s, s->hidden, false);
    if (last) add_row(t, open_bucket(t, true, false), PARAM_HEAD, NO_LAYER, logical_head(c), named(table, "head", 0));
    if (gains < 0) return;
    t->buckets[gains].first_param = t->rows;
    for (int i = 0; i < chunks; i++) add_gains(t, c, gains, chunk_of(c, stage, i));
}

static void place_rows(param_table *t, bucket *b, int64_t shards)
{
    int64_t n = 0, unit = shards * SHARD_ALIGNMENT;
    for (int i = b->first_param; i < b->first_param + b->params; i++) {
        t->row[i].offset = n;
        n += row_elements(&t->row[i]);
    }
    b->elements = (n + unit - 1) / unit * unit;
    b->shard_elements = b->elements / shards;
}

static void take_memory(bucket *b, dtype type, arena *a)
{
    size_t bytes = dtype_bytes(type) * (size_t)b->elements;
    b->weight = tensor_1d(arena_take(a, WEIGHTS, bytes), type, b->elements);
    b->gradient = tensor_1d(arena_take(a, GRADIENTS, bytes), type, b->elements);
    if (b->replicated) b->partial = b->gradient;
    if (b->replicated && type != F32)
        b->partial = tensor_1d(arena_take(a, GRADIENTS, 4 * (size_t)b->elements), F32, b->elements);
    tensor *state[] = { &b->master, &b->first, &b->second };
    for (int i = type == F32; i < 3; i++)
        *state[i] = tensor_1d(arena_take(a, OPTIMIZER, 4 * (size_t)b->shard_elements), F32, b->shard_elements);
}

void param_table_open(param_table *t, const bench_case *c, const mesh *m, arena *a)
{
    int64_t layers = c->model.layers, shards = c->sharding == SHARDING_OPTIMIZER ? m->gradient.size : 1;
    *t = (param_table){ .microbatches = c->microbatches };
    t->row = calloc((size_t)(9 * layers + 3), sizeof *t->row);
    t->buckets = calloc((size_t)layers + 3, sizeof *t->buckets);
    t->number = calloc((size_t)(1 + layers) * PARAM_NAMES, sizeof *t->number);
    if (!t->row || !t->buckets || !t->number)
        FAIL("no memory for the table of parameters of %lld layers", (long long)layers);
    add_rows(t, c, m);
    for (int i = 0; i < t->bucket_count; i++) {
        bucket *b = &t->buckets[i];
        place_rows(t, b, shards);
        b->shard_first = shards > 1 ? m->gradient.rank * b->shard_elements : 0;
        take_memory(b, c->precision == PRECISION_BF16 ? BF16 : F32, a);
    }
}

void param_table_close(param_table *t)
{
    free(t->row);
    free(t->buckets);
    free(t->number);
}

void param_table_step(param_table *t)
{
    for (int i = 0; i < t->rows; i++) t->row[i].contributions = 0;
    for (int i = 0; i < t->bucket_count; i++) {
        bucket *b = &t->buckets[i];
        b->pending = b->params * t->microbatches;
        for (int use = 0; use < WEIGHT_USES; use++)
            if (b->borrowed[use]) FAIL("%d weights of a bucket were not returned", b->borrowed[use]);
    }
}

static tensor rows_view(const param_table *t, tensor storage, int row, int count)
{
    const param *p = &t->row[row];
    int64_t rows = 0, columns = p->local_columns;
    for (int i = row; i < row + count; i++) rows += t->row[i].local_rows;
    char *data = (char *)storage.data + (size_t)p->offset * dtype_bytes(storage.type);
    return p->split == SPLIT_NONE ? tensor_1d(data, storage.type, columns)
                                  : tensor_2d(data, storage.type, rows, columns);
}

tensor weight_borrow(param_table *t, int row, int count, weight_use use, queue *q)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    queue_wait(q, b->gathered);
    b->gathered = (mark){ 0 };
    b->borrowed[use] += count;
    return rows_view(t, b->weight, row, count);
}

void weight_return(param_table *t, int row, int count, weight_use use, queue *q)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    b->borrowed[use] -= count;
    b->used = queue_mark(q);
}

tensor param_gradient(const param_table *t, int row, int count)
{
    const bucket *b = &t->buckets[t->row[row].bucket];
    return rows_view(t, b->replicated ? b->partial : b->gradient, row, count);
}

access_mode param_contribute(param_table *t, int row, int count)
{
    access_mode how = t->row[row].contributions == 0 ? WRITE : UPDATE;
    for (int i = row; i < row + count; i++) t->row[i].contributions++;
    return how;
}

void param_contributed(param_table *t, int row, int count)
{
    bucket *b = &t->buckets[t->row[row].bucket];
    b->pending -= count;
    if (b->pending == 0) t->done(t->listener, b);
}

fragment param_fragment(const param_table *t, int row)
{
    const param *p = &t->row[row];
    const bucket *b = &t->buckets[p->bucket];
    int64_t first = b->shard_first > p->offset ? b->shard_first - p->offset : 0;
    int64_t last = b->shard_first + b->shard_elements - p->offset, n = row_elements(p);
    if (last > n) last = n;
    return (fragment){ first, last > first ? last - first : 0 };
}

int64_t param_count_local(const param_table *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->rows; i++) {
        const param *p = &t->row[i];
        int64_t rows = p->rows - p->first_row;
        n += (rows < 0 ? 0 : rows < p->local_rows ? rows : p->local_rows) * p->local_columns;
    }
    return n;
}

int64_t param_logical_index(const param *p, int64_t local)
{
    int64_t row = p->first_row + local / p->local_columns, column = p->first_column + local % p->local_columns;
    return row < p->rows ? row * p->columns + column : -1;
}
