/* The parameter table: every weight of this pipeline stage is one row, every row lies in a bucket. Initialization,
 * counting, reduction, clipping, optimizer and checks are loops over rows, buckets or fragments; no layer is named
 * above model/. */
#pragma once
#include "base/arena.h"
#include "machine/submit.h"
#include "parallel/mesh.h"
#include "plan/bench_case.h"

typedef enum { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS } param_split;
typedef struct {
    char name[48];                     /* logical: layers.3.gate */
    int logical;                       /* its number in the table of the whole model on one rank */
    int64_t rows, columns;             /* of the unpadded logical tensor [out, in]; a gain is [1, h] */
    int64_t first_row, first_column;   /* of the part held here */
    int64_t local_rows, local_columns; /* padded rows included */
    param_split split;                 /* along the tensor axis; SPLIT_NONE: every tensor rank holds it */
    double init_std;                   /* 0: ones */
    int bucket;
    int64_t offset;        /* elements from the bucket's start */
    int64_t contributions; /* to its gradient, this step */
} param;

/* Rows that are reduced, updated and gathered together. */
typedef struct {
    int64_t elements;                    /* padded to equal shards */
    int64_t shard_first, shard_elements; /* what this rank's optimizer owns */
    bool decays, replicated; /* replicated: held by every tensor rank, gradients are partial sums over them */
    int first_param, params;
    tensor weight, gradient; /* [elements] */
    tensor partial; /* [elements] F32, replicated buckets only: before the tensor sum; `gradient` if that is F32 */
    tensor master, first, second; /* [shard_elements]; master absent in FP32, where the weight is its own */
    int64_t pending;              /* contributions until the gradient is done */
    mark reduced;                 /* its gradient is the sum over ranks */
    mark gathered;                /* its weights are whole */
} bucket;

typedef struct {
    int attention_norm, q, k, v, attention_output, mlp_norm, gate, up, down;
} layer_rows;

typedef struct {
    param *row;
    int rows;
    bucket *buckets;
    int bucket_count;
    layer_rows *layer;               /* [layers of the model], those of this stage filled */
    int embedding, final_norm, head; /* -1: on another stage */
    int64_t microbatches;
    void (*done)(void *listener, bucket *b);
    void *listener; /* called when a bucket's last contribution was submitted */
} param_table;

/* Builds rows and buckets and takes their memory. */
void param_table_open(param_table *t, const bench_case *c, const mesh *m, arena *a);
void param_table_close(param_table *t);
/* A step begins: no gradient has a contribution. */
void param_table_step(param_table *t);

/* Views of `count` adjacent rows of the table as one matrix [sum of local rows, local columns]; gains are 1-D. */
tensor param_weight(const param_table *t, int row, int count);
tensor param_gradient(const param_table *t, int row, int count);
/* WRITE for the first contribution of the step, else UPDATE. Call once per contribution, before submitting it. */
access_mode param_contribute(param_table *t, int row, int count);
/* After submitting it: when the bucket's last one is in, `done` is called. */
void param_contributed(param_table *t, int row, int count);
/* The queue waits until the weights are whole. */
void weight_ready(param_table *t, int row, queue *q);

/* The part of a row that this rank's optimizer owns, in elements from the row's local start; count may be 0. */
typedef struct {
    int64_t first, count;
} fragment;
fragment param_fragment(const param_table *t, int row);
/* Number of parameters this rank holds, padding excluded. */
int64_t param_count_local(const param_table *t);
/* Logical index (row-major, unpadded) of a row's local element, or -1 for padding. */
int64_t param_logical_index(const param *p, int64_t local);
