/* The limits of the check, as calibrated on healthy layouts. */
#include "bench/check/check.h"
#include <math.h>

enum { CALIBRATED_LAYERS = 7 };
/* Weights that do not move are at 1. */
static const double MOST_OF_WEIGHTS = 0.9;

/* Every layer rounds the residual stream to BF16 twice, and independent roundings add up with the square root of their
 * number: in these units 180 healthy models of 6 to 64 layers (TP2 PP2, up to 32 chunks) stay below 0.61 of every
 * limit. */
static check_limits deepened(check_limits limits, int64_t layers)
{
    double factor = sqrt(fmax(1.0, (double)layers / CALIBRATED_LAYERS));
    for (int m = 0; m < CHECK_MEASURES; m++) limits.of[m] *= factor;
    limits.weights = fmin(limits.weights, MOST_OF_WEIGHTS);
    return limits;
}

/* Loss: relative, per sequence and of the step as reported. Gradients: r (compare.h). Norm: relative, as reported;
 * these limits hold on the host, on GPUs the gradient's do. Weights: r with the change of four steps as reference.
 * Balance loss of experts: relative. Margin: of logits, where a choice of experts is not the reference's. The largest
 * value of healthy checks stands beside each limit (validation/measured/calibration-host.txt has the latest). A limit
 * is at least 1.5 times that, but for FP8's weights. */
static const check_limits fp32 = {
    .loss_first = 1e-6,        /* 1.5e-8: room for some hundred layers */
    .loss_later = 2e-5,        /* 1.9e-6 */
    .gradient_first = 1e-5,    /* 2.4e-6 */
    .gradient_fourth = 2.2e-3, /* 7.4e-4 */
    .norm_first = 1e-5,        /* 1.0e-7 */
    .norm_fourth = 1e-3,       /* 6.7e-6 */
    .weights = 2.9e-2,         /* 9.7e-3: a gradient below its rounding turns */
    .balance = 2e-5,           /* 1.7e-6 */
    .margin = 1e-4,            /* no choice differed */
};
static const check_limits bf16 = {
    .loss_first = 1e-3,        /* 3.4e-4 */
    .loss_later = 2e-3,        /* 6.9e-4 */
    .gradient_first = 4.7e-2,  /* 2.3e-2 */
    .gradient_fourth = 1.5e-1, /* 2.7e-2 */
    .norm_fourth = 1.6e-2,     /* 5.2e-3 */
    .weights = 5.7e-1,         /* 2.8e-1 */
    .balance = 2e-3,           /* 4.0e-4 */
    .margin = 1e-1,            /* 3.2e-2 */
};
/* FP8 codes tip where BF16 differs in its last place, so that two layouts differ by as much as FP8 from FP32. Scales
 * differ as amaxes do, by one element of a BF16 gradient: what exact ones show. A factor of two is never further than
 * 0.41 from where it may be, so that a deep model is allowed it everywhere after the first step; what differs otherwise
 * is infinitely far. */
static const check_limits fp8 = {
    .loss_first = 4e-3,      /* 1.7e-3 */
    .loss_later = 1e-2,      /* 4.8e-3 */
    .gradient_first = 5e-1,  /* 2.5e-1 */
    .gradient_fourth = 6e-1, /* 3.1e-1 */
    .norm_fourth = 5.5e-2,   /* 3.2e-2 */
    .along = 1.3e-1,         /* 6.4e-2 */
    .weights = 9e-1,         /* 6.5e-1: no more than what does not move */
    .balance = 6e-3,         /* 2.9e-3 */
    .margin = 5e-1,          /* 2.4e-1 */
    .scale_first = 7.5e-2,   /* 3.7e-2 */
    .scale_later = 3.5e-1,   /* 1.7e-1 */
};
static const check_limits fp8_against_fp32 = {
    .loss_first = 1.2e-2,      /* 6.2e-3 */
    .loss_later = 1.5e-2,      /* 7.3e-3 */
    .gradient_first = 6e-1,    /* 3.0e-1 */
    .gradient_fourth = 8.2e-1, /* 4.1e-1 */
    .norm_first = 8.5e-2,      /* 5.3e-2 */
    .norm_fourth = 8.5e-2,     /* 3.7e-2 */
    .balance = 2e-2,           /* 9.7e-3 */
    .margin = 6e-1,            /* 3.0e-1 */
};
static const check_limits bf16_against_fp32 = {
    .loss_first = 1.2e-3,    /* 6.4e-4 */
    .loss_later = 4e-3,      /* 2.1e-3 */
    .gradient_first = 5e-2,  /* 2.7e-2 */
    .gradient_fourth = 2e-1, /* 8.0e-2 */
    .norm_first = 5e-3,      /* 2.7e-3 */
    .norm_fourth = 5.4e-2,   /* 2.4e-2 */
    .weights = 5.8e-1,       /* 2.9e-1 */
    .balance = 4e-3,         /* 1.0e-3 */
    .margin = 1e-1,          /* 2.3e-2 */
};

/* The first step on the host against the reference of the same precision, with one tensor rank and with several. The
 * reference rounds as the run does (parallel/imitation.h). What differs is the order of sums in FP32, and in BF16 how
 * often the sum of the microbatches' and ranks' gradients is rounded. oneDNN's order of sums depends on the rows of a
 * product, of which each context rank has a share. So with context ranks a value of BF16 or FP8 tips in about one check
 * of a hundred. A limit of which a healthy check used more than two thirds became three times that check's value. The
 * largest values of healthy checks with AVX2, of loss, gradient, norm and, in FP8, the part along the gradient, stand
 * beside. */
static const check_limits first_step[2][2] = {
    {
        /* BF16 */
        { .loss_first = 3.4e-5, .gradient_first = 3.9e-2, .norm_first = 2.5e-3 }, /* 1.1e-5, 1.3e-2, 5.2e-4 */
        { .loss_first = 1e-4, .gradient_first = 2.5e-2, .norm_first = 2.5e-3 },   /* 4.5e-6, 7.2e-3, 1.9e-4 */
    },
    {
        /* FP8 */
        { .loss_first = 1.8e-5, .gradient_first = 2e-2, .norm_first = 2.5e-4, .along = 1.2e-3 },
        /* 5.9e-6, 1.1e-2, 1.0e-4, 4.7e-4 */
        { .loss_first = 1.1e-5, .gradient_first = 3e-1, .norm_first = 4.9e-3, .along = 5.6e-2 },
        /* 1.5e-7, 1.0e-1, 2.0e-3, 2.6e-2: exact scales of 12 chunks */
    },
};

static void set_first_step(check_limits *limits, const check_limits *first)
{
    limits->loss_first = first->loss_first;
    limits->gradient_first = first->gradient_first;
    limits->norm_first = first->norm_first;
    limits->along = first->along;
}

/* A GPU's order of sums is not that of the reference, which computes on the host. The emulator of a GPU tests what
 * holds there, so it has the same limits. With one tensor rank depth adds nothing to the first step on the host. */
check_limits check_limits_of(const bench_case *c, bool against_fp32)
{
    static const check_limits *const tables[2][2] = { { &bf16, &bf16_against_fp32 }, { &fp8, &fp8_against_fp32 } };
    bool codes = c->precision == PRECISION_FP8, several = c->layout.degree[AXIS_TENSOR] > 1;
    bool host = c->backend == BACKEND_HOST && is_imitated(c), tight = host && !against_fp32;
    if (c->precision == PRECISION_FP32) return fp32;
    check_limits limits = *tables[codes][against_fp32];
    if (!host) limits.norm_first = limits.gradient_first, limits.norm_fourth = limits.gradient_fourth;
    if (tight && several) set_first_step(&limits, &first_step[codes][several]);
    limits = deepened(limits, c->model.layers);
    if (tight && !several) set_first_step(&limits, &first_step[codes][several]);
    return limits;
}
