/* FP8 conversion, transposition, updates, and the scales of the next step, bitwise against a simple loop.
 * operations_matmul.c tests products in double, units/base/numeric.c tests the conversion of single numbers. */
#include "encoded.h"

static const dtype code_types[] = { E4M3, E5M2 }, value_types[] = { F32, BF16 };

/* ---- quantize, transpose ---- */

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
}

/* Encodes x in a simple loop. An amax that was larger stays; counts are added. */
static void encode_simply(encoded *e, const quantizing *s, const sample *x, dtype type, int parts)
{
    int64_t groups = s->groups ? s->groups : 1, rows = e->transposed.elements / groups / s->n;
    if (parts & TRANSPOSED) memset(e->transposed.memory, 0, e->transposed.bytes);
    for (int64_t i = 0; i < x->elements; i++) {
        int64_t row = i / s->n, at = (row % groups * s->n + i % s->n) * rows + row / groups;
        float value = (float)element(&x->t, i), scaled = value * e->scale[FP8_SCALE];
        uint8_t code = fp8_round(type, scaled);
        if (parts & CODES) e->codes.memory[i] = (char)code;
        if (parts & TRANSPOSED) e->transposed.memory[at] = (char)code;
        if (parts & AMAX && amax_bits(value) > *e->amax) *e->amax = amax_bits(value);
        if (!(parts & COUNTS)) continue;
        e->counts[FP8_VALUES]++;
        e->counts[FP8_UNDERFLOWS] += value != 0.0f && (code == 0 || code == 0x80);
        e->counts[FP8_SATURATIONS] += fabsf(scaled) > fp8_largest(type);
    }
}

static void check_quantize(const quantizing *s, dtype from, dtype type, float scale, int parts, content how)
{
    sample x = SAMPLE(from, s->gap, s->m / s->batch, s->batch, s->n);
    encoded e[2]; /* the operation's, and the loop's */
    for (int i = 0; i < 2; i++) e[i] = encoded_open(x.t, s->groups, type, scale, parts & 1 ? amax_bits(1e30f) : 0);
    set_content(&x, how, (double)fp8_largest(type));
    encode_simply(&e[1], s, &x, type, parts);
    RUN_OP(quantize_op(x.t, encoding_of(&e[0], parts)));
    encoded_compare("quantize", &e[0], &e[1]);
    if (parts & COUNTS && how == PLAIN && x.elements > 1000)
        assert_true(e[1].counts[FP8_UNDERFLOWS] > FP8_UNDERFLOWS + 1 &&
                    e[1].counts[FP8_SATURATIONS] > FP8_SATURATIONS + 1);
    release();
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
    int64_t m = s->groups ? s->m / s->groups : s->m;
    tensor t = fp8_transposed_shape(type, s->groups, m, s->n);
    sample x = s->groups ? SAMPLE(type, s->gap, s->groups, m, s->n) : SAMPLE(type, s->gap, m, s->n),
           out = sample_open(type, 0, t.dims, t.dim);
    int64_t rows = t.dim[t.dims - 1];
    for (int64_t i = 0; i < x.elements; i++)
        x.memory[tensor_place(&x.t, i)] = (char)philox4x32((philox_block){ { (uint32_t)i, 0, 0, 0 } }, 5, 6).word[0];
    RUN_OP(transpose_op(out.t, x.t));
    for (int64_t i = 0; i < out.elements; i++) {
        int64_t row = i % rows, column = i / rows % s->n, g = i / rows / s->n;
        char want = row < m ? x.memory[tensor_place(&x.t, (g * m + row) * s->n + column)] : 0;
        if (out.memory[i] != want) fail_msg("transpose, element %lld of the copy", (long long)i);
    }
    release();
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
    int32_t *past = taken(FP8_HISTORY * TENSORS, sizeof *past), *after = taken(FP8_HISTORY * TENSORS, sizeof *after);
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
    RUN_OP(fp8_scales_op(o, (fp8_scales_args){ .exact = exact }));
    assert_memory_equal(past, after, (size_t)FP8_HISTORY * TENSORS * sizeof *past);
    for (int64_t i = 0; i < TENSORS; i++) {
        assert_int_equal(amax[i], 0);
        check_factors(scales + i * FP8_FACTORS,
                      fp8_scale_of(i % FP8_KINDS == FP8_GRADIENT ? E5M2 : E4M3, largest[i], exact));
    }
    release();
}

/* With one tensor of each kind, each scale follows from its own amax. */
static void scales_follow_an_amax(void **state)
{
    for (int64_t i = 0; i < 8 * FP8_KINDS; i++) {
        fp8_kind kind = (fp8_kind)(i % FP8_KINDS);
        bool exact = i % 2;
        int32_t drawn = i < FP8_KINDS ? 0 : drawn_amax(i, -1), amax = drawn;
        float factor[FP8_FACTORS], scale = fp8_scale_of(kind == FP8_GRADIENT ? E5M2 : E4M3, drawn, exact);
        fp8_scales_operands o = { .amax = tensor_1d(&amax, I32, 1), .scales = tensor_1d(factor, F32, FP8_FACTORS) };
        RUN_OP(fp8_scales_op(o, (fp8_scales_args){ exact, kind }));
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
    return (bucket){ drawn(SAMPLE(BF16, 0, n), 1, 1e-2, 0.0), drawn(SAMPLE(type, 0, n), 6, 0.05, 0.0),
                     drawn(SAMPLE(F32, 0, n), 2, 0.05, 0.0), drawn(SAMPLE(F32, 0, n), 3, 1e-3, 0.0),
                     drawn(SAMPLE(F32, 0, n), 4, 1e-5, 1.1e-5) };
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
    RUN_OP(adamw_op(&o, (adamw_rule){ 0.9f, 0.95f, 1e-5f, 0.1f }));
}

static void same_bytes(const sample *a, const sample *b) { assert_memory_equal(a->memory, b->memory, a->bytes); }

/* An FP8 update equals a BF16 update followed by quantize. amax and counts are those of the weight in both. */
static void check_update(dtype type, int64_t n, float scale)
{
    bucket codes = bucket_open(type, n), bf16 = bucket_open(BF16, n), unseen = bucket_open(type, n);
    tensor row = tensor_2d(bf16.weight.memory, BF16, 1, n);
    encoded e = encoded_open(row, 0, type, scale, 7), seen = encoded_open(row, 0, type, scale, 7);
    int32_t amax_of_bf16 = 7;
    update(&codes, e.scale, seen.amax, seen.counts);
    update(&bf16, NULL, &amax_of_bf16, NULL);
    update(&unseen, e.scale, NULL, NULL);
    RUN_OP(quantize_op(row, encoding_of(&e, CODES | AMAX | COUNTS)));
    same_bytes(&codes.weight, &e.codes);
    same_bytes(&unseen.weight, &e.codes);
    same_bytes(&codes.master, &bf16.master);
    same_bytes(&codes.first, &bf16.first);
    same_bytes(&codes.second, &bf16.second);
    assert_true(*seen.amax == *e.amax && amax_of_bf16 == *e.amax && *e.amax > 7);
    assert_memory_equal(seen.counts, e.counts, FP8_COUNTS * sizeof *e.counts);
    assert_int_equal(e.counts[FP8_VALUES], n + 1 + FP8_VALUES);
    release();
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
    for (int f = 0; f < 2; f++) {
        bucket b = bucket_open(value_types[f], 3000);
        int32_t amax = 0, want = 0;
        b.master = (sample){ 0 };
        update(&b, NULL, &amax, NULL);
        for (int64_t i = 0; i < b.weight.elements; i++) {
            int32_t own = amax_bits(rounded(BF16, (float)element(&b.weight.t, i)));
            want = own > want ? own : want;
        }
        assert_int_equal(amax, want);
        release();
    }
}

OPERATIONS_PROGRAM("operations_fp8", false, quantizes_in_parts, quantizes_every_shape, quantizes_with_any_scale,
                   transposes, scales_follow_the_history, scales_follow_an_amax, weights_become_codes,
                   a_weight_in_place_has_an_amax)
