/* Findings of the checks of a case, as plain data. */
#pragma once
#include "machine/prove/prove.h"
#include "plan/bench_case.h"

typedef struct {
    double residual;                                       /* largest of the ratios below; 16 is the limit */
    double loss, gradient_first, gradient_fourth, weights; /* each: largest ratio to its limit, times 16 */
    double along;                                          /* the same for COMPARE_ALONG (compare.h); FP8 only */
    double routing;                                        /* the same for the routing to experts */
    double margin;       /* largest difference of logits where a reference would choose another expert */
    int64_t flips;       /* number of those choices */
    double scales;       /* the same ratio for FP8 scales */
    int64_t scale_flips; /* FP8 scales that differ from the reference's */
    char worst[256];     /* source of the largest ratio: parameter, step, rank */
    int worst_rank;
    int64_t faults;       /* executions in the check that a planted fault struck, all ranks */
    char struck[OP_TEXT]; /* the operation that it struck (bench/check/fault.h) */
    int64_t transfers;    /* transfers compared in the second run, all ranks */
    int64_t differing;    /* wrong sums + wrong kinds of transfer per axis + 1 if the two runs differ */
    char difference[256]; /* description of the first of these */
    int difference_rank;  /* rank that found it; -1 if no rank in particular */
    char digest[17];      /* digest of losses, norms and final weights of the first run, all ranks */
    double seconds;       /* duration of the check */
    bool done, passed;
} check_result;

/* Conserved sums of the steps, and comparison of replicas after the last step (conservation.h). The values are this
 * rank's until bench/run/gather_case.c gathers them. */
typedef struct {
    int64_t comparisons, failed;          /* comparisons of totals before and after a sum */
    double worst;                         /* largest difference divided by its limit */
    char sentence[REASON_LENGTH];         /* the first failed comparison */
    int rank, unequal_rank;               /* ranks that wrote the two sentences */
    int64_t replicas, unequal;            /* replicas of weights compared; those that differ */
    char unequal_sentence[REASON_LENGTH]; /* the first replica that differs */
} conservation;

/* Findings of the machines that ran the case. The values are this rank's until bench/run/gather_case.c gathers them. */
typedef struct {
    int64_t hazards; /* pairs of conflicting operations that nothing orders */
    char hazard[512];
    int hazard_rank;      /* rank that wrote `hazard` */
    int64_t faults;       /* executions that a planted fault struck, check included */
    shadow_report shadow; /* operations compared with the host in the check; none if check = off */
    shadow_report replay; /* the same in the replayed steps */
} machine_findings;

/* Adds the findings of a finished machine to f, and its shadow report to `seen`, a member of f. */
void findings_add(machine_findings *f, const machine *m, shadow_report *seen);
