/* FP8 conversion, transposition, updates, and the scales of the next step, bitwise against a simple loop.
 * operations_fp8_matmul.c tests products in double, units/base/fp8.c tests the conversion of single numbers. */
#include "operations.h"

static const dtype code_types[] = { E4M3, E5M2 }, value_types[] = { F32, BF16 };

/* ---- quantize, transpose ---- */

typedef enum { CODES = 1, TRANSPOSED = 2, AMAX = 4, COUNTS = 8, PARTS = 16 } part;
typedef enum { PLAIN, WITH_NO_NUMBERS, ALL_ZERO } content;

/* x [m / batch, batch, n], with gaps between rows. groups 0: the transposed copy is one matrix. */
typedef struct {
    int64_t m, batch, n, groups, gap;
} quantizing;
static const quantizing shapes[] = { { 1, 1, 1, 0, 0 },     { 5, 1, 7, 0, 3 },       { 48, 2, 64, 0, 0 },
                                     { 300, 3, 130, 0, 5 }, { 67, 1, 1100, 0, 4 },   { 64, 1, 1024, 0, 0 },
                                     { 6, 2, 33, 3, 1 },    { 512, 4, 192, 8, 0 },   { 20, 1, 600, 1, 0 },
                                     { 330, 2, 70, 5, 2 },  { 1024, 1, 16, 2, 1030 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Sets magnitudes below and above the range of the format, including zeros of both signs. */
static void set_content(sample *x, content how, double largest)
{
    static const double no_number[] = { (double)NAN, (double)-NAN, (double)INFINITY, (double)-INFINITY };
    for (int64_t i = 0; i < x->elements; i++) {
        double value = random_value(1, i) * exp2(floor(24 * random_value(2, i)) - 2) * largest / 448;
        if (i % 13 == 5) value = i % 2 ? 0.0 : -0.0;
        if (how == WITH_NO_NUMBERS && i % 29 == 3) value = no_number[i % 4];
        element_set(&x->t, i, how == ALL_ZERO ? 0.0 : value);
    }
    sample_read(x);
}

/* The results of a simple loop over x. */
typedef struct {
    uint8_t *codes, *transposed;
    int32_t amax;
    uint64_t counts[FP8_COUNTS];
} expected;

static int64_t padded(int64_t m) { return (m + FP8_ALIGNMENT - 1) / FP8_ALIGNMENT * FP8_ALIGNMENT; }
static int64_t groups_of(const quantizing *s) { return s->groups ? s->groups : 1; }

static expected expected_of(const quantizing *s, const sample *x, dtype type, float scale)
{
    int64_t groups = groups_of(s), rows = padded(s->m / groups);
    expected e = { .codes = calloc((size_t)x->elements, 1), .transposed = calloc((size_t)(groups * rows * s->n), 1) };
    for (int64_t i = 0; i < x->elements; i++) {
        int64_t row = i / s->n, column = i % s->n;
        float value = (float)element(&x->t, i), scaled = value * scale;
        uint8_t code = fp8_round(type, scaled);
        e.codes[i] = code;
        e.transposed[(row % groups * s->n + column) * rows + row / groups] = code;
        if (amax_bits(value) > e.amax) e.amax = amax_bits(value);
        e.counts[FP8_VALUES]++;
        if (value != 0.0f && (code == 0 || code == 0x80)) e.counts[FP8_UNDERFLOWS]++;
        if (fabsf(scaled) > fp8_largest(type)) e.counts[FP8_SATURATIONS]++;
    }
    return e;
}

static tensor transposed_like(const quantizing *s, sample *memory, dtype type)
{
    tensor t = fp8_transposed_shape(type, s->groups, s->m / groups_of(s), s->n);
    *memory = sample_open(type, t.dims, t.dim, 0);
    return memory->t;
}

/* An amax that was larger stays; counts are added. */
static void check_quantize(const quantizing *s, dtype from, dtype type, float scale, int parts, content how)
{
    const int64_t dim[] = { s->m / s->batch, s->batch, s->n };
    sample x = sample_open(from, 3, dim, s->gap), codes = sample_open(type, 3, dim, 0), transposed;
    int32_t amax = parts & 1 ? amax_bits(1e30f) : 0, before = amax;
    uint64_t counts[FP8_COUNTS] = { 1, 2, 3 };
    set_content(&x, how, (double)fp8_largest(type));
    expected e = expected_of(s, &x, type, scale);
    encoding o = { .codes = codes.t, .transposed = transposed_like(s, &transposed, type) };
    _Alignas(16) float pair[FP8_FACTORS];
    fp8_set_factors(pair, scale);
    o.codes.scale = o.transposed.scale = pair;
    if (!(parts & CODES)) o.codes = tensor_none();
    if (!(parts & TRANSPOSED)) o.transposed = tensor_none();
    if (parts & AMAX) o.amax = tensor_1d(&amax, I32, 1);
    if (parts & COUNTS) o.counts = tensor_1d(counts, U64, FP8_COUNTS);
    RUN(q, submit(q, "quantize", quantize_op(x.t, o)));
    if (parts & CODES) assert_memory_equal(codes.memory, e.codes, codes.bytes);
    if (parts & TRANSPOSED) assert_memory_equal(transposed.memory, e.transposed, transposed.bytes);
    if (parts & AMAX) assert_int_equal(amax, e.amax > before ? e.amax : before);
    for (int i = 0; parts & COUNTS && i < FP8_COUNTS; i++) assert_int_equal(counts[i], e.counts[i] + (uint64_t)i + 1);
    if (parts & COUNTS && how == PLAIN && x.elements > 1000)
        assert_true(e.counts[FP8_UNDERFLOWS] > 0 && e.counts[FP8_SATURATIONS] > 0);
    sample *all[] = { &x, &codes, &transposed };
    for (int i = 0; i < 3; i++) sample_close(all[i]);
    free(e.codes);
    free(e.transposed);
}

/* Any part may be absent. Counts need FP8 values. */
static void quantizes_in_parts(void **state)
{
    for (int parts = 0; parts < PARTS; parts++)
        for (int f = 0; f < 2 && (parts & (CODES | TRANSPOSED) || !(parts & COUNTS)); f++)
            for (int t = 0; t < 2; t++)
                for (int i = 2; i < SHAPES; i += 5)
                    check_quantize(&shapes[i], value_types[f], code_types[t], 4.0f, parts, PLAIN);
}

static void quantizes_every_shape(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int f = 0; f < 2; f++)
            for (int t = 0; t < 2; t++) {
                check_quantize(&shapes[i], value_types[f], code_types[t], 1.0f, PARTS - 1, PLAIN);
                check_quantize(&shapes[i], value_types[f], code_types[t], 3.7f, PARTS - 1, WITH_NO_NUMBERS);
            }
}

/* Scales at the ends of their range, and NaN: then every FP8 value is NaN, also that of zero. */
static void quantizes_with_any_scale(void **state)
{
    static const float scales[] = { 0x1p-100f, 0x1p-20f, 0x1p20f, 0x1p100f, NAN };
    for (int i = 0; i < 5; i++)
        for (int t = 0; t < 2; t++) {
            check_quantize(&shapes[3], BF16, code_types[t], scales[i], PARTS - 1, WITH_NO_NUMBERS);
            check_quantize(&shapes[6], F32, code_types[t], scales[i], PARTS - 1, ALL_ZERO);
        }
}

/* FP8 values of all kinds, also NaN and infinity, as bytes; rows with gaps. */
static void check_transpose(const quantizing *s, dtype type)
{
    int64_t groups = groups_of(s), m = s->m / groups, rows = padded(m);
    sample x = sample_open(type, s->groups ? 3 : 2,
                           s->groups ? (int64_t[]){ groups, m, s->n } : &(int64_t[]){ m, s->n }[0], s->gap),
           out;
    tensor t = transposed_like(s, &out, type);
    for (int64_t i = 0; i < x.elements; i++)
        x.memory[place_of(&x.t, i)] = (char)philox4x32((philox_block){ { (uint32_t)i, 0, 0, 0 } }, 5, 6).word[0];
    RUN(q, submit(q, "transpose", transpose_op(t, x.t)));
    for (int64_t i = 0; i < out.elements; i++) {
        int64_t row = i % rows, column = i / rows % s->n, g = i / rows / s->n;
        char want = row < m ? x.memory[place_of(&x.t, (g * m + row) * s->n + column)] : 0;
        if (out.memory[i] != want) fail_msg("transpose, element %lld of the copy", (long long)i);
    }
    sample_close(&x);
    sample_close(&out);
}

static void transposes(void **state)
{
    for (int i = 0; i < SHAPES; i++)
        for (int t = 0; t < 2; t++) check_transpose(&shapes[i], code_types[t]);
}

/* ---- scales ---- */

enum { TENSORS = 3 * FP8_KINDS + 3 * 700 };

static int32_t drawn_amax(int64_t i, int64_t step)
{
    philox_block drawn = philox4x32((philox_block){ { (uint32_t)i, (uint32_t)step, 0, 0 } }, 10, 11);
    static const int32_t special[] = { 0, 1, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7FFFFFFF };
    bool rare = drawn.word[2] % 4096 == 0;
    return rare ? special[drawn.word[3] % 6] : (int32_t)(drawn.word[0] % 0x7F000000u);
}

/* The bits of NaN after a division differ: a GPU drops bits that a host keeps. */
static void check_factors(const float factor[FP8_FACTORS], float scale)
{
    uint32_t inverse = float_bits(factor[FP8_INVERSE]);
    assert_int_equal(float_bits(factor[FP8_SCALE]), float_bits(scale));
    assert_true(inverse == float_bits(1.0f / scale) || (isnan(factor[FP8_INVERSE]) && isnan(scale)));
}

/* In step `step` amaxes replace those of FP8_HISTORY steps before; the rest of the history stays. Every seventh tensor
 * has no amax yet. */
static void check_scales(double step, bool exact)
{
    double scalar[STEP_SCALARS] = { [SCALAR_STEP] = step };
    int32_t amax[TENSORS], largest[TENSORS] = { 0 };
    float scales[TENSORS * FP8_FACTORS];
    int64_t place = (int64_t)(step + 1) % FP8_HISTORY;
    int32_t *past = calloc((size_t)FP8_HISTORY * TENSORS, sizeof *past),
            *after = calloc((size_t)FP8_HISTORY * TENSORS, sizeof *after);
    for (int64_t i = 0; i < TENSORS; i++) amax[i] = i % 7 ? drawn_amax(i, -1) >> (i % 3) : 0;
    for (int64_t s = 0; s < FP8_HISTORY; s++)
        for (int64_t i = 0; i < TENSORS; i++) {
            past[s * TENSORS + i] = i % 7 && i % 11 ? drawn_amax(i, s) : 0;
            after[s * TENSORS + i] = s == place ? amax[i] : past[s * TENSORS + i];
            if (after[s * TENSORS + i] > largest[i]) largest[i] = after[s * TENSORS + i];
        }
    fp8_scales_operands o = { .scalars = tensor_1d(scalar, F64, STEP_SCALARS),
                              .amax = tensor_1d(amax, I32, TENSORS),
                              .history = tensor_2d(past, I32, FP8_HISTORY, TENSORS),
                              .scales = tensor_1d(scales, F32, TENSORS * FP8_FACTORS) };
    RUN(q, submit(q, "scales", fp8_scales_op(o, (fp8_scales_args){ .exact = exact })));
    assert_memory_equal(past, after, (size_t)FP8_HISTORY * TENSORS * sizeof *past);
    for (int64_t i = 0; i < TENSORS; i++) {
        dtype type = i % FP8_KINDS == FP8_GRADIENT ? E5M2 : E4M3;
        assert_int_equal(amax[i], 0);
        const float *factor = scales + i * FP8_FACTORS, scale = fp8_scale_of(type, largest[i], exact);
        check_factors(factor, scale);
    }
    free(past);
    free(after);
}

/* With one tensor of each kind, each scale follows from its own amax. */
static void scales_follow_an_amax(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 8 * FP8_KINDS; i++) {
        fp8_kind kind = (fp8_kind)(i % FP8_KINDS);
        bool exact = i % 2;
        int32_t drawn = i < FP8_KINDS ? 0 : drawn_amax(i, -1), amax = drawn;
        float factor[FP8_FACTORS], scale = fp8_scale_of(kind == FP8_GRADIENT ? E5M2 : E4M3, drawn, exact);
        fp8_scales_operands o = { .amax = tensor_1d(&amax, I32, 1), .scales = tensor_1d(factor, F32, FP8_FACTORS) };
        RUN(q, submit(q, "scales", fp8_scales_op(o, (fp8_scales_args){ exact, kind })));
        assert_int_equal(amax, 0);
        check_factors(factor, scale);
    }
}

static void scales_follow_the_history(void **state)
{
    static const double steps[] = { -1, 0, 1, 1022, 1023, 1024, 5000 };
    for (int i = 0; i < 7; i++)
        for (int exact = 0; exact < 2; exact++) check_scales(steps[i], exact);
}

/* ---- AdamW ---- */

typedef struct {
    sample gradient, weight, master, first, second;
} bucket;

static bucket bucket_open(dtype type, int64_t n)
{
    bucket b = { sample_open(BF16, 1, &n, 0), sample_open(type, 1, &n, 0), sample_open(F32, 1, &n, 0),
                 sample_open(F32, 1, &n, 0), sample_open(F32, 1, &n, 0) };
    sample_randomize(&b.gradient, 1, 1e-2, 0.0);
    sample_randomize(&b.master, 2, 0.05, 0.0);
    sample_randomize(&b.first, 3, 1e-3, 0.0);
    sample_randomize(&b.second, 4, 1e-5, 1.1e-5);
    return b;
}

static void bucket_close(bucket *b)
{
    sample *all[] = { &b->gradient, &b->weight, &b->master, &b->first, &b->second };
    for (int i = 0; i < 5; i++) sample_close(all[i]);
}

static void update(bucket *b, float *scale, int32_t *amax, uint64_t *counts)
{
    double scalar[STEP_SCALARS] = { 4, 1e-3, 1 / (1 - pow(0.9, 5)), 1 / (1 - pow(0.95, 5)), 0.37, 0, 0 };
    adamw_operands o = { .scalars = tensor_1d(scalar, F64, STEP_SCALARS),
                         .gradient = b->gradient.t,
                         .weight = b->weight.t,
                         .master = b->master.t,
                         .first = b->first.t,
                         .second = b->second.t,
                         .amax = amax ? tensor_1d(amax, I32, 1) : tensor_none(),
                         .counts = counts ? tensor_1d(counts, U64, FP8_COUNTS) : tensor_none() };
    o.weight.scale = scale;
    RUN(q, submit(q, "adamw", adamw_op(&o, (adamw_rule){ 0.9f, 0.95f, 1e-5f, 0.1f })));
}

/* An FP8 update equals a BF16 update followed by quantize. amax and counts are those of the weight in both. */
static void check_update(dtype type, int64_t n, float scale)
{
    bucket codes = bucket_open(type, n), bf16 = bucket_open(BF16, n), unseen = bucket_open(type, n);
    sample quantized = sample_open(type, 2, (int64_t[]){ 1, n }, 0);
    int32_t amax = 7, amax_of_bf16 = 7, amax_of_quantized = 7;
    _Alignas(16) float pair[FP8_FACTORS];
    fp8_set_factors(pair, scale);
    uint64_t counts[FP8_COUNTS] = { 1, 2, 3 }, counts_of_quantized[FP8_COUNTS] = { 1, 2, 3 };
    update(&codes, pair, &amax, counts);
    update(&bf16, NULL, &amax_of_bf16, NULL);
    update(&unseen, pair, NULL, NULL);
    encoding o = { .codes = quantized.t,
                   .amax = tensor_1d(&amax_of_quantized, I32, 1),
                   .counts = tensor_1d(counts_of_quantized, U64, FP8_COUNTS) };
    o.codes.scale = pair;
    RUN(q, submit(q, "quantize", quantize_op(tensor_2d(bf16.weight.memory, BF16, 1, n), o)));
    assert_memory_equal(codes.weight.memory, quantized.memory, quantized.bytes);
    assert_memory_equal(unseen.weight.memory, quantized.memory, quantized.bytes);
    assert_memory_equal(codes.master.memory, bf16.master.memory, bf16.master.bytes);
    assert_memory_equal(codes.first.memory, bf16.first.memory, bf16.first.bytes);
    assert_memory_equal(codes.second.memory, bf16.second.memory, bf16.second.bytes);
    assert_true(amax == amax_of_quantized && amax_of_bf16 == amax_of_quantized && amax > 7);
    assert_memory_equal(counts, counts_of_quantized, sizeof counts);
    assert_int_equal(counts[FP8_VALUES], n + 1 + FP8_VALUES);
    sample_close(&quantized);
    bucket_close(&codes);
    bucket_close(&bf16);
    bucket_close(&unseen);
}

static void weights_become_codes(void **state)
{
    static const int64_t sizes[] = { 1, 16, 5000, 70001 };
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < 2; t++) {
            check_update(code_types[t], sizes[i], 0x1p13f);
            check_update(code_types[t], sizes[i], 8873.0f);
        }
}

/* A weight without a master and without FP8 values has an amax, too. */
static void a_weight_in_place_has_an_amax(void **state)
{
    enum { N = 3000 };
    for (int f = 0; f < 2; f++) {
        bucket b = bucket_open(value_types[f], N);
        int32_t amax = 0, want = 0;
        sample_randomize(&b.weight, 2, 0.05, 0.0);
        sample_close(&b.master);
        b.master = (sample){ 0 };
        update(&b, NULL, &amax, NULL);
        for (int64_t i = 0; i < N; i++) {
            int32_t own = amax_bits(bf16_widen(bf16_round((float)element(&b.weight.t, i))));
            want = own > want ? own : want;
        }
        assert_int_equal(amax, want);
        bucket_close(&b);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantizes_in_parts),        cmocka_unit_test(quantizes_every_shape),
        cmocka_unit_test(quantizes_with_any_scale),  cmocka_unit_test(transposes),
        cmocka_unit_test(scales_follow_the_history), cmocka_unit_test(scales_follow_an_amax),
        cmocka_unit_test(weights_become_codes),      cmocka_unit_test(a_weight_in_place_has_an_amax),
    };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("operations_fp8", tests, NULL, NULL);
    world_stop();
    return failed;
}
