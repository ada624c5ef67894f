/* Copies, additions, fills and planted faults, bitwise, and the loss over a divided vocabulary against double. */
#include "operations.h"

/* ---- copies, additions, fills, planted faults ---- */

static void check_copy(sample x, sample y, access_mode how)
{
    sample_randomize(&x, 1, 1.0, 0.0);
    sample_randomize(&y, 2, 1.0, 0.0);
    RUN_OP(copy_op(y.t, how, x.t));
    for (int64_t i = 0; i < x.elements; i++)
        y.value[i] = as_type(y.t.type, x.value[i] + (how == UPDATE ? y.value[i] : 0.0));
    compare_exactly("copy", &y);
    release();
}

/* Rows without gaps, of any formats, and views, some with aligned rows. */
static void copies(void **state)
{
    static const struct {
        int64_t columns, gap;
    } views[] = { { 6, 5 }, { 2100, 5 }, { 2104, 8 } };
    for (dtype to = F32; to <= F64; to++)
        for (dtype from = F32; from <= F64; from++)
            for (access_mode how = WRITE; how <= UPDATE; how++) {
                check_copy(SAMPLE(from, 0, 3000), SAMPLE(to, 0, 3000), how);
                check_copy(SAMPLE(from, 0, 2999), SAMPLE(to, 0, 2999), how);
                for (int i = 0; to != F64 && from != F64 && i < 3; i++)
                    check_copy(SAMPLE(from, views[i].gap, 7, 2, 3, views[i].columns),
                               SAMPLE(to, views[i].gap + 8, 7, 2, 3, views[i].columns), how);
            }
    uint64_t words[3] = { 1, UINT64_MAX, 1ull << 60 }, copy[3];
    RUN_OP(copy_op(tensor_1d(copy, U64, 3), WRITE, tensor_1d(words, U64, 3)));
    assert_memory_equal(copy, words, sizeof words);
}

/* Tests rounding to BF16: every upper half of the bits, also NaN, with lower halves at zero, at the tie and next to
 * both. At odd addresses kernels cannot use vectors. */
static void roundings(void **state)
{
    static const uint16_t low[] = { 0, 1, 0x4000, 0x7FFF, 0x8000, 0x8001, 0xC000, 0xFFFF };
    enum { LOWS = sizeof low / sizeof *low, N = 65536 * LOWS };
    float *x = taken(N + 1, sizeof *x);
    uint16_t *y = taken(N + 1, sizeof *y);
    for (uint32_t i = 0; i < N; i++) x[i] = float_from_bits(i / LOWS << 16 | low[i % LOWS]);
    for (int odd = 0; odd < 2; odd++) {
        RUN_OP(copy_op(tensor_1d(y + odd, BF16, N), WRITE, tensor_1d(x + odd, F32, N)));
        for (int64_t i = odd; i < N + odd; i++)
            if (y[i] != bf16_round(x[i])) fail_msg("%08x became %04x", float_bits(x[i]), y[i]);
    }
    release();
}

/* Adds parts in FP32, in order, rounds once, and writes rows with or without gaps. */
static void check_sum_of_parts(dtype to, dtype from, int64_t parts, int64_t columns, int64_t gap)
{
    sample x = drawn(SAMPLE(from, 0, parts * 30 * columns), 1, 1.0, 0.0), y = SAMPLE(to, gap, 5, 2, 3, columns);
    RUN_OP(sum_parts_op(y.t, x.t));
    for (int64_t i = 0; i < y.elements; i++) {
        float sum = (float)x.value[i];
        for (int64_t p = 1; p < parts; p++) sum += (float)x.value[p * y.elements + i];
        y.value[i] = as_type(to, (double)sum);
    }
    compare_exactly("sum_parts", &y);
    release();
}

/* The number of added elements need not be a multiple of a kernel's vector. */
static void sums(void **state)
{
    static const struct {
        int64_t parts, columns, gap;
    } row[] = { { 1, 8, 0 }, { 2, 6, 0 }, { 3, 104, 5 }, { 8, 2104, 8 }, { 17, 40, 8 } };
    for (dtype to = F32; to <= BF16; to++) {
        for (int i = 0; i < 10; i++)
            check_sum_of_parts(to, i % 2 ? BF16 : F32, row[i / 2].parts, row[i / 2].columns, row[i / 2].gap);
        sample a = drawn(SAMPLE(to, 0, 5003), 1, 1.0, 0.0), b = drawn(SAMPLE(to, 0, 5003), 2, 1.0, 0.0),
               sum = SAMPLE(to, 0, 5003);
        RUN_OP(add_op(sum.t, a.t, b.t));
        for (int64_t i = 0; i < 5003; i++) sum.value[i] = as_type(to, a.value[i] + b.value[i]);
        compare_exactly("add", &sum);
        release();
    }
    double x[5] = { 1e16, 1, -1e16, 1, 1 }, out = 7;
    RUN_OP(sum_op(tensor_1d(&out, F64, 1), WRITE, tensor_1d(x, F64, 5)));
    assert_true(out == 2);
    RUN_OP(sum_op(tensor_1d(&out, F64, 1), UPDATE, tensor_1d(x + 3, F64, 2)));
    assert_true(out == 4);
}

static void fills(void **state)
{
    for (dtype type = F32; type < DTYPES; type++) {
        sample x = SAMPLE(type, 0, 5001);
        RUN_OP(fill_op(x.t, 3.0));
        for (int64_t i = 0; i < x.elements; i++) assert_true(element(&x.t, i) == 3.0);
        release();
    }
}

static op fault_of(op_kind kind, tensor t, int64_t index)
{
    op o = { .kind = kind, .operands = 1, .operand = { { t, kind == OP_FILL ? WRITE : UPDATE } } };
    if (kind == OP_SCALE) o.args.scale.factor = 2.0;
    if (kind == OP_FLIP) o.args.flip.index = index;
    return o;
}

/* Planted faults change views with gaps, and nothing outside them. */
static void faults(void **state)
{
    for (dtype type = F32; type <= F64; type++) {
        sample x = drawn(SAMPLE(type, 4, 3, 2, 2, 5), 1, 1.0, 0.0);
        RUN_OP(fault_of(OP_SCALE, x.t, 0));
        for (int64_t i = 0; i < 60; i++) x.value[i] *= 2;
        compare_exactly("scale", &x);
        element_set(&x.t, 37, 1.0);
        RUN_OP(fault_of(OP_FLIP, x.t, 37));
        for (int64_t i = 0; i < 60; i++)
            assert_true(i == 37 ? isinf(element(&x.t, i)) : element(&x.t, i) == x.value[i]);
        RUN_OP(fault_of(OP_FILL, x.t, 0));
        memset(x.value, 0, 60 * sizeof *x.value);
        compare_exactly("fill", &x);
        release();
    }
}

/* ---- the loss over a divided vocabulary ---- */

/* columns per rank; ranks * columns >= valid: the rest is padding. spread: of the logits around 0. */
typedef struct {
    int64_t s, b, columns, ranks, valid, gap;
    double spread;
} loss_shape;
typedef struct {
    loss_shape n;
    dtype type;
    float scale;
    sample logits[4], labels, partials, loss[4];
} loss_trial;

static int64_t columns_of(const loss_trial *t) { return t->n.ranks * t->n.columns; }

static double logit(const loss_trial *t, int64_t row, int64_t column)
{
    return t->logits[column / t->n.columns].value[row * t->n.columns + column % t->n.columns];
}

static double gradient_of(const loss_trial *t, int64_t row, int64_t column)
{
    return element(&t->logits[column / t->n.columns].t, row * t->n.columns + column % t->n.columns);
}

static loss_trial loss_open(loss_shape n, dtype type)
{
    loss_trial t = { .n = n, .type = type, .scale = 0.25f, .labels = SAMPLE(I32, 0, n.s, n.b) };
    t.partials = SAMPLE(F32, 0, n.ranks, n.s, n.b, 3);
    for (int r = 0; r < n.ranks; r++) {
        t.logits[r] = drawn(SAMPLE(type, n.gap, n.s, n.b, n.columns), (uint32_t)r, n.spread, 0.0);
        t.loss[r] = SAMPLE(F64, 0, n.b);
    }
    for (int64_t i = 0; i < n.s * n.b; i++) element_set(&t.labels.t, i, (double)(i * 7919 % n.valid));
    sample_read(&t.labels);
    return t;
}

static void loss_run(loss_trial *t)
{
    for (int finish = 0; finish < 2; finish++)
        for (int r = 0; r < t->n.ranks; r++) {
            cross_entropy_operands o = { t->logits[r].t,   t->labels.t, t->partials.t, t->loss[r].t,
                                         r * t->n.columns, t->n.valid,  t->scale };
            if (!finish) o.partial = tensor_slice(t->partials.t, 0, r, 1);
            RUN_OP(finish ? cross_entropy_finish_op(&o) : cross_entropy_partial_op(&o));
        }
}

/* exp_shared has an error of 3e-7, and 2^-24 of its argument (up to 16): 2e-6 relative, softmax <= 1. */
static double row_check(const loss_trial *t, int64_t row)
{
    double total = 0.0;
    int64_t label = (int64_t)t->labels.value[row];
    for (int64_t column = 0; column < t->n.valid; column++) total += exp(logit(t, row, column));
    for (int64_t column = 0; column < columns_of(t); column++) {
        double got = gradient_of(t, row, column);
        double softmax = column < t->n.valid ? exp(logit(t, row, column)) / total : 0.0;
        double expected = (softmax - (column == label)) * (double)t->scale;
        if (column >= t->n.valid) assert_true(got == 0.0);
        if (!(fabs(got - expected) <= rounding(t->type) * fabs(expected) + 2e-6 * softmax * (double)t->scale))
            fail_msg("d_logits, row %lld, column %lld: %.9g, expected %.9g", (long long)row, (long long)column, got,
                     expected);
    }
    return log(total) - logit(t, row, label);
}

static void check_loss(loss_shape n, dtype type)
{
    loss_trial t = loss_open(n, type);
    loss_run(&t);
    for (int64_t b = 0; b < n.b; b++) {
        double sum = 0.0;
        for (int64_t s = 0; s < n.s; s++) sum += row_check(&t, s * n.b + b);
        for (int r = 0; r < n.ranks; r++) assert_true(fabs(element(&t.loss[r].t, b) - sum) <= 2e-6 * (double)n.s * 16);
        for (int r = 1; r < n.ranks; r++) assert_true(element(&t.loss[r].t, b) == element(&t.loss[0].t, b));
    }
    release();
}

/* The fourth: the last ranks have only padding. */
static void losses(void **state)
{
    static const loss_shape shapes[] = { { 5, 2, 7, 1, 7, 3, 8.0 },         { 4, 1, 2504, 1, 2497, 8, 8.0 },
                                         { 6, 3, 64, 4, 200, 0, 8.0 },      { 3, 1, 16, 4, 30, 0, 8.0 },
                                         { 1, 2, 20000, 1, 19999, 0, 8.0 }, { 1100, 1, 16, 1, 14, 0, 8.0 } };
    for (int i = 0; i < 12; i++) check_loss(shapes[i / 2], i % 2 ? BF16 : F32);
}

/* Gradients below 2^-126 are 0 (DEFINITIONS.md), because subnormal numbers slow products down. With logits in [-100,
 * 100) no element is subnormal. Row 0 has the logit 0 once, and else -80 to -104 in steps of 1/16 (BF16: 1/2): elements
 * just below the bound are 0, those just above it stay. exp_shared clamps its argument at -87; e^-87 scale is below the
 * bound. Errors as in row_check, for arguments up to 87; logit_gradient's bound is 2^-20 above 2^-126. */
static void check_tiny_gradients(dtype type, double scale)
{
    loss_trial t = loss_open((loss_shape){ 6, 1, 1000, 2, 1999, 8, 100.0 }, type);
    const double bound = 0x1p-126, error = 3e-7 + 88 * F32_ROUND;
    double total = 0.0;
    int zeros = 0, least = 0;
    t.scale = (float)scale;
    for (int64_t i = 0; i < columns_of(&t); i++)
        element_set(&t.logits[i / 1000].t, i % 1000, i == 7 ? 0.0 : -80.0 - (double)(i % 384) / 16);
    for (int r = 0; r < 2; r++) sample_read(&t.logits[r]);
    for (int64_t k = 0; k < t.n.valid; k++) total += exp(logit(&t, 0, k));
    loss_run(&t);
    for (int64_t i = 0; i < t.n.s * columns_of(&t); i++) {
        double got = gradient_of(&t, i / columns_of(&t), i % columns_of(&t));
        assert_true(got == 0.0 || fabs(got) >= bound);
        if (i >= t.n.valid || i == (int64_t)t.labels.value[0]) continue;
        double expected = exp(logit(&t, 0, i)) / total * scale;
        if (expected < bound * (1 - error)) assert_true(++zeros && got == 0.0);
        if (expected > bound * (1 + error + 0x1p-20))
            assert_true(fabs(got - expected) <= (rounding(type) + error) * expected);
        least += got > 0.0 && got < 2 * bound;
    }
    assert_true(zeros > 100 && least > 10);
    release();
}

static void tiny_gradients_are_zero(void **state)
{
    for (dtype type = F32; type <= BF16; type++) {
        check_tiny_gradients(type, 0.25);
        check_tiny_gradients(type, 0x1.8p-10);
    }
}

/* The bits of a GPU's NaN: a sum of these bits would give a number. */
static void loss_not_a_number(void **state)
{
    loss_trial t = loss_open((loss_shape){ 3, 1, 40, 2, 80, 0, 8.0 }, F32);
    element_set(&t.logits[1].t, 45, (double)float_from_bits(0x7FFFFFFFu));
    loss_run(&t);
    assert_true(isnan(element(&t.loss[0].t, 0)) && isnan(element(&t.loss[1].t, 0)));
    release();
}

OPERATIONS_PROGRAM("operations_moves", true, copies, roundings, sums, fills, faults, losses, tiny_gradients_are_zero,
                   loss_not_a_number)
