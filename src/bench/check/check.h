/* check/: what proves that a case is computed correctly.
 *
 * Is the layout right? The check model of a case is trained on the same mesh, schedule, precision and backend, and
 * compared with the reference. Then it is trained again, with every operation compared with the host's (machine/
 * shadow.h) and every transfer proven (machine/prove/delivery.h): where the machine repeats its bits, it repeats the
 * first run's losses, norms and weights. */
#pragma once
#include "bench/check/findings.h"
#include "bench/check/reference.h"
#include "machine/queue/machine.h"
#include "train/measure.h"

/* Ratios are scaled so that this is the limit, as HPL does. */
enum { CHECK_THRESHOLD = 16 };
/* What is compared with one reference: ratios, or their limits. */
typedef enum {
    CHECK_LOSS_FIRST,
    CHECK_LOSS_LATER,
    CHECK_GRADIENT_FIRST,
    CHECK_GRADIENT_FOURTH,
    CHECK_NORM_FIRST, /* of the gradient, as reported */
    CHECK_NORM_FOURTH,
    CHECK_ALONG, /* of the first step's gradients: COMPARE_ALONG; FP8 only, and to the reference of its scales */
    CHECK_WEIGHTS,
    CHECK_BALANCE,     /* this and the next: of a mixture of experts */
    CHECK_MARGIN,      /* no ratio: of logits */
    CHECK_SCALE_FIRST, /* of FP8: how far the reference's was from the run's (bench/check/scaling.h) */
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
/* Limits of check model c against the reference of its precision, or against the FP32 one; 0: not compared. */
check_limits check_limits_of(const bench_case *c, bool against_fp32);

typedef struct {
    bench_case given; /* the check model */
    bool routes;      /* a mixture of experts: the references take the choices of the run beside them */
    bool scales;      /* FP8: the first of them goes beside the run, whose scales it takes if they are delayed */
    int references;
    reference reference[2]; /* same precision; FP32, unless that is the same */
    check_limits found[2];  /* the largest ratios of the last run, to each reference, not scaled */
    mesh mesh;
    measure share; /* of this rank's share; empty where it takes no part */
} check;

/* Collective over the world. */
void check_open(check *k, const bench_case *c);
void check_close(check *k);
/* Trains the check model on the mesh twice, as the timed steps run and observed, and compares. Once for each
 * check_open. Adds what the machines found to `found`. Collective over the world. */
check_result check_run(check *k, const machine_options *on, machine_findings *found);
