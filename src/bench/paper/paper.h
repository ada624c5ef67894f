/* paper/: facts of a case that are known without running it.
 *
 * A case on paper: memory, computing and transfers of each rank in a step. */
#pragma once
#include "plan/model/rank_share.h"
#include "train/measure.h"

/* One stage, represented by its rank with tensor, context, shard and data rank 0. The stage's other ranks differ only
 * in the padding of the vocabulary, which the last tensor ranks hold, so none has more parameters. */
typedef struct {
    int rank; /* the rank that represents the stage */
    int64_t layers;
    int64_t live;                 /* most forwards (chunk, microbatch) whose backward is not done */
    int64_t parameters;           /* of this rank, without padding */
    flop_count model_flops;       /* of this rank in a step */
    flop_count stage_model_flops; /* of all ranks of the stage in a step */
    size_t bytes[ARENA_KINDS], total;
    tally step; /* of this rank in a step, as submitted */
} paper_stage;

typedef struct {
    int stages;
    paper_stage *stage;    /* owned */
    hazard_report hazards; /* count of all stages; sentences of the first stage that has any */
} paper;

/* Measures every stage of the case. Allocates no training memory. */
paper paper_open(const bench_case *c);
void paper_close(paper *p);
/* Return the flops of a step over all ranks of the mesh: by the formula, and as submitted. */
flop_count paper_model_flops(const paper *p);
double paper_submitted_flops(const paper *p, const bench_case *c);

/* Scratch of operations that paper_rank_bytes assumes, so that a build without CUDA gives the same layers. The largest
 * of all workloads is 0.85 GB. */
#define PAPER_SCRATCH_BYTES 1e9
/* Returns the most bytes that a rank takes on a GPU, with what libraries take outside the arena
 * (memory_outside_estimate). Lays out three stages: the first holds the most microbatches, the last has the loss, and
 * the second may have more layers than the first. */
double paper_rank_bytes(const bench_case *c);
