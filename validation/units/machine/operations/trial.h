/* Tests every operation of operations.c and operations_activations.c: compares it with a simple version in double on
 * random tensors of each shape, compares each gradient with central differences of that version, and checks that the
 * result does not depend on the number of threads. */
#pragma once
#include "operations.h"
#include "units/test_length.h"

enum { TENSORS = 4, SHAPES = 9, SHAPE = 6, CHECKED_ELEMENTS = 24 };
static const double STEP = 1e-4; /* of the differences, whose error is about 1e-8 */

/* type DTYPES: the tested format. below > 0: integers in [0, below). differentiate: the input has a gradient, of format
 * gradient_type. */
typedef struct {
    dtype type;
    int dims;
    int64_t dim[4];
    bool gaps, differentiate, overwritten; /* a gradient that is never added to */
    double offset;
    int64_t below;
    dtype gradient_type;
} spec;

typedef struct {
    const char *name;
    int inputs, outputs; /* the loss is a weighted sum of output 0 */
    int in_place;        /* this many outputs start as the inputs */
    bool updates;        /* backward also accumulates */
    void (*describe)(const int64_t *shape, spec *in, spec *out);
    void (*reference)(const int64_t *shape, dtype type, double *const *in, double *const *out);
    void (*forward)(queue *q, const int64_t *shape, const tensor *in, const tensor *out);
    void (*backward)(queue *q, const int64_t *shape, const tensor *in, const tensor *out, tensor d_out,
                     const tensor *d_in, access_mode how);
    bool (*is_large)(const int64_t *shape, dtype type); /* skipped with XGSW_TEST_SMALL_BLOCKS (shared_memory.t) */
    /* Allowed absolute error in FP32 roundings of the largest element, in addition to one rounding of each result. */
    double forward_roundings, backward_roundings;
    /* BF16 roundings of saved results that affect the gradient. */
    double backward_bf16;
    /* BF16 roundings of softmax weights on the CUDA machine that affect output 0, relative to the largest input. */
    double weights_bf16;
    int64_t shape[SHAPES][SHAPE];
} operation;

/* `shaped` is the name prefix of the describing function, `computed` that of the other functions. */
#define OPERATION(title, shaped, computed, ...)                                                                        \
    {                                                                                                                  \
        .name = title, .describe = shaped##_describe, .reference = computed##_reference, .forward = computed##_run,    \
        .backward = computed##_run_backward, __VA_ARGS__                                                               \
    }

typedef struct {
    const operation *o;
    const int64_t *shape;
    dtype type;
    int64_t gap;
    spec in_spec[TENSORS], out_spec[TENSORS];
    sample in[TENSORS], out[TENSORS], d_out, d_in[TENSORS];
} trial;

static sample sample_of(const trial *t, const spec *s, dtype given)
{
    return sample_open(given == DTYPES ? t->type : given, s->dims, s->dim, s->gaps ? t->gap : 0);
}

static void randomize(sample *x, const spec *s, uint32_t number)
{
    sample_randomize(x, number, 1.0, s->offset);
    for (int64_t i = 0; s->below && i < x->elements; i++)
        element_set(&x->t, i, floor((random_value(number, i) + 1.0) / 2.0 * (double)s->below));
    sample_read(x);
}

static trial trial_open(const operation *o, const int64_t *shape, dtype type, int64_t gap)
{
    trial t = { .o = o, .shape = shape, .type = type, .gap = gap };
    o->describe(shape, t.in_spec, t.out_spec);
    for (int i = 0; i < o->inputs; i++) {
        t.in[i] = sample_of(&t, &t.in_spec[i], t.in_spec[i].type);
        randomize(&t.in[i], &t.in_spec[i], (uint32_t)i);
    }
    for (int i = 0; i < o->outputs; i++) t.out[i] = sample_of(&t, &t.out_spec[i], t.out_spec[i].type);
    t.d_out = sample_of(&t, &t.out_spec[0], t.out_spec[0].type);
    sample_randomize(&t.d_out, 9, 1.0, 0.0);
    for (int i = 0; i < o->inputs; i++)
        if (t.in_spec[i].differentiate) t.d_in[i] = sample_of(&t, &t.in_spec[i], t.in_spec[i].gradient_type);
    return t;
}

static void trial_close(trial *t)
{
    for (int i = 0; i < t->o->inputs; i++) sample_close(&t->in[i]);
    for (int i = 0; i < t->o->outputs; i++) sample_close(&t->out[i]);
    for (int i = 0; i < t->o->inputs; i++) sample_close(&t->d_in[i]);
    sample_close(&t->d_out);
}

static void run_forward(trial *t)
{
    tensor in[TENSORS], out[TENSORS];
    for (int i = 0; i < t->o->inputs; i++) in[i] = t->in[i].t;
    for (int i = 0; i < t->o->outputs; i++) out[i] = t->out[i].t;
    for (int i = 0; i < t->o->in_place; i++) memcpy(t->out[i].memory, t->in[i].memory, t->in[i].bytes);
    RUN(q, t->o->forward(q, t->shape, in, out));
}

/* Runs the backward. With UPDATE, gradients are added to d_in. */
static void run_backward(trial *t, access_mode how)
{
    if (!t->o->backward) return;
    tensor in[TENSORS], out[TENSORS], d_in[TENSORS];
    for (int i = 0; i < t->o->inputs; i++) in[i] = t->in[i].t, d_in[i] = t->d_in[i].t;
    for (int i = 0; i < t->o->outputs; i++) out[i] = t->out[i].t;
    if (t->o->in_place) memcpy(t->d_in[0].memory, t->d_out.memory, t->d_out.bytes);
    RUN(q, t->o->backward(q, t->shape, in, out, t->d_out.t, d_in, how));
}

static void evaluate(const trial *t, double **out)
{
    double *in[TENSORS];
    for (int i = 0; i < t->o->inputs; i++) in[i] = t->in[i].value;
    t->o->reference(t->shape, t->type, in, out);
}

/* Computes every output in double. Returns output 0 weighted with d_out. */
static double loss(const trial *t)
{
    double *out[TENSORS], sum = 0.0;
    for (int i = 0; i < t->o->outputs; i++) out[i] = calloc((size_t)t->out[i].elements + 1, sizeof **out);
    evaluate(t, out);
    for (int64_t i = 0; i < t->out[0].elements; i++) sum += out[0][i] * t->d_out.value[i];
    for (int i = 0; i < t->o->outputs; i++) free(out[i]);
    return sum;
}

static double weights_error(const trial *t)
{
    double value = 0.0;
    for (int i = 0; i < t->o->inputs; i++) value = fmax(value, largest(t->in[i].value, t->in[i].elements));
    return t->type == BF16 && tested_machine() == MACHINE_CUDA ? t->o->weights_bf16 * BF16_ROUND * value : 0.0;
}

static void check_forward(trial *t)
{
    double *out[TENSORS];
    run_forward(t);
    for (int i = 0; i < t->o->outputs; i++) out[i] = t->out[i].value;
    evaluate(t, out);
    for (int i = 0; i < t->o->outputs; i++) {
        double absolute = t->o->forward_roundings * F32_ROUND * largest(out[i], t->out[i].elements) +
                          (i == 0 ? weights_error(t) : 0.0);
        compare(t->o->name, &t->out[i], out[i], rounding(t->out[i].t.type), absolute);
        sample_check_gaps(&t->out[i], t->o->name);
    }
}

static double difference(const trial *t, int input, int64_t i)
{
    double *x = &t->in[input].value[i], kept = *x;
    *x = kept + STEP;
    double above = loss(t);
    *x = kept - STEP;
    double below = loss(t);
    *x = kept;
    return (above - below) / (2 * STEP);
}

/* Checks elements over the whole tensor, including first and last. Errors are relative to the largest gradient, or to
 * d_out, because a gradient may vanish by cancellation. */
static void check_gradient(const trial *t, int input, const double *before)
{
    const sample *d = &t->d_in[input];
    int64_t count = d->elements < CHECKED_ELEMENTS ? d->elements : CHECKED_ELEMENTS;
    double scale = largest(t->d_out.value, t->d_out.elements);
    for (int64_t i = 0; i < d->elements; i++) scale = fmax(scale, fabs(element(&d->t, i) - before[i]));
    for (int64_t k = 0; k < count; k++) {
        int64_t i = count == 1 ? 0 : k * (d->elements - 1) / (count - 1);
        double expected = before[i] + difference(t, input, i), got = element(&d->t, i);
        double limit = rounding(d->t.type) * fabs(expected) +
                       (t->o->backward_roundings * F32_ROUND + 1e-7) * (scale + fabs(before[i])) +
                       (t->type == BF16 ? t->o->backward_bf16 * BF16_ROUND : 0.0) * scale;
        if (!(fabs(got - expected) <= limit))
            fail_msg("d_%s, input %d, element %lld: %.9g, differences give %.9g, error %.3g above %.3g", t->o->name,
                     input, (long long)i, got, expected, fabs(got - expected), limit);
    }
}

static void check_backward(trial *t, access_mode how)
{
    for (int i = 0; i < t->o->inputs; i++)
        if (t->in_spec[i].differentiate)
            sample_randomize(&t->d_in[i], 20 + (uint32_t)i, how == UPDATE && !t->in_spec[i].overwritten ? 1.0 : 0.0,
                             0.0);
    run_backward(t, how);
    for (int i = 0; i < t->o->inputs; i++) {
        if (!t->in_spec[i].differentiate) continue;
        check_gradient(t, i, t->d_in[i].value);
        sample_check_gaps(&t->d_in[i], t->o->name);
    }
}

/* Returns the bytes of all results. */
static char *results(const trial *t, size_t *bytes)
{
    *bytes = 0;
    for (int i = 0; i < t->o->outputs; i++) *bytes += t->out[i].bytes;
    for (int i = 0; i < t->o->inputs; i++) *bytes += t->d_in[i].bytes;
    char *all = malloc(*bytes), *at = all;
    for (int i = 0; i < t->o->outputs; at += t->out[i++].bytes) memcpy(at, t->out[i].memory, t->out[i].bytes);
    for (int i = 0; i < t->o->inputs; at += t->d_in[i++].bytes)
        if (t->d_in[i].bytes) memcpy(at, t->d_in[i].memory, t->d_in[i].bytes);
    return all;
}

/* The results are bitwise equal with one, two and five threads; on a GPU, in two runs. */
static void check_threads(trial *t)
{
    static const int threads[] = { 1, 5, 2 };
    int usual = omp_get_max_threads(), runs = tested_machine() == MACHINE_HOST ? 3 : 2;
    char *all[3];
    size_t bytes = 0;
    beside_host = false;
    for (int i = 0; i < runs; i++) {
        omp_set_num_threads(threads[i]);
        run_forward(t);
        run_backward(t, WRITE);
        all[i] = results(t, &bytes);
    }
    omp_set_num_threads(usual);
    for (int i = 1; i < runs; i++)
        if (memcmp(all[0], all[i], bytes) != 0) fail_msg("%s: %d threads change the result", t->o->name, threads[i]);
    for (int i = 0; i < runs; i++) free(all[i]);
}

static void check_trial(trial *t)
{
    beside_host = !t->o->forward_roundings;
    check_forward(t);
    check_backward(t, WRITE);
    if (t->o->updates) check_backward(t, UPDATE);
    check_threads(t);
    trial_close(t);
}

/* One gap leaves no row aligned, the other aligns all rows, because kernels may treat them differently. Gaps alternate
 * over shapes and formats; `long` tests both. */
static void check_operation(void **state)
{
    static const int64_t gap[] = { 5, 8 };
    const operation *o = *state;
    for (int i = 0; i < SHAPES && o->shape[i][0]; i++)
        for (dtype type = F32; type <= BF16; type++)
            for (int k = 0; k < 2; k++) {
                if (o->is_large && o->is_large(o->shape[i], type) && getenv("XGSW_TEST_SMALL_BLOCKS")) continue;
                if (!test_is_long() && k != (i + (type == BF16)) % 2) continue;
                trial t = trial_open(o, o->shape[i], type, gap[k]);
                check_trial(&t);
            }
}
