/* Matrix products, single and grouped, in FP32, BF16 and FP8: every layout, format and access, with odd sizes and gaps,
 * against double; then the check of whole products (shadow.h). oneDNN must neither round FP32 inputs nor round an
 * updated BF16 result twice. Formats alternate over shapes and layouts; `long` tests every combination. */
#include "machine/op/limits.h"
#include "machine/prove/shadow.h"
#include "operations.h"
#include <limits.h>
#include <sys/resource.h>

typedef struct {
    int64_t m, n, k;
} shape;
typedef struct {
    dtype a, b, c;
} formats;
static const formats plain[] = { { F32, F32, F32 }, { BF16, BF16, BF16 }, { BF16, BF16, F32 } },
                     codes[] = { { E4M3, E4M3, BF16 }, { E4M3, E5M2, F32 },  { E5M2, E4M3, BF16 },
                                 { E4M3, E4M3, F32 },  { E4M3, E5M2, BF16 }, { E5M2, E4M3, F32 } };

/* GAPS: between rows. The matrices of a and c, or of b, are interleaved row by row, or consecutive. */
enum { A_TURNED = 1, B_TURNED = 2, C_TURNED = 4, GAPS = 8, AC_INTERLEAVED = 16, B_INTERLEAVED = 32 };

/* groups 0: one product. size: of the random elements of a and b, around offset. */
typedef struct {
    shape s;
    int64_t groups;
    formats f;
    int layout;
    double size, offset;
} form;

/* sum: the product of the elements, without scales; terms: the sum of the terms' magnitudes. expected, limit: of a
 * result; before: of its part without c's old values or the bias. */
typedef struct {
    form f;
    sample a, b, c, bias;
    double *sum, *terms, *before, *expected, limit;
    float scale[2];
} product;

static bool is_code(dtype type) { return type == E4M3 || type == E5M2; }

/* [groups, rows, columns], contiguous in the last dimension or, if turned, in the one before. */
static sample matrices(const form *f, dtype type, int64_t rows, int64_t columns, bool turned, bool interleaved)
{
    int64_t line = turned ? rows : columns, lines = turned ? columns : rows, groups = f->groups ? f->groups : 1;
    int64_t gap = !(f->layout & GAPS) || interleaved ? 0 : is_code(f->f.a) ? FP8_ALIGNMENT : 3;
    sample x = interleaved ? SAMPLE(type, 0, lines, groups, line) : SAMPLE(type, gap, groups, lines, line);
    if (interleaved)
        x.t = (tensor){ x.memory, type, 3, { groups, lines, line }, { line, groups * line, 1 }, .scale = NULL };
    if (turned) x.t = tensor_transposed(x.t);
    return x;
}

static product product_open(form f)
{
    int l = f.layout;
    product p = { .f = f,
                  .a = matrices(&f, f.f.a, f.s.m, f.s.k, l & A_TURNED, l & AC_INTERLEAVED),
                  .b = matrices(&f, f.f.b, f.s.k, f.s.n, l & B_TURNED, l & B_INTERLEAVED),
                  .c = matrices(&f, f.f.c, f.s.m, f.s.n, l & C_TURNED, l & AC_INTERLEAVED),
                  .bias = SAMPLE(f.f.c, 0, f.s.n),
                  .scale = { 1.0f, 1.0f } };
    double **made[] = { &p.sum, &p.terms, &p.before, &p.expected };
    for (int i = 0; i < 4; i++) *made[i] = numbers(p.c.elements);
    sample_randomize(&p.a, 1, f.size, f.offset);
    sample_randomize(&p.b, 2, f.size, f.offset);
    for (int64_t row = 0; row < p.c.elements / f.s.n; row++)
        for (int64_t k = 0; k < f.s.k; k++) {
            double a = p.a.value[row * f.s.k + k], *b = p.b.value + (row / f.s.m * f.s.k + k) * f.s.n;
            for (int64_t i = 0; i < f.s.n; i++) {
                p.sum[row * f.s.n + i] += a * b[i];
                p.terms[row * f.s.n + i] += fabs(a * b[i]);
            }
        }
    return p;
}

/* Returns the view of one product. */
static tensor view(const product *p, const sample *x)
{
    if (p->f.groups) return x->t;
    tensor t = tensor_2d(x->t.data, x->t.type, x->t.dim[1], x->t.dim[2]);
    t.stride[0] = x->t.stride[1], t.stride[1] = x->t.stride[2];
    t.scale = x->t.scale;
    return t;
}

static op product_op(product *p, access_mode how, bool biased)
{
    sample *of[] = { &p->a, &p->b };
    for (int i = 0; i < 2 && is_code(p->f.f.a); i++)
        fp8_set_factors(of[i]->t.scale = taken(FP8_FACTORS, sizeof(float)), p->scale[i]);
    tensor a = view(p, &p->a), b = view(p, &p->b), c = view(p, &p->c);
    if (biased) return matmul_bias_op(c, a, b, p->bias.t);
    return p->f.groups ? grouped_matmul_op(c, how, a, b) : matmul_op(c, how, a, b);
}

static bool power_of_two(float x) { return !(float_bits(x) & 0x7FFFFFu); }

/* Returns the additional error of an addition to a product. cuBLASLt rounds the product to BF16 first
 * (machine/op/limits.c): on a GPU half a unit of the largest product, otherwise 0. */
static double rounded_before(const sample *c, const double *product_of)
{
    return tested_machine() == MACHINE_CUDA && c->t.type == BF16 ? BF16_ROUND * largest(product_of, c->elements) : 0.0;
}

/* A sum of k FP32 terms in any order has at most k roundings of partial sums; random ones grow like sqrt(k). 4 sqrt(k)
 * + 4 is generous, but far below one rounding of the inputs to TF32 or BF16 for these k. A scale that is not a power of
 * two adds at most three roundings of each term (of the values, or of product and scale). With FP8, tensor cores keep
 * 14 bits (limits.c): k / 32 times half a unit of the sum, and 2 sqrt(k) of the products. */
static double limit_of(const product *p, bool adds, double scale)
{
    double k = (double)p->f.s.k, size = 0.0, cut = (k / 32 + 2 * sqrt(k)) * 0x1p-14;
    for (int64_t i = 0; i < p->c.elements; i++)
        size = fmax(size, fabs(p->expected[i] - p->before[i]) + p->terms[i] / scale);
    double scaled = power_of_two(p->scale[0]) && power_of_two(p->scale[1]) ? 0.0 : 3 * sqrt(k);
    double fp32 = (4 * sqrt(k) + 4 + scaled) * F32_ROUND * size / sqrt(k);
    double cuda = is_code(p->f.f.a) && tested_machine() == MACHINE_CUDA ? cut * largest(p->expected, p->c.elements) : 0;
    return fp32 + cuda + (adds ? rounded_before(&p->c, p->before) : 0.0);
}

/* Draws c's old values and the bias, which are as large as a product, and sets the expected result. */
static void expect(product *p, access_mode how, bool biased, float scale_a, float scale_b)
{
    double scale = (double)scale_a * (double)scale_b,
           size = is_code(p->f.f.a) ? p->f.size * p->f.size / 1.6 / scale : 1;
    p->scale[0] = scale_a, p->scale[1] = scale_b;
    sample_randomize(&p->c, 3, size, 0.0);
    sample_randomize(&p->bias, 4, is_code(p->f.f.a) ? size : 4, 0.0);
    for (int64_t i = 0; i < p->c.elements; i++) {
        p->before[i] = p->sum[i] / scale;
        p->expected[i] = p->before[i] + (biased ? p->bias.value[i % p->f.s.n] : how == UPDATE ? p->c.value[i] : 0.0);
    }
    p->limit = limit_of(p, biased || how == UPDATE, scale);
}

/* by: selects the scales of FP8 values: powers of two, or any numbers. */
static void check(product *p, access_mode how, bool biased, int by)
{
    static const float scale[][2] = { { 1.0f, 1.0f }, { 0x1p11f, 0x1p-7f }, { 731.0f, 0.0137f }, { 0x1p-4f, 3.3f } };
    by = is_code(p->f.f.a) ? by % 4 : 0;
    expect(p, how, biased, scale[by][0], scale[by][1]);
    RUN_OP(product_op(p, how, biased));
    compare(biased        ? "matmul with a bias"
            : p->f.groups ? "grouped_matmul"
                          : "matmul",
            &p->c, p->expected, rounding(p->f.f.c), p->limit);
}

static bool is_turn(int shape_number, int format, int layout)
{
    return test_is_long() || (shape_number + layout) % 3 == format % 3;
}

static const shape shapes[] = { { 1, 1, 1 },    { 3, 5, 7 },      { 16, 64, 32 },  { 33, 125, 61 },
                                { 64, 1, 200 }, { 128, 96, 515 }, { 253, 128, 64 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void products(void **state)
{
    for (int s = 0; s < SHAPES; s++)
        for (int f = 0; f < 3; f++)
            for (int layout = 0; layout < 2 * GAPS; layout++) {
                if (!is_turn(s, f, layout)) continue;
                product p = product_open((form){ shapes[s], 0, plain[f], layout, 1.0 });
                check(&p, WRITE, false, 0);
                check(&p, UPDATE, false, 0);
                if (shapes[s].n > 1 && !(layout & C_TURNED)) check(&p, WRITE, true, 0);
                release();
            }
}

static void products_of_groups(void **state)
{
    for (int s = 0; s < SHAPES; s++)
        for (int f = 0; f < 3; f++)
            for (int layout = 0; layout < 32; layout++) {
                if (!is_turn(s, f, layout)) continue;
                product p =
                    product_open((form){ shapes[s], 1 + s % 4, plain[f], layout % 8 | layout / 8 * 16 | GAPS, 1.0 });
                check(&p, layout / 2 % 3 ? WRITE : UPDATE, false, 0);
                release();
            }
}

/* Only the rows of a need not be multiples of 16. If columns of c are contiguous, they must be multiples of 16, too. */
static void products_of_codes(void **state)
{
    static const shape of_codes[] = { { 16, 16, 16 },  { 1, 32, 16 },    { 5, 16, 48 },   { 32, 48, 64 },
                                      { 33, 112, 80 }, { 128, 96, 528 }, { 50, 64, 2064 } };
    static const int layouts[] = { 0, GAPS, C_TURNED, C_TURNED | GAPS };
    for (int s = 0; s < 7; s++)
        for (int f = 0; f < 6; f++)
            for (int i = 0; i < 12; i++) {
                int layout = layouts[i % 4] | B_TURNED | (i < 8 ? 0 : AC_INTERLEAVED);
                bool grouped = i >= 4;
                if ((layout & C_TURNED && of_codes[s].m % FP8_ALIGNMENT) || (grouped && s == 6)) continue;
                if (!is_turn(s / 2, f, i)) continue; /* every format and layout has its turn */
                product p = product_open((form){ of_codes[s], grouped ? 1 + s % 4 : 0, codes[f], layout, 400.0 });
                check(&p, grouped && i % 3 == 0 ? UPDATE : WRITE, false, s + f);
                if (!grouped) check(&p, UPDATE, false, s + f + i);
                if (!grouped && !(layout & C_TURNED) && codes[f].c == BF16) check(&p, WRITE, true, s + i);
                release();
            }
}

/* ---- exact results ---- */

/* Slices of a fused matrix: operands with common rows. */
static void fused_slices(void **state)
{
    sample x = drawn(SAMPLE(F32, 0, 40, 96), 1, 1.0, 0.0), c = SAMPLE(F32, 0, 40, 40);
    RUN_OP(matmul_op(c.t, WRITE, tensor_slice(x.t, 1, 0, 32), tensor_transposed(tensor_slice(x.t, 1, 32, 32))));
    for (int64_t i = 0; i < c.elements; i++)
        for (int64_t k = 0; k < 32; k++) c.value[i] += x.value[i / 40 * 96 + k] * x.value[i % 40 * 96 + 32 + k];
    compare("fused slices", &c, c.value, 0.0, 32 * F32_ROUND * 16);
    release();
}

/* 1 + 2^-20 needs FP32: a product with rounded inputs would give 1. */
static void exact_inputs(void **state)
{
    product p = product_open((form){ { 64, 64, 64 }, 0, plain[0], 0, 1.0 });
    for (int64_t i = 0; i < 64 * 64; i++) element_set(&p.a.t, i, i / 64 == i % 64);
    sample_fill(&p.b, 1.0 + 0x1p-20);
    RUN_OP(product_op(&p, WRITE, false));
    for (int64_t i = 0; i < 64 * 64; i++) assert_true(element(&p.c.t, i) == 1.0 + 0x1p-20);
    release();
}

/* c = 1 + k x 2^-9 x 1 in BF16: adding 2^-9 one by one, or rounding parts of the product, would lose it. The sums are
 * exact in 14 bits. a: 2^-9 times its scale. */
static void check_rounded_once(form f, float scale)
{
    product p = product_open(f);
    p.scale[0] = scale;
    sample_fill(&p.a, 0x1p-9 * (double)scale);
    sample_fill(&p.b, 1.0);
    sample_fill(&p.c, 1.0);
    RUN_OP(product_op(&p, UPDATE, false));
    for (int64_t i = 0; i < p.c.elements; i++)
        assert_true(element(&p.c.t, i) == (double)rounded(BF16, 1.0f + (float)f.s.k / 512.0f));
    release();
}

static void rounded_once(void **state)
{
    check_rounded_once((form){ { 48, 32, 600 }, 0, plain[1], A_TURNED, 1.0 }, 1.0f);
    check_rounded_once((form){ { 48, 32, 600 }, 0, plain[1], A_TURNED | GAPS, 1.0 }, 1.0f);
    check_rounded_once((form){ { 48, 32, 608 }, 0, codes[0], B_TURNED, 1.0 }, 0x1p3f);
}

/* A NaN in an FP8 value or a scale reaches exactly the results that it is a term of. */
static void no_number_stays(void **state)
{
    product p = product_open((form){ { 32, 48, 64 }, 0, codes[0], B_TURNED, 400.0 });
    for (int whole = 0; whole < 2; whole++) {
        if (whole) p.scale[1] = NAN;
        else element_set(&p.a.t, 7 * p.f.s.k + 5, (double)NAN);
        RUN_OP(product_op(&p, WRITE, false));
        for (int64_t i = 0; i < p.c.elements; i++)
            assert_true(isnan(element(&p.c.t, i)) == (whole || i / p.f.s.n == 7));
    }
    release();
}

static long new_pages(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt;
}

/* Where oneDNN takes its sgemm, as on x86-64, it packs the operands of this product into buffers that it allocates at
 * each call: 33 pages or more. The least of ten calls counts, since the system may move pages, too. A sanitizer keeps
 * freed memory for itself. */
static void buffers_stay(void **state)
{
    if (tested_machine() != MACHINE_HOST || BUILD_DEBUG) return;
    product p = product_open((form){ { 256, 256, 2048 }, 0, plain[0], A_TURNED, 1.0 });
    long least = LONG_MAX;
    for (int i = 0; i < 10; i++) {
        long before = new_pages();
        RUN_OP(product_op(&p, UPDATE, false));
        least = new_pages() - before < least ? new_pages() - before : least;
    }
    assert_in_range(least, 0, 16);
    release();
}

/* ---- the check of whole products: correct ones pass in every form, close to the limit; wrong ones are found if the
 * error exceeds the size of a rounding ---- */

/* Column blocks of 256, 256 and 88. */
enum { M = 40, N = 600, K = 144, BIASED = 16, FORMS = 32 };

static const struct {
    int64_t groups;
    formats f;
    access_mode how;
} kinds[] = { { 0, { F32, F32, F32 }, WRITE },    { 0, { BF16, BF16, BF16 }, WRITE },
              { 0, { BF16, BF16, F32 }, UPDATE }, { 0, { BF16, BF16, BF16 }, UPDATE },
              { 3, { BF16, BF16, BF16 }, WRITE }, { 3, { F32, F32, F32 }, UPDATE },
              { 0, { E4M3, E5M2, BF16 }, WRITE }, { 2, { E4M3, E4M3, BF16 }, UPDATE } };
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool on_gpu;

static void read_host(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

/* A product with its correct result, or a wrong one. */
typedef struct {
    product p;
    op o;
    void *before;
} judgement;

/* GPUs round a product to BF16 before an addition. */
static judgement judgement_open(int kind, int layout)
{
    bool biased = layout & BIASED && !kinds[kind].groups && kinds[kind].how == WRITE;
    judgement j = { product_open((form){
        { M, N, K }, kinds[kind].groups, kinds[kind].f, layout % BIASED & ~(biased ? C_TURNED : 0), 1.0, 0.1 }) };
    bool adds = biased || kinds[kind].how == UPDATE;
    expect(&j.p, kinds[kind].how, biased, is_code(kinds[kind].f.a) ? 3.7f : 1.0f,
           is_code(kinds[kind].f.a) ? 0.25f : 1.0f);
    j.o = product_op(&j.p, kinds[kind].how, biased);
    j.before = product_before(&j.o, read_host, NULL);
    assert_int_equal(j.before != NULL, kinds[kind].how == UPDATE);
    for (int64_t i = 0; i < j.p.c.elements; i++) {
        double *made = &j.p.before[i], added = j.p.expected[i] - *made;
        if (on_gpu && adds && j.p.c.t.type == BF16) *made = (double)rounded(BF16, (float)*made);
        element_set(&j.p.c.t, i, j.p.expected[i] = *made + added);
    }
    return j;
}

/* Returns the worst comparison as a fraction of its limit. */
static double judged(judgement *j, uint32_t draw)
{
    product_finding f =
        product_compare(&(checked_product){ &j->o, { .cuda = on_gpu }, j->before, draw, read_host, NULL });
    int64_t rows = j->p.f.layout & C_TURNED ? N : M, groups = j->p.f.groups ? j->p.f.groups : 1;
    assert_int_equal(f.comparisons, groups * rows * ((M + N - rows + 255) / 256));
    free(j->before);
    release();
    return f.worst / signed_sum_limit((double)f.comparisons);
}

/* Uniform roundings have a root mean square of 0.58 of the bound. The largest of 120 to 1,800 comparisons is 2.5 to 4
 * times that; the limit is 6.3 to 6.7. FP32's bound is for FP32 sums. */
static void check_right_products(void)
{
    for (int i = 0; i < KINDS; i++)
        for (int layout = i % 3; layout < FORMS; layout += test_is_long() ? 3 : 7) {
            judgement j = judgement_open(i, layout);
            double worst = judged(&j, (uint32_t)layout), least = kinds[i].f.c == BF16 && !on_gpu ? 0.15 : 0.0;
            if (!(worst < 0.5 && worst > least)) fail_msg("kind %d, form %d: %.3g of the limit", i, layout, worst);
        }
}

/* Returns the wrong value of an element in the first group. */
static double wrong_value(int deed, const product *p, int64_t row, int64_t column)
{
    const double *right = p->expected + row * N;
    double value = right[column];
    for (int64_t k = K - 32; deed == 2 && k < K; k++) value -= p->a.value[row * K + k] * p->b.value[k * N + column];
    if (deed == 0 && row == 33 && fabs(value) == largest(right, N)) return 2.0 * value;
    return deed == 3 || (deed == 1 && row / 16 == 2 && column / 16 == 20) ? 0.0 : value;
}

static void check_wrong_products(void)
{
    static const char *const deeds[] = { "an element doubled", "a tile zeroed", "32 terms left out", "all zero" };
    for (int i = 0; i < 5; i++)
        for (int deed = 0; deed < 4; deed++) {
            judgement j = judgement_open(i, C_TURNED * (i == 3));
            for (int64_t e = 0; e < M * N; e++) element_set(&j.p.c.t, e, wrong_value(deed, &j.p, e / N, e % N));
            double worst = judged(&j, 5);
            if (!(worst > 1.0)) fail_msg("kind %d, %s: %.3g of the limit", i, deeds[deed], worst);
        }
}

/* The check computes on the host, for every machine. */
static void whole_products_are_judged(void **state)
{
    if (tested_machine() != MACHINE_HOST) return;
    for (int gpu = 0; gpu < 2; gpu++) {
        on_gpu = gpu;
        check_right_products();
        check_wrong_products();
    }
    judgement j = judgement_open(0, 0);
    element_set(&j.p.c.t, 77, NAN);
    assert_true(isinf(judged(&j, 1)));
}

OPERATIONS_PROGRAM("operations_matmul", false, products, products_of_groups, products_of_codes, fused_slices,
                   exact_inputs, rounded_once, no_number_stays, buffers_stay, whole_products_are_judged)
