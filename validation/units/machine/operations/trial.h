/* Tests rows of operations (operations.c, operations_attention.c). A row gives the operands by axes, a simple version
 * in double, the shapes, and the allowed roundings. Each shape runs in FP32 and BF16, with rows with gaps: the results
 * are compared with the simple version, each gradient with its central differences, and the result must not depend on
 * the number of threads. */
#pragma once
#include "operations.h"
#include <ctype.h>

enum { TENSORS = 4, SHAPES = 9, SHAPE = 6 };
static const double STEP = 1e-4; /* of the differences, whose error is about 1e-8 */

/* An operand. form: its format (T: the tested one, F: FP32, I: I32); '~' if its rows have gaps, '^' if they have
 * others, else '.'; and its dimensions: letters of the row's axes, capitals for twice the axis, digits. NULL: absent.
 */
typedef struct {
    const char *form;
    char gradient;     /* its gradient's format, as in form; 0: it has none */
    bool overwritten;  /* the gradient is never added to */
    bool exact;        /* an output that is rounded once */
    double offset;     /* of its random elements, which are in [offset - 1, offset + 1) */
    const char *below; /* its elements are integers in [0, sum of these axes) */
} spec;

/* What a filler needs. Absent tensors have no dimensions. how: the access of gradients that may be added to. */
typedef struct {
    const int64_t *n;
    tensor in[TENSORS], out[TENSORS], d_out, d_in[TENSORS];
    access_mode how;
} views;

typedef struct {
    const char *name, *axes;
    spec in[TENSORS], out[TENSORS];
    op (*forward)(const views *v);  /* NULL: only the backward is an operation */
    op (*backward)(const views *v); /* of the sum of output 0 times d_out; NULL: none */
    void (*reference)(const int64_t *n, dtype type, double *const *in, double *const *out);
    bool in_place;                                  /* output 0 starts as input 0 */
    bool updates;                                   /* backward also accumulates */
    bool encoded;                                   /* can write FP8 values */
    bool beside;                                    /* as beside_host */
    bool (*is_large)(const int64_t *n, dtype type); /* skipped with XGSW_TEST_SMALL_BLOCKS (shared_memory.t) */
    /* Allowed absolute error in FP32 roundings of the largest element, in addition to one rounding of each result. */
    double forward_roundings, backward_roundings;
    /* BF16 roundings of saved results that affect the gradient. */
    double backward_bf16;
    /* BF16 roundings of softmax weights on the CUDA machine that affect output 0, relative to the largest input. */
    double weights_bf16;
    int64_t shape[SHAPES][SHAPE];
} operation;

#define ROW(title, letters, run, run_backward, computed, ...)                                                          \
    {                                                                                                                  \
        .name = title, .axes = letters, .forward = run, .backward = run_backward, .reference = computed, __VA_ARGS__   \
    }

typedef struct {
    const operation *o;
    const int64_t *shape;
    dtype type;
    int64_t gap;
    sample in[TENSORS], out[TENSORS], d_out, d_in[TENSORS];
} trial;

static int64_t length_of(const trial *t, char axis)
{
    if (isdigit((unsigned char)axis)) return axis - '0';
    int64_t n = llabs(t->shape[strchr(t->o->axes, tolower(axis)) - t->o->axes]);
    return isupper((unsigned char)axis) ? 2 * n : n;
}

static sample sample_of(const trial *t, const char *form, char format)
{
    int64_t dim[TENSOR_DIMS], gap = t->gap && form[1] == '^' ? t->gap + 8 : t->gap;
    int dims = 0;
    for (const char *axis = form + 2; *axis; axis++) dim[dims++] = length_of(t, *axis);
    return sample_open(format == 'T' ? t->type : format == 'F' ? F32 : I32, form[1] == '.' ? 0 : gap, dims, dim);
}

static void randomize(const trial *t, sample *x, const spec *s, uint32_t number)
{
    int64_t below = 0;
    for (const char *axis = s->below; axis && *axis; axis++) below += length_of(t, *axis);
    sample_randomize(x, number, 1.0, s->offset);
    for (int64_t i = 0; below && i < x->elements; i++)
        element_set(&x->t, i, floor((random_value(number, i) + 1.0) / 2.0 * (double)below));
    sample_read(x);
}

static trial trial_open(const operation *o, const int64_t *shape, dtype type, int64_t gap)
{
    trial t = { .o = o, .shape = shape, .type = type, .gap = gap };
    for (int i = 0; i < TENSORS; i++) {
        const spec *in = &o->in[i], *out = &o->out[i];
        if (out->form) t.out[i] = sample_of(&t, out->form, out->form[0]);
        if (in->form) t.in[i] = sample_of(&t, in->form, in->form[0]);
        if (in->form) randomize(&t, &t.in[i], in, (uint32_t)i);
        if (in->gradient) t.d_in[i] = sample_of(&t, in->form, in->gradient);
    }
    t.d_out = drawn(sample_of(&t, o->out[0].form, o->out[0].form[0]), 9, 1.0, 0.0);
    return t;
}

static views views_of(const trial *t, access_mode how)
{
    views v = { .n = t->shape, .d_out = t->d_out.t, .how = how };
    for (int i = 0; i < TENSORS; i++) v.in[i] = t->in[i].t, v.out[i] = t->out[i].t, v.d_in[i] = t->d_in[i].t;
    return v;
}

static void run_forward(trial *t)
{
    views v = views_of(t, WRITE);
    if (t->o->in_place) memcpy(t->out[0].memory, t->in[0].memory, t->in[0].bytes);
    if (t->o->forward) RUN_OP(t->o->forward(&v));
}

static void run_backward(trial *t, access_mode how)
{
    views v = views_of(t, how);
    if (t->o->in_place) memcpy(t->d_in[0].memory, t->d_out.memory, t->d_out.bytes);
    if (t->o->backward) RUN_OP(t->o->backward(&v));
}

static void evaluate(const trial *t, double *const *out)
{
    double *in[TENSORS];
    for (int i = 0; i < TENSORS; i++) in[i] = t->in[i].value;
    t->o->reference(t->shape, t->type, in, out);
}

/* Computes every output in double, into `out`. Returns output 0 weighted with d_out. */
static double loss(const trial *t, double *const *out)
{
    double sum = 0.0;
    for (int i = 0; i < TENSORS; i++)
        if (t->out[i].elements) memset(out[i], 0, (size_t)t->out[i].elements * sizeof **out);
    evaluate(t, out);
    for (int64_t i = 0; i < t->out[0].elements; i++) sum += out[0][i] * t->d_out.value[i];
    return sum;
}

static double weights_error(const trial *t)
{
    double value = 0.0;
    for (int i = 0; i < TENSORS; i++) value = fmax(value, largest(t->in[i].value, t->in[i].elements));
    return t->type == BF16 && tested_machine() == MACHINE_CUDA ? t->o->weights_bf16 * BF16_ROUND * value : 0.0;
}

static void check_forward(trial *t)
{
    double *out[TENSORS];
    run_forward(t);
    if (!t->o->forward) return;
    for (int i = 0; i < TENSORS; i++) out[i] = t->out[i].value;
    evaluate(t, out);
    for (int i = 0; i < TENSORS; i++) {
        double absolute = t->o->forward_roundings * F32_ROUND * largest(out[i], t->out[i].elements) +
                          (i == 0 ? weights_error(t) : 0.0);
        if (t->o->out[i].exact) compare_exactly(t->o->name, &t->out[i]);
        else if (t->o->out[i].form) compare(t->o->name, &t->out[i], out[i], rounding(t->out[i].t.type), absolute);
    }
}

static double difference(const trial *t, int input, int64_t i, double *const *out)
{
    double *x = &t->in[input].value[i], kept = *x;
    *x = kept + STEP;
    double above = loss(t, out);
    *x = kept - STEP;
    double below = loss(t, out);
    *x = kept;
    return (above - below) / (2 * STEP);
}

/* Checks elements over the whole tensor, including first and last: 24, or 8 unless `long`. Errors are relative to the
 * largest gradient, or to d_out, because a gradient may vanish by cancellation. */
static void check_gradient(const trial *t, int input, double *const *out)
{
    const sample *d = &t->d_in[input];
    const double *before = d->value;
    int64_t most = test_is_long() ? 24 : 8, count = d->elements < most ? d->elements : most;
    double scale = largest(t->d_out.value, t->d_out.elements);
    for (int64_t i = 0; i < d->elements; i++) scale = fmax(scale, fabs(element(&d->t, i) - before[i]));
    for (int64_t k = 0; k < count; k++) {
        int64_t i = count == 1 ? 0 : k * (d->elements - 1) / (count - 1);
        double expected = before[i] + difference(t, input, i, out), got = element(&d->t, i);
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
    double *out[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        out[i] = t->out[i].elements ? numbers(t->out[i].elements) : NULL;
        bool added = how == UPDATE && !t->o->in[i].overwritten;
        if (t->o->in[i].gradient) sample_randomize(&t->d_in[i], 20 + (uint32_t)i, added ? 1.0 : 0.0, 0.0);
    }
    run_backward(t, how);
    for (int i = 0; t->o->backward && i < TENSORS; i++) {
        if (!t->o->in[i].gradient) continue;
        check_gradient(t, i, out);
        sample_check_gaps(&t->d_in[i], t->o->name);
    }
}

/* Returns the bytes of all results. */
static char *results(const trial *t, size_t *bytes)
{
    const sample *all[2 * TENSORS];
    *bytes = 0;
    for (int i = 0; i < 2 * TENSORS; i++) {
        all[i] = i < TENSORS ? &t->out[i] : &t->d_in[i - TENSORS];
        *bytes += all[i]->bytes;
    }
    char *whole = taken(*bytes, 1), *at = whole;
    for (int i = 0; i < 2 * TENSORS; at += all[i++]->bytes)
        if (all[i]->bytes) memcpy(at, all[i]->memory, all[i]->bytes);
    return whole;
}

/* The results are bitwise equal with one, five and two threads; on a GPU, in two runs. one: the results of one thread.
 */
static void check_threads(trial *t, const char *one)
{
    static const int threads[] = { 5, 2 };
    size_t bytes;
    beside_host = false;
    for (int i = 0; i < (tested_machine() == MACHINE_HOST ? 2 : 1); i++) {
        omp_set_num_threads(threads[i]);
        run_forward(t);
        run_backward(t, WRITE);
        const char *again = results(t, &bytes);
        if (memcmp(one, again, bytes) != 0) fail_msg("%s: %d threads change the result", t->o->name, threads[i]);
    }
}

/* One gap leaves no row aligned, the other aligns all rows, because kernels may treat them differently. Gaps alternate
 * over shapes and formats; `long` tests both. */
static void check_operation(void **state)
{
    static const int64_t gap[] = { 5, 8 };
    const operation *o = *state;
    size_t bytes;
    for (int i = 0; i < SHAPES && o->shape[i][0]; i++)
        for (dtype type = F32; type <= BF16; type++)
            for (int k = 0; k < 2; k++) {
                if (o->is_large && o->is_large(o->shape[i], type) && getenv("XGSW_TEST_SMALL_BLOCKS")) continue;
                if (!test_is_long() && k != (i + (type == BF16)) % 2) continue;
                trial t = trial_open(o, o->shape[i], type, gap[k]);
                beside_host = o->beside || !o->forward_roundings;
                omp_set_num_threads(1);
                check_forward(&t);
                check_backward(&t, WRITE);
                char *one = results(&t, &bytes);
                if (o->updates) check_backward(&t, UPDATE);
                check_threads(&t, one);
                release();
            }
}

/* Runs a test of each row, and the `extra` tests. */
static int check_rows(int argc, char **argv, const char *program, const operation *list, size_t rows,
                      const struct CMUnitTest *extra, size_t extras)
{
    struct CMUnitTest tests[rows + extras];
    for (size_t i = 0; i < rows; i++)
        tests[i] = (struct CMUnitTest){ list[i].name, check_operation, NULL, NULL, (void *)&list[i] };
    memcpy(tests + rows, extra, extras * sizeof *extra);
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name(program, tests, NULL, NULL);
    world_stop();
    return failed;
}
