/* The parameter table: every weight of this pipeline stage is one row, every row lies in a bucket. It is made from the
 * list of parameters (plan/model/params.h). Initialization, counting, reduction, clipping, optimizer and checks are
 * loops over rows, buckets or fragments; no layer is named above model/. */
#pragma once
#include "base/arena.h"
#include "machine/submit.h"
#include "parallel/mesh.h"
#include "plan/model/params.h"

typedef struct {
    char name[48]; /* logical: layers.3.gate */
    param_rule rule;
    param_part part; /* held here */
    int logical;     /* its number in the table of the whole model on one rank */
    int bucket;
    int64_t offset;        /* elements from the bucket's start */
    int64_t contributions; /* to its gradient, this step */
} param;

/* What a weight is wanted for: y = x W^T or dx = dy W. */
typedef enum { USE_FORWARD, USE_BACKWARD, WEIGHT_USES } weight_use;

/* Rows that are reduced, updated and gathered together, because they are kept alike and have the same owners. */
typedef struct {
    int64_t elements;                    /* padded to equal shards */
    int64_t shard_first, shard_elements; /* what this rank's optimizer owns */
    int first_param, params;
    bool decays;
    group *holders; /* tensor ranks that each hold all of it and a partial sum of its gradient; NULL: each its part */
    group *sum;     /* ranks whose gradients are summed */
    group *owners;  /* between whom its shards are spread: sum, or NULL where every rank owns it whole */
    tensor weight, gradient;      /* [elements] */
    tensor partial;               /* [elements] with holders only: before their sum; `gradient` if that is as wide */
    tensor master, first, second; /* [shard_elements]; master absent where the weight is its own */
    int64_t pending;              /* contributions until the gradient is done */
    mark reduced;                 /* its gradient is the sum over ranks */
    mark gathered;                /* its weights are whole */
    mark used;                    /* the last that read its weights is complete */
    int borrowed[WEIGHT_USES];    /* rows handed out and not yet returned */
    queue *queue;                 /* its contributions' */
} bucket;

typedef struct {
    param *row;
    int rows;
    bucket *buckets;
    int bucket_count;
    int *number;     /* [1 + layers of the model, PARAM_NAMES]: param_row */
    group *norm;     /* ranks that hold every gradient element once, of the buckets that they count */
    unsigned places; /* of the stage: where it uses parameters */
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
enum { NO_LAYER = -1 };
int param_row(const param_table *t, param_name name, int64_t layer);

/* A weight is borrowed for what is submitted to the queue next and returned when that is submitted. The queue waits
 * until it is whole. A view of `count` adjacent rows as one matrix [sum of local rows, local columns]; vectors are 1-D.
 */
tensor weight_borrow(param_table *t, int row, int count, weight_use use, queue *q);
void weight_return(param_table *t, int row, int count, weight_use use, queue *q);

/* A view of their gradient, of the same shape. */
tensor param_gradient(const param_table *t, int row, int count);
/* WRITE for the first contribution of the step, else UPDATE. Call once per contribution, before submitting it. */
access_mode param_contribute(param_table *t, int row, int count);
/* After submitting it: when the bucket's last one is in, `done` is called. A bucket has one queue. */
void param_contributed(param_table *t, int row, int count, queue *q);

/* Whether this rank counts the bucket's gradient in the norm: the first of its holders. */
bool bucket_counts(const bucket *b);
/* How many ranks own the same elements, and whether this is the first of them. */
int bucket_replicas(const bucket *b);
bool bucket_first_owner(const bucket *b);
/* What this rank owns of the reduced gradient, of the weight, and of its master (the weight where that is its own). */
tensor gradient_shard(const bucket *b);
tensor weight_shard(const bucket *b);
tensor master_shard(const bucket *b);

/* Elements of a row, from its local start: all that are held, or those that this rank's optimizer owns; count may
 * be 0. */
typedef struct {
    int64_t first, count;
} fragment;
fragment param_held(const param *p);
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

/* Number of parameters this rank holds, padding excluded. */
int64_t param_count_local(const param_table *t);
