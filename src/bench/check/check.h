/* check/: checks that a case is computed correctly.
 *
 * The check model of a case is trained on the case's mesh, schedule, precision and backend, and compared with the
 * reference. Then it is trained again: every operation is compared with the host (machine/prove/shadow.h), and every
 * transfer is proven (machine/prove/delivery.h). If the machine is deterministic, the second run must repeat the
 * losses, norms and weights of the first bit by bit. */
#pragma once
#include "bench/check/findings.h"
#include "bench/check/reference.h"
#include "machine/queue/machine.h"
#include "train/measure.h"

/* The limit of all scaled ratios, as in HPL. */
enum { CHECK_THRESHOLD = 16 };
/* Quantities that are compared with one reference. */
typedef enum {
    CHECK_LOSS_FIRST,
    CHECK_LOSS_LATER,
    CHECK_GRADIENT_FIRST,
    CHECK_GRADIENT_FOURTH,
    CHECK_NORM_FIRST, /* reported gradient norm */
    CHECK_NORM_FOURTH,
    CHECK_ALONG, /* COMPARE_ALONG of the first step's gradients, with the FP8 reference; FP8 only */
    CHECK_WEIGHTS,
    CHECK_BALANCE,     /* balance loss of a mixture of experts */
    CHECK_MARGIN,      /* difference of router logits, not a ratio */
    CHECK_SCALE_FIRST, /* distance of FP8 scales (scaling.h) */
    CHECK_SCALE_LATER,
    CHECK_MEASURES
} check_measure;
typedef union {
    double of[CHECK_MEASURES];
    struct {
        double loss_first, loss_later, gradient_first, gradient_fourth, norm_first, norm_fourth, along, weights,
            balance, margin, scale_first, scale_later;
    };
} check_limits;
/* Returns the limits for check model c and the reference in its precision, or in FP32. Quantities with limit 0 are not
 * compared. */
check_limits check_limits_of(const bench_case *c, bool against_fp32);

typedef struct {
    bench_case given; /* the check model */
    bool routes;      /* the case has experts: the references take the choices of the run */
    bool scales;      /* the case is FP8: the first reference takes the scales of the run */
    int references;
    reference reference[2]; /* in the same precision; in FP32 if the case is not FP32 */
    check_limits found[2];  /* largest ratios to each reference, not scaled */
    mesh mesh;
    measure share; /* this rank's; empty if it takes no part */
} check;

/* Lay out the check model of c, and free it. Collective over the world. */
void check_open(check *k, const bench_case *c);
void check_close(check *k);
/* Trains the check model twice: with overlapping queues like the timed steps, then with every operation and transfer
 * checked. Adds the machines' findings to `found`. Call it once after check_open. Collective over the world. */
check_result check_run(check *k, const machine_options *options, machine_findings *found);
