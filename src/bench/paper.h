/* A case on paper, as a whole: what each rank of its mesh holds, computes and sends in a step. */
#pragma once
#include "plan/bench_case.h"
#include "train/measure.h"

/* Ranks of one pipeline stage differ in nothing that is counted here but the vocabulary's padding, which the last tensor
 * ranks hold: so one rank stands for all, that of tensor, context, shard and data rank 0, which holds most parameters. */
typedef struct {
    int rank;                               /* that stands for the stage */
    int64_t layers;
    int64_t live;                           /* chunk-microbatches between forward and backward, at most */
    int64_t parameters;                     /* of this rank; padding excluded */
    int64_t replica_parameters;             /* of all tensor ranks together: each once */
    double model_flops;                     /* of this rank and a step */
    double replica_model_flops;             /* of all tensor ranks together */
    size_t bytes[ARENA_KINDS];
    size_t total;                           /* of all kinds that are known */
    tally step;                             /* as submitted; empty if the case is not measured */
} paper_stage;

typedef struct {
    bool measured;                          /* else only what formulas tell: weights, gradients, optimizer, model flops */
    int stages;
    paper_stage *stage;                     /* owned */
    hazard_report hazards;                  /* of all measured stages; the first stage's sentences that has any */
} paper;

/* Measures every stage of the case, or, if it is not built, asks the formulas. Allocates no training memory. */
paper paper_open(const bench_case *c);
void paper_close(paper *p);
/* Over all ranks of the mesh. */
int64_t paper_parameters(const paper *p);
double paper_model_flops(const paper *p, const bench_case *c);
double paper_submitted_flops(const paper *p, const bench_case *c);
