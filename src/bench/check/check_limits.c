/* Limits of the check, calibrated on healthy layouts. */
#include "bench/check/check.h"
#include <math.h>

enum { CALIBRATED_LAYERS = 7 };
/* Weights that do not move at all have r = 1. */
static const double LARGEST_WEIGHT_LIMIT = 0.9;

/* Limits grow with the square root of the layers, because each layer rounds the residual stream to BF16 twice, and the
 * roundings are independent. 180 healthy models of 6 to 64 layers (TP2 PP2, up to 32 chunks) reach at most 0.61 of a
 * limit. */
static check_limits scaled_with_layers(check_limits limits, int64_t layers)
{
    double factor = sqrt(fmax(1.0, (double)layers / CALIBRATED_LAYERS));
    for (int m = 0; m < CHECK_MEASURES; m++) limits.of[m] *= factor;
    limits.weights = fmin(limits.weights, LARGEST_WEIGHT_LIMIT);
    return limits;
}

/* Losses, norms and the balance loss have limits of the relative difference. Gradients and weights have limits of r
 * (compare.h). The margin is a difference of logits. On GPUs the limit of the gradients replaces that of the norm. The
 * comment after each limit is the largest value in healthy checks (latest: validation/measured/calibration-host.txt).
 * A limit is at least 1.5 times that value, except for the weights in FP8. */
static const check_limits fp32 = {
    .loss_first = 1e-6,        /* 1.5e-8: enough for several hundred layers */
    .loss_later = 2e-5,        /* 1.9e-6 */
    .gradient_first = 1e-5,    /* 2.4e-6 */
    .gradient_fourth = 2.2e-3, /* 7.4e-4 */
    .norm_first = 1e-5,        /* 1.0e-7 */
    .norm_fourth = 1e-3,       /* 6.7e-6 */
    .weights = 2.9e-2,         /* 9.7e-3: a gradient below its rounding error changes sign */
    .balance = 2e-5,           /* 1.7e-6 */
    .margin = 1e-4,            /* no choice has differed */
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
/* A difference in the last place of a BF16 value can change its FP8 value, so two layouts differ as much as FP8 and
 * FP32 do. The amax of a gradient is one BF16 value, and the scale differs as much as this value. If scales that are
 * powers of two differ, their distance (scaling.h) is at most 0.41; after the first step a deep model may reach it. */
static const check_limits fp8 = {
    .loss_first = 4e-3,      /* 1.7e-3 */
    .loss_later = 1e-2,      /* 4.8e-3 */
    .gradient_first = 5e-1,  /* 2.5e-1 */
    .gradient_fourth = 6e-1, /* 3.1e-1 */
    .norm_fourth = 5.5e-2,   /* 3.2e-2 */
    .along = 1.3e-1,         /* 6.4e-2 */
    .weights = 9e-1,         /* 6.5e-1; weights that do not move would have 1 */
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

/* Limits of the first step on the host against the reference of the same precision, with one tensor rank and with
 * several. The reference rounds where the run does (parallel/imitation.h). Differences come from the order of FP32
 * sums, and in BF16 from the number of roundings in the sum of gradients over microbatches and ranks. oneDNN's order of
 * sums depends on the number of rows of a product, and context ranks share the rows. So with context ranks a BF16 or
 * FP8 value changes in about one check of a hundred. If a healthy check exceeds two thirds of a limit, set the limit to
 * three times the value of that check. The comments give the largest values of healthy checks with AVX2: loss,
 * gradient, norm and, in FP8, the component along the gradient. */
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

/* The limits of first_step apply only on the host, because a GPU adds in another order than the reference. The GPU
 * emulator has the limits of a GPU. With one tensor rank, these limits do not grow with the number of layers. */
check_limits check_limits_of(const bench_case *c, bool against_fp32)
{
    static const check_limits *const tables[2][2] = { { &bf16, &bf16_against_fp32 }, { &fp8, &fp8_against_fp32 } };
    bool is_fp8 = c->precision == PRECISION_FP8, several = c->layout.degree[AXIS_TENSOR] > 1;
    bool host = c->backend == BACKEND_HOST && can_be_imitated(c), tight = host && !against_fp32;
    if (c->precision == PRECISION_FP32) return fp32;
    check_limits limits = *tables[is_fp8][against_fp32];
    if (!host) limits.norm_first = limits.gradient_first, limits.norm_fourth = limits.gradient_fourth;
    if (tight && several) set_first_step(&limits, &first_step[is_fp8][several]);
    limits = scaled_with_layers(limits, c->model.layers);
    if (tight && !several) set_first_step(&limits, &first_step[is_fp8][several]);
    return limits;
}
