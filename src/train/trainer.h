/* One trainer: a case laid out on this rank, and training steps as operations submitted to queues. Inside a step it
 * never blocks, reads no result and allocates nothing. All ranks of the mesh submit the same steps. */
#pragma once
#include "machine/prove/fault.h"
#include "machine/queue/submit.h"
#include "model/stage.h"
#include "plan/model/sm_shares.h"
#include "plan/schedule/schedule.h"

enum { REPORT_SLOTS = 4 };
/* Steps of the learning rate schedule: of its warm-up, and in all. A loaded checkpoint has its own. */
typedef struct {
    int64_t warmup, total;
} rate_extent;
/* A trainer: built by trainer_build, or laid out by the caller with trainer_open (on paper); driven by trainer_step. */
typedef struct trainer {
    const bench_case *given;
    mesh *mesh;
    queues queues;
    stage stage;
    schedule schedule;
    tensor squares, loss;                /* [EXACT_SUM_WORDS] U64; [1] F64: this rank's, then the global mean */
    tensor report;                       /* [REPORT_SLOTS, STEP_SCALARS] F64: scalars of the last steps */
    tensor totals;                       /* conservation.c: [REPORT_SLOTS, totals] F64; absent if a rank is alone */
    tensor digests;                      /* [buckets, BUCKET_DIGESTS] U64; absent if a rank is alone */
    tensor routed, routed_report;        /* experts: figures of a step, over all ranks; [REPORT_SLOTS, figures] F64 */
    double *figures;                     /* figures of the step read last */
    tensor scales_report, counts_report; /* FP8: [REPORT_SLOTS, tensors, ..] as in model/fp8.h */
    int32_t *first_amax;                 /* [tensors] amaxes of the calibration, before trainer_initialize */
    float *scale;                        /* [tensors, FP8_FACTORS], read last */
    uint64_t *count;                     /* [tensors, FP8_COUNTS], read last */
    int64_t steps;                       /* submitted steps */
    rate_extent rate;
    mark finished[REPORT_SLOTS]; /* ends of the optimizer in those steps */
    machine *machine;
    int64_t parameters; /* parameters that this rank holds, padding excluded */
    arena arena;
    void *memory;
    machine_kind kind; /* machine, arena and memory are owned if trainer_build built them */
    sm_shares shares;
} trainer;

/* Lays the case out on the machine; takes memory from the arena (paper or real). Case and mesh must live longer. */
void trainer_open(trainer *t, const bench_case *c, mesh *m, machine *target, arena *a);
void trainer_close(trainer *t);

/* Submits the initialization of weights, optimizer state and tables, and waits for it. */
void trainer_initialize(trainer *t);

/* Restores a checkpoint after trainer_initialize and waits for it. The caller has written masters and moments of the
 * buckets' shards; the weights are rounded from the masters. done: completed steps. past: [FP8_HISTORY, tensors] amaxes
 * of earlier steps; read only with delayed scaling. */
void trainer_restore(trainer *t, int64_t done, rate_extent rate, const int32_t *past);

/* Submits one step: gradients, then the update. Returns the mark of its completion. */
mark trainer_step(trainer *t);
/* Submits one half of a step. Between the halves, the check's reference sums gradients itself. */
void trainer_gradients(trainer *t);
mark trainer_update(trainer *t);

/* Submits the stage's schedule (pipeline.c). */
void pipeline_submit(trainer *t);
/* Submits a bucket's reduction over ranks after its last contribution; listener: the trainer. gradient_tie submits the
 * sum of a tied embedding's two gradients; gradient_norm writes the norm over all parameters, the clip factor and the
 * loss into the step's scalars (gradient.c). */
void gradient_reduce(void *listener, bucket *b, queue *q);
void gradient_tie(trainer *t);
void gradient_norm(trainer *t);
/* Submits the initial values. optimizer_update submits the update of all buckets and returns its mark (optimizer.c). */
void optimizer_initialize(trainer *t);
mark optimizer_update(trainer *t);
/* Rounds the masters of FP8 weights again, with the current scales. */
void optimizer_round_fp8(trainer *t);
/* Rounds all masters to weights. */
void optimizer_restore(trainer *t);

/* Sums of gradients (conservation.c). A gradient is summed over ranks up to three times: over the tensor ranks that all
 * hold it, over the shard ranks that hold its parts, over the ranks that hold the same part. Before and after each sum
 * a rank adds up its values (signed_sums_op). A sum of every microbatch is checked in one microbatch of each step. */
typedef enum { SUM_OF_HOLDERS, SUM_OF_PARTS, SUM_OF_COPIES, BUCKET_SUMS } bucket_sum;
typedef enum { BEFORE_SUM, AFTER_SUM, SUM_MOMENTS } sum_moment;
typedef struct {
    group *over;      /* NULL if there is no such sum */
    bool scatters;    /* each rank gets its part of the sum; else all of it */
    bool in_fp32;     /* parts are added in FP32 in rank order and rounded once; else in the type, by NCCL */
    int64_t elements; /* elements of the sum on one rank */
    dtype type;
} conserved_sum;
conserved_sum conserved_sum_of(const trainer *t, const bucket *b, bucket_sum which);
void conservation_open(trainer *t, arena *a);
/* Submits the totals of x, a rank's share before or after the sum, if there is such a sum. Returns the last mark. */
void conserve_before(trainer *t, queue *q, const bucket *b, bucket_sum which, tensor x);
mark conserve_after(trainer *t, queue *q, const bucket *b, bucket_sum which, tensor x);
/* Returns the microbatch of this step whose sums are checked. */
int64_t checked_microbatch(const trainer *t);
/* Returns the number of a step's totals. trainer_totals reads them under the conditions of trainer_report;
 * conserved_offset returns the offset of a sum's totals, [SUM_SLICES, SLICE_TOTALS]. */
int64_t trainer_totals_length(const trainer *t);
void trainer_totals(const trainer *t, int64_t step, double *to);
int64_t conserved_offset(const trainer *t, const bucket *b, bucket_sum which, sum_moment when);
/* Writes digests [buckets, BUCKET_DIGESTS] of the held weights, of their transposed copies, and of gathered weights
 * that are still in a buffer (absent: 0); nothing if a rank is alone. Call it after the last step; it waits. */
typedef enum { DIGEST_HELD, DIGEST_TRANSPOSED, DIGEST_GATHERED, BUCKET_DIGESTS } bucket_digest;
void trainer_digest_weights(trainer *t, uint64_t *to);

/* Reports of a mixture of experts (experts.c); without experts they do nothing. */
void experts_open(trainer *t, arena *a);
void experts_close(trainer *t);
void experts_begin(trainer *t);
void experts_report(trainer *t, int64_t slot);
/* Figures of a step, over all ranks. balance: balance loss, summed over layers, mean over sequences. chosen: choices
 * before dropping, in all layers; dropped: dropped choices. least, most, variation: smallest and largest number of
 * choices that an expert of a layer received, and their standard deviation divided by their mean. */
typedef struct {
    int experts; /* 0: the model has none */
    double balance, chosen, dropped, least, most, variation;
} routed_report;
routed_report trainer_routed(const trainer *t, int64_t step);
/* Returns the balance loss, then for each layer its experts' choices before dropping and those dropped: [1 + layers * 2
 * * E]; valid until the next call. Only with experts. */
const double *trainer_routed_figures(const trainer *t, int64_t step);

/* FP8's amaxes and scales (scales.c); without FP8 they do nothing. scales_reduce sets every amax to the largest of all
 * ranks. */
void scales_open(trainer *t, arena *a);
void scales_close(trainer *t);
void scales_initialize(trainer *t);
/* Sets the scales from a history, [FP8_HISTORY, tensors], that ends with the previous step. */
void scales_restore(trainer *t, const int32_t *past);
void scales_reduce(trainer *t);
void scales_update(trainer *t, int64_t slot);
/* FP8 figures of a step by kind of tensor, over all ranks: fractions of all rounded values, and extreme scales. */
typedef struct {
    int64_t tensors; /* 0: the case has no FP8 */
    double underflow[FP8_KINDS], saturated[FP8_KINDS], scale_least[FP8_KINDS], scale_most[FP8_KINDS];
} fp8_report;
fp8_report trainer_fp8(const trainer *t, int64_t step);
/* Returns the scales of the next step (delayed scaling), [tensors, FP8_FACTORS]; valid until the next call. The caller
 * has waited for the last step. */
const float *trainer_scales(const trainer *t);
/* Replaces these scales, [tensors, FP8_FACTORS], and rounds the weights again. */
void trainer_set_scales(trainer *t, const float *all_factors);

/* Scalars of a step: loss, norm, learning rate (machine/op/args.h). The step must be among the last REPORT_SLOTS, and
 * the caller must have waited for its mark. */
typedef struct {
    double scalar[STEP_SCALARS];
    routed_report routed;
    fp8_report fp8;
} step_report;
step_report trainer_report(const trainer *t, int64_t step);

/* Options for measuring and building a trainer (train/measure.h). */
typedef struct {
    machine_options machine;
    fault fault;
    const int32_t *choices; /* choices of experts for a check model's calibration, as mixture.choices; NULL: none */
} trainer_options;
