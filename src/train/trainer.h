/* One trainer: a case laid out on this rank, and one training step as operations submitted to queues. It never blocks,
 * reads no result, allocates nothing inside a step. Steps of all ranks of the mesh are submitted alike. */
#pragma once
#include "machine/prove/fault.h"
#include "machine/queue/submit.h"
#include "model/stage.h"
#include "plan/model/room.h"
#include "plan/schedule/schedule.h"

enum { REPORT_SLOTS = 4 };
/* Steps of the learning rate's rule: until the largest, and all; those of a loaded checkpoint go on. */
typedef struct {
    int64_t warmup, total;
} rate_extent;
/* Built by trainer_build, or laid out by the caller with trainer_open (on paper, say); driven with trainer_step. */
typedef struct trainer {
    const bench_case *given;
    mesh *mesh;
    queues queues;
    stage stage;
    schedule schedule;
    tensor squares, loss;                /* [EXACT_SUM_WORDS] U64; [1] F64: this rank's, then the global mean */
    tensor report;                       /* [REPORT_SLOTS, STEP_SCALARS] F64: scalars of the last steps */
    tensor totals;                       /* conservation.c: [REPORT_SLOTS, totals] F64; absent on a rank alone */
    tensor digests;                      /* [buckets, BUCKET_DIGESTS] U64; so too */
    tensor routed, routed_report;        /* of experts: figures of a step, all ranks'; [REPORT_SLOTS, figures] F64 */
    double *figures;                     /* those of a step that were read last */
    tensor scales_report, counts_report; /* of FP8: [REPORT_SLOTS, tensors, ..] as model/fp8.h has them */
    int32_t *first_amax;                 /* [tensors] of the calibration, before trainer_initialize */
    float *scale;                        /* [tensors, FP8_FACTORS], [tensors, FP8_COUNTS]: read last */
    uint64_t *count;
    int64_t steps; /* submitted */
    rate_extent rate;
    mark finished[REPORT_SLOTS]; /* optimizer completion of those steps */
    machine *machine;
    int64_t parameters; /* that this rank holds, padding excluded */
    arena arena;
    void *memory;
    machine_kind kind; /* owned when built by trainer_build */
    transfer_room room;
} trainer;

/* Lays the case out on the machine; takes memory from the arena (paper or real). The case and mesh must outlive it. */
void trainer_open(trainer *t, const bench_case *c, mesh *m, machine *on, arena *a);
void trainer_close(trainer *t);

/* Submits initialization: weights, optimizer state, tables. Synchronizes (set-up). */
void trainer_initialize(trainer *t);

/* Instead of the first values, after trainer_initialize: the caller has written master weights and moments (those of
 * the buckets' shards). The next step is step number `done`, from 0; weights follow from the masters. past:
 * [FP8_HISTORY, tensors] largest magnitudes of FP8 tensors in the steps before; of other cases not read. Synchronizes.
 */
void trainer_restore(trainer *t, int64_t done, rate_extent rate, const int32_t *past);

/* Submits one step: gradients, then the update. Returns the mark of its completion. */
mark trainer_step(trainer *t);
/* The two halves, for the reference, which sums gradients between them outside the fabric. */
void trainer_gradients(trainer *t);
mark trainer_update(trainer *t);

/* Their parts. pipeline.c: submits the stage's schedule. */
void pipeline_submit(trainer *t);
/* gradient.c: a bucket's last contribution was submitted; submits its reduction over the ranks that sum it. listener:
 * the trainer. Then of a tied embedding the sum of its two gradients. Then norm over every logical parameter once, clip
 * factor and loss into the step's scalars. */
void gradient_reduce(void *listener, bucket *b, queue *q);
void gradient_tie(trainer *t);
void gradient_norm(trainer *t);
/* optimizer.c: first values; the update of every bucket, of which the last one's mark is returned. */
void optimizer_initialize(trainer *t);
mark optimizer_update(trainer *t);
/* Weights that are kept as FP8 codes get new codes, by the scales as they stand. */
void optimizer_encode(trainer *t);
/* Weights become those of the masters. */
void optimizer_restore(trainer *t);

/* conservation.c. A gradient is summed over ranks up to three times: over the tensor ranks that hold all of it, over
 * the shard ranks between which it is cut into parts, over the ranks that hold the same part. Before and after each sum
 * a rank adds up what it has (signed_sums_op); of a gradient that is summed every microbatch, of one in a step. */
typedef enum { SUM_OF_HOLDERS, SUM_OF_PARTS, SUM_OF_COPIES, BUCKET_SUMS } bucket_sum;
typedef enum { BEFORE_SUM, AFTER_SUM, SUM_MOMENTS } sum_moment;
typedef struct {
    group *over;      /* NULL: there is no such sum */
    bool scatters;    /* each rank has its part of the sum; else each has all of it */
    bool in_fp32;     /* the ranks' parts are added in FP32 in rank order and rounded once; else in the type, by NCCL */
    int64_t elements; /* of the sum on one rank */
    dtype type;
} conserved_sum;
conserved_sum conserved_sum_of(const trainer *t, const bucket *b, bucket_sum which);
void conservation_open(trainer *t, arena *a);
/* Submit the totals of x, what a rank has before the sum or after it, where there is such a sum. Returns the queue's
 * last mark. */
void conserve_before(trainer *t, queue *q, const bucket *b, bucket_sum which, tensor x);
mark conserve_after(trainer *t, queue *q, const bucket *b, bucket_sum which, tensor x);
/* The microbatch of this step whose sums are conserved. */
int64_t conserved_microbatch(const trainer *t);
/* The totals of a step, to be read as trainer_report is; how many there are; where those of a sum begin, [SUM_SLICES,
 * SLICE_TOTALS]. */
int64_t trainer_totals_length(const trainer *t);
void trainer_totals(const trainer *t, int64_t step, double *to);
int64_t conserved_at(const trainer *t, const bucket *b, bucket_sum which, sum_moment when);
/* Digests [buckets, BUCKET_DIGESTS] of the weights that are held, their transposed copies, and those that were gathered
 * for use and are there still; 0 of what is not. Nothing on a rank alone. The caller waits; after the last step. */
typedef enum { DIGEST_HELD, DIGEST_TRANSPOSED, DIGEST_GATHERED, BUCKET_DIGESTS } bucket_digest;
void trainer_digest_weights(trainer *t, uint64_t *to);

/* experts.c: what a mixture of experts reports of a step; nothing where there is none. */
void experts_open(trainer *t, arena *a);
void experts_close(trainer *t);
void experts_begin(trainer *t);
void experts_report(trainer *t, int64_t slot);
/* Of a step, of all ranks: the balance loss, summed over layers, in the mean over sequences; choices before dropping,
 * of all layers; how many of them were dropped; the least and the most that one expert of one layer has had, and the
 * standard deviation of all layers' experts over their mean. */
typedef struct {
    int experts; /* 0: the model has none */
    double balance, chosen, dropped, least, most, variation;
} routed_report;
routed_report trainer_routed(const trainer *t, int64_t step);
/* The balance loss, then of each layer its experts' choices before dropping and those dropped: [1 + layers * 2 * E];
 * good until the next call. Only where there are experts. */
const double *trainer_routed_figures(const trainer *t, int64_t step);

/* scales.c: FP8's amaxes, and the scales that follow; nothing where the case has none. Reduce: every tensor's amax
 * becomes that of all ranks. */
void scales_open(trainer *t, arena *a);
void scales_close(trainer *t);
void scales_initialize(trainer *t);
/* The scales that follow from a history, [FP8_HISTORY, tensors], whose last step is the one before the next. */
void scales_restore(trainer *t, const int32_t *past);
void scales_reduce(trainer *t);
void scales_update(trainer *t, int64_t slot);
/* Of a step, of all ranks, by kind: shares of the values that became codes, and the scales. */
typedef struct {
    int64_t tensors; /* 0: the case has no FP8 */
    double underflow[FP8_KINDS], saturated[FP8_KINDS], scale_least[FP8_KINDS], scale_most[FP8_KINDS];
} fp8_report;
fp8_report trainer_fp8(const trainer *t, int64_t step);
/* Of delayed scaling those of the step to come, [tensors, FP8_FACTORS]; good until the next call. The caller has
 * waited. */
const float *trainer_scales(const trainer *t);
/* Puts others in their place, [tensors, FP8_FACTORS]. */
void trainer_give_scales(trainer *t, const float *all_factors);

/* The scalars of a step that is among the last REPORT_SLOTS and complete: loss, norm, learning rate
 * (machine/op/args.h). The caller has waited for its mark. */
typedef struct {
    double scalar[STEP_SCALARS];
    routed_report routed;
    fp8_report fp8;
} step_report;
step_report trainer_report(const trainer *t, int64_t step);

/* What a trainer is measured for and built with (train/measure.h). */
typedef struct {
    machine_options machine;
    fault fault;
    const int32_t *choices; /* given to the calibration of a check model's experts, as mixture.choices; NULL: none */
} trainer_options;
