/* paper/: what is known of a case without running it.
 *
 * A case on paper, as a whole: what each rank of its mesh holds, computes and sends in a step. */
#pragma once
#include "plan/model/rank_share.h"
#include "train/measure.h"

/* Ranks of one pipeline stage differ in nothing that is counted here but the vocabulary's padding, which the last
 * tensor ranks hold: so one rank stands for all, that of tensor, context, shard and data rank 0, which holds most
 * parameters. */
typedef struct {
    int rank; /* that stands for the stage */
    int64_t layers;
    int64_t live;                 /* chunk-microbatches between forward and backward, at most */
    int64_t parameters;           /* of this rank; padding excluded */
    flop_count model_flops;       /* of this rank and a step */
    flop_count stage_model_flops; /* of all ranks of the stage */
    size_t bytes[ARENA_KINDS], total;
    tally step; /* as submitted */
} paper_stage;

typedef struct {
    int stages;
    paper_stage *stage;    /* owned */
    hazard_report hazards; /* of all stages; the first stage's sentences that has any */
} paper;

/* Measures every stage of the case. Allocates no training memory. */
paper paper_open(const bench_case *c);
void paper_close(paper *p);
/* Of a step, over all ranks of the mesh. */
flop_count paper_model_flops(const paper *p);
double paper_submitted_flops(const paper *p, const bench_case *c);
