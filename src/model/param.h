/* The parameter table: every weight of this pipeline stage is one row, every row lies in a bucket. It is made from the
 * list of parameters (plan/model/params.h). Initialization, counting, reduction, clipping, optimizer and checks are
 * loops over rows, buckets or fragments; no layer is named above model/. */
#pragma once
#include "base/arena.h"
#include "machine/queue/submit.h"
#include "parallel/mesh.h"
#include "plan/model/params.h"

typedef struct {
    char name[48]; /* logical: layers.3.gate */
    param_rule rule;
    param_part part; /* held here */
    int logical;     /* its number in the table of the whole model on one rank */
    int bucket;
    int64_t offset;        /* elements from the bucket's start */
    int expert;            /* NO_EXPERT: of no expert alone */
    int64_t codes;         /* FP8: number of the tensor that it is, or a part of (model/fp8.h); NO_CODES: of none */
    int64_t contributions; /* to its gradient, this step */
} param;

enum { NO_LAYER = -1, NO_EXPERT = -1, NO_CODES = -1 };

/* What a weight is wanted for: y = x W^T or dx = dy W. */
typedef enum { USE_FORWARD, USE_BACKWARD, WEIGHT_USES } weight_use;

/* A tied embedding is looked up and multiplied: two gradients, in two buffers, each reduced by itself, then added up
 * (train/gradient.c). Where one stage does both, a bucket of its own has the head's gradient, and nothing else. Where
 * two do, each has all of the bucket, and room for what the other's gradient is. */

/* Rows that are reduced, updated and gathered together, because they are kept alike and have the same owners. */
typedef struct bucket {
    int64_t elements;                    /* padded to equal shards */
    int64_t shard_first, shard_elements; /* what this rank's optimizer owns: of the own part, between the owners */
    int first_param, params;
    bool decays;
    group *holders; /* tensor ranks that each hold all of it and a partial sum of its gradient; NULL: each its part */
    group *parts;   /* the shard axis, between whose ranks it is cut into parts; NULL: one part is all of it */
    group *sum;     /* ranks that have the same part and sum its gradient once a step */
    group *owners;  /* between whom the shards of a part are spread: sum, or NULL where each owns it whole */
    struct bucket *tied;          /* whose weight the head multiplies with; NULL: its own */
    group *ends;                  /* the pipeline's ranks, of which the first and the last hold it; NULL: one does */
    bool gathered_for_use;        /* only the own part lives here; model/sharded.h brings the rest */
    int unit;                     /* what is gathered together: sharded.h */
    tensor weight, gradient;      /* [elements], or of the own part */
    tensor transposed;            /* [elements] of codes that are whole here: matrix by matrix [k, n]; else absent */
    tensor whole;                 /* [elements] gathered_for_use: its weights, while they are there */
    tensor microbatch;            /* [elements] gathered_for_use: the gradient of the microbatch at hand, or absent */
    int64_t summed;               /* microbatches whose gradient is in the part's */
    tensor partial;               /* [elements] with holders only: before their sum; `gradient` if that is as wide */
    tensor other;                 /* [shard_elements] with ends only: the other end's gradient */
    tensor master, first, second; /* [shard_elements]; master absent where the weight is its own */
    int64_t pending;              /* contributions until the gradient, gathered_for_use the microbatch's, is done */
    mark reduced;                 /* its gradient is the sum over ranks */
    mark updated;                 /* gathered_for_use: the part's weights are this step's */
    mark gathered;                /* its weights are whole */
    mark used;                    /* the last that read its weights is complete */
    int borrowed[WEIGHT_USES];    /* rows handed out and not yet returned */
    queue *queue;                 /* its contributions' */
} bucket;

struct sharded;
typedef struct {
    param *row;
    int rows;
    bucket *buckets;
    int bucket_count;
    bucket *looked_up; /* of a tied embedding, if it is here */
    bucket *head; /* its head's gradient, behind the buckets that are counted, as its row is behind those; or NULL */
    int *number;  /* [1 + layers of the model, PARAM_NAMES]: param_row */
    group *norm;  /* ranks that hold every gradient element once, of those for which bucket_counts */
    struct sharded *sharded; /* of buckets that are gathered for use; NULL: none is */
    unsigned places;         /* of the stage: where it uses parameters */
    int64_t microbatches;
    void (*done)(void *listener, bucket *b, queue *q);
    void *listener; /* called when a bucket's last contribution was submitted, to that queue as all of them */
} param_table;

/* The number format of a value that is kept so; fails if there is none. */
dtype kept_type(kept_format format);

/* Builds rows and buckets and takes their memory. */
void param_table_open(param_table *t, const bench_case *c, mesh *m, arena *a);
void param_table_close(param_table *t);
/* A step begins: no gradient has a contribution. */
void param_table_step(param_table *t);

/* The row of a name in a layer of the model, NO_LAYER for what belongs to none; -1: on another stage, or the model has
 * none. */
int param_row(const param_table *t, param_name name, int64_t layer);

/* A weight is borrowed for what is submitted to the queue next and returned when that is submitted. The queue waits
 * until it is whole. A view of `count` adjacent rows as one matrix [sum of local rows, local columns]; vectors are 1-D.
 */
tensor weight_borrow(param_table *t, int row, int count, weight_use use, queue *q);
void weight_return(param_table *t, int row, int count, weight_use use, queue *q);

/* The same codes transposed, [k, n] of each matrix, one behind the other in as many elements; absent: not kept. */
tensor weight_transposed(const param_table *t, int row, int count);

/* Rows of the bucket that are one matrix, or of one scale: from row i, which must be its first; returns the row behind
 * them. */
int matrix_end(const param_table *t, int i);
int codes_end(const param_table *t, int i);

/* A view of their gradient, of the same shape. */
tensor param_gradient(const param_table *t, int row, int count);
/* WRITE for the first contribution of the step, or of the microbatch where the weight is gathered for use, else UPDATE.
 * Call once per contribution, before submitting it to the queue and before param_gradient. */
access_mode param_contribute(param_table *t, int row, int count, queue *q);
/* After submitting it: when the bucket's last one is in, `done` is called. A bucket has one queue. */
void param_contributed(param_table *t, int row, int count, queue *q);

/* Whether this rank counts the bucket's gradient in the norm: the first of its holders, on the first of its ends. */
bool bucket_counts(const bucket *b);
/* How many ranks own the same elements, and whether this is the first of them. */
int bucket_replicas(const bucket *b);
bool bucket_first_owner(const bucket *b);
/* Of the own part, and of what `weight` and `gradient` hold: elements of the bucket. */
typedef struct {
    int64_t first, count;
} fragment;
fragment bucket_part(const bucket *b);
fragment bucket_held(const bucket *b);
/* The own part of the weights or gradients that are held. */
tensor part_held(const bucket *b, tensor held);
/* What this rank owns of the reduced gradient, of the weight, and of its master (the weight where that is its own). */
tensor gradient_shard(const bucket *b);
tensor weight_shard(const bucket *b);
tensor master_shard(const bucket *b);

/* Elements of a row, from its local start: those that `weight` and `gradient` hold, or those that this rank's optimizer
 * owns; count may be 0. */
fragment param_held(const param_table *t, int row);
fragment param_owned(const param_table *t, int row);
/* A run of a fragment: elements that follow one another here, from `local`, and in the whole matrix (row-major,
 * unpadded), from `logical`, which is -1 of padding. */
typedef struct {
    int64_t logical, local, count;
} param_run;
/* The run after r, of which the first is that after { 0 }; false after the last. */
bool param_next_run(const param *p, fragment f, param_run *r);
/* A fragment's elements in a flat tensor whose first element is the bucket's element `start`. */
tensor param_view(const param *p, fragment f, tensor flat, int64_t start);

/* Number of parameters of this rank's parts, padding excluded. */
int64_t param_count_local(const param_table *t);
