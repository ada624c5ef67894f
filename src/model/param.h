/* The parameter table. Each weight of this pipeline stage is a row, and each row is in a bucket. The table is made from
 * the list of parameters (plan/model/params.h). Initialization, counting, reduction, clipping, optimizer and checks are
 * loops over rows, buckets or fragments; no layer is named above model/. */
#pragma once
#include "base/arena.h"
#include "machine/queue/submit.h"
#include "parallel/mesh.h"
#include "plan/model/params.h"

typedef struct {
    char name[48]; /* logical name: layers.3.gate */
    param_rule rule;
    param_part part; /* part on this rank */
    int logical;     /* its row in the table of the whole model on one rank */
    int bucket;
    int64_t offset;        /* elements from the bucket's start */
    int expert;            /* its expert, or NO_EXPERT */
    int64_t fp8_tensor;    /* number of its FP8 tensor (model/fp8.h), or NO_FP8 */
    int64_t contributions; /* to its gradient, in this step */
} param;

enum { NO_LAYER = -1, NO_EXPERT = -1, NO_FP8 = -1 };

/* Use of a weight: y = x W^T or dx = dy W. */
typedef enum { USE_FORWARD, USE_BACKWARD, WEIGHT_USES } weight_use;

/* A tied embedding is looked up and multiplied. Its two gradients are in two buffers; each is reduced alone, then they
 * are added (train/gradient.c). If one stage does both, a separate bucket has the head's gradient and nothing else. If
 * two stages do, each has the whole bucket, and memory for the other's gradient. */

/* A bucket: rows that are reduced, updated and gathered together, because they have the same storage and owners. */
typedef struct bucket {
    int64_t elements;                    /* padded to equal shards */
    int64_t shard_first, shard_elements; /* elements of the own part that this rank's optimizer owns */
    int first_param, params;
    bool decays;
    group *holders; /* tensor ranks that each hold all of it and a partial sum of its gradient; NULL: each has a part */
    group *parts;   /* the shard axis, over whose ranks it is cut into parts; NULL: one part is all of it */
    group *sum;     /* ranks that have the same part and sum its gradient once a step */
    group *owners;  /* ranks that share the optimizer of a part: sum, or NULL if each owns it whole */
    struct bucket *tied;          /* bucket whose weight the head multiplies; NULL: its own */
    group *ends;                  /* pipeline ranks, if the first and the last hold it; else NULL */
    bool gathered_for_use;        /* only the own part is stored; model/sharded.h gathers the rest */
    int unit;                     /* number of its unit (sharded.h) */
    tensor weight, gradient;      /* [elements], or of the own part */
    tensor transposed;            /* [elements] FP8, not gathered_for_use: matrix by matrix [k, n] */
    tensor whole;                 /* [elements] gathered_for_use: the gathered weights */
    tensor microbatch;            /* [elements] gathered_for_use: gradient of the current microbatch, or absent */
    int64_t microbatches_added;   /* microbatches whose gradient was added to the part's */
    tensor partial;               /* [elements] with holders only: before their sum; may be `gradient` itself */
    tensor other_end;             /* [shard_elements] with ends only: the other end's gradient */
    tensor master, first, second; /* [shard_elements]; master absent if `weight` is not narrower */
    int64_t pending;              /* contributions until the gradient (gathered_for_use: the microbatch's) is done */
    mark reduced;                 /* when its gradient is the sum over ranks */
    mark updated;                 /* gathered_for_use: when the part's weights are this step's */
    mark gathered;                /* when its weights are whole */
    mark used;                    /* when the last reader of its weights is complete */
    int borrowed[WEIGHT_USES];    /* rows borrowed and not yet returned */
    queue *queue;                 /* queue of its contributions */
} bucket;

struct sharded;
typedef struct {
    param *row;
    int rows;
    bucket *buckets;
    int bucket_count;
    bucket *tied_embedding; /* bucket of a tied embedding, if it is here */
    bucket *head; /* bucket of the head's gradient, after the counted buckets (its row is after theirs, too); or NULL */
    int *row_number;         /* [1 + layers of the model, PARAM_NAMES]: 1 + param_row */
    group *norm_ranks;       /* ranks that hold every gradient element once, in buckets with bucket_counts */
    struct sharded *sharded; /* for buckets that are gathered for use; NULL: there are none */
    unsigned places;         /* where the stage uses parameters */
    int64_t microbatches;
    void (*done)(void *listener, bucket *b, queue *q);
    void *listener; /* `done` is called after a bucket's last contribution was submitted; q: the queue of all of them */
} param_table;

/* Returns the number type of a storage format; fails if there is none. */
dtype kept_type(kept_format format);

/* Builds rows and buckets and takes their memory. */
void param_table_open(param_table *t, const bench_case *c, mesh *m, arena *a);
void param_table_close(param_table *t);
/* Begins a step: no gradient has a contribution. */
void param_table_step(param_table *t);

/* Returns the row of a name in a layer of the model (NO_LAYER if it is in none); -1 if it is on another stage or not in
 * the model. */
int param_row(const param_table *t, param_name name, int64_t layer);

/* Borrows a weight for operations that are submitted to the queue next; return it after their submission. The queue
 * waits until the weight is whole. Returns a view of `count` adjacent rows as one matrix [sum of local rows, local
 * columns]; vectors are 1-D. */
tensor weight_borrow(param_table *t, int row, int count, weight_use use, queue *q);
void weight_return(param_table *t, int row, int count, weight_use use, queue *q);

/* Returns the same FP8 values transposed, [k, n] of each matrix, one after the other; absent if they are not kept. */
tensor weight_transposed(const param_table *t, int row, int count);

/* Return the end of the rows from i, the first one, that form one matrix or one FP8 tensor. */
int matrix_end(const param_table *t, int i);
int fp8_tensor_end(const param_table *t, int i);

/* Returns a view of the rows' gradient, in the shape of weight_borrow. */
tensor param_gradient(const param_table *t, int row, int count);
/* Returns WRITE for the first contribution of the step (of the microbatch, if the weight is gathered for use), else
 * UPDATE. Call it once for each contribution, before submitting it to the queue and before param_gradient. */
access_mode param_contribute(param_table *t, int row, int count, queue *q);
/* Counts a contribution after it was submitted; calls `done` after the bucket's last one. A bucket has one queue. */
void param_contributed(param_table *t, int row, int count, queue *q);

/* Returns whether this rank counts the bucket's gradient in the norm: as first of its holders, on its first end. */
bool bucket_counts(const bucket *b);
/* Returns how many ranks own the same elements; bucket_first_owner whether this is the first of them. */
int bucket_replicas(const bucket *b);
bool bucket_first_owner(const bucket *b);
/* Elements of a bucket. bucket_part: the own part; bucket_held: what `weight` and `gradient` hold. */
typedef struct {
    int64_t first, count;
} fragment;
fragment bucket_part(const bucket *b);
fragment bucket_held(const bucket *b);
/* Returns the own part of the held weights or gradients. */
tensor part_held(const bucket *b, tensor held);
/* Returns what this rank owns of the reduced gradient, of the weight, or of its master (maybe the weight itself). */
tensor gradient_shard(const bucket *b);
tensor weight_shard(const bucket *b);
tensor master_shard(const bucket *b);

/* Returns the elements of a row, from its local start, that `weight` and `gradient` hold, or that this rank's optimizer
 * owns; count may be 0. */
fragment param_held(const param_table *t, int row);
fragment param_owned(const param_table *t, int row);
/* A run of a fragment: elements that are adjacent here, from `local`, and in the whole matrix (row-major, unpadded),
 * from `logical`, or -1 for padding. */
typedef struct {
    int64_t logical, local, count;
} param_run;
/* Finds the run after r, which is { 0 } at first. Returns false after the last. */
bool param_next_run(const param *p, fragment f, param_run *r);
/* Returns a fragment's elements in a flat tensor whose first element is the bucket's element `start`. */
tensor param_view(const param *p, fragment f, tensor flat, int64_t start);

/* Counts the parameters in this rank's parts, padding excluded. */
int64_t param_count_local(const param_table *t);
