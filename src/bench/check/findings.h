/* What the proofs of a case found, as plain data. */
#pragma once
#include "machine/prove/prove.h"
#include "plan/bench_case.h"

typedef struct {
    double residual;                                       /* scaled: 16 is the threshold; max of the parts below */
    double loss, gradient_first, gradient_fourth, weights; /* worst ratio to its limit x 16, each */
    double along;                                          /* the same of gradients' parts along the reference's; FP8 */
    double routing;                                        /* the same of choices of experts */
    double margin;        /* of those that a reference would have made otherwise, the largest difference of logits */
    int64_t flips;        /* their number */
    double scales;        /* worst ratio to its limit x 16: of FP8's scales */
    int64_t scale_flips;  /* those that the reference's amaxes would have made otherwise */
    char worst[256];      /* what was worst: parameter, step, rank */
    int worst_rank;       /* that rank */
    int64_t faults;       /* executions a planted fault struck in it, all ranks */
    char struck[OP_TEXT]; /* which operation that was (bench/check/fault.h) */
    int64_t transfers;    /* proven in the second run, all ranks */
    int64_t differing;    /* transfers, and kinds of them on an axis, that are wrong; one more: the runs differ */
    char difference[256]; /* the first of them */
    int difference_rank;  /* that found it; -1: it concerns none in particular */
    char digest[17];      /* of the first run's losses, norms and final weights, all ranks' */
    double seconds;       /* cost of the check */
    bool done, passed;
} check_result;

/* Sums of gradients over ranks in the steps, and weights after the last one (conservation.h); this rank's until they
 * are gathered. */
typedef struct {
    int64_t comparisons, failed;          /* of a slice's totals before and after a sum */
    double worst;                         /* largest difference, of what is allowed */
    char sentence[REASON_LENGTH];         /* the first that failed */
    int rank, unequal_rank;               /* that have the sentences */
    int64_t replicas, unequal;            /* of weights, compared with another rank's */
    char unequal_sentence[REASON_LENGTH]; /* the first that is not equal */
} conservation;

/* What machines say of what ran on them; this rank's until they are gathered (bench/run/gather_case.c). */
typedef struct {
    int64_t hazards; /* pairs of operations that nothing orders */
    char hazard[512];
    int hazard_rank;      /* that has the sentence */
    int64_t faults;       /* executions that a planted fault struck */
    shadow_report shadow; /* operations compared with the host's in the check; 0 of them: check = off */
    shadow_report replay; /* in the replayed steps */
} machine_findings;

/* Adds what a finished machine found to f, and what its shadow saw to `seen`, a report of f. */
void findings_add(machine_findings *f, const machine *m, shadow_report *seen);
