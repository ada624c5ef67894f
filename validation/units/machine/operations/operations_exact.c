/* Operations with results defined to the last bit, or nearly: sums, initial weights, tokens, scalars of the step,
 * AdamW, copies, fills, planted faults, and the loss over a divided vocabulary. */
#include "base/random.h"
#include "machine/op/op.h"
#include "operations.h"

/* ---- exact sums of squares ---- */

typedef unsigned __int128 wide;

/* Long double holds the square of an FP32 number exactly, and also its rounding to 2^-80. */
static wide square_units(double x) { return (wide)rintl((long double)x * (long double)x * 0x1p80L); }

static wide value_of(const uint64_t *words)
{
    return (wide)words[3] << 96 | (wide)words[2] << 64 | (wide)words[1] << 32 | words[0];
}

/* Magnitudes are 2^low .. 2^high; the sum starts at `before`. Starting `skip` elements in prevents vector loads. */
static void check_squares(dtype type, int64_t n, int low, int high, uint64_t before, int64_t skip)
{
    sample x = SAMPLE(type, 0, n + skip);
    uint64_t words[EXACT_SUM_WORDS] = { before };
    wide expected = before;
    x.t = tensor_slice(x.t, 0, skip, n), x.elements = n;
    for (int64_t i = 0; i < n; i++)
        element_set(&x.t, i,
                    random_value(1, i) * exp2(low + floor((double)(high - low + 1) * fabs(random_value(2, i)))));
    sample_read(&x);
    for (int64_t i = 0; i < n; i++) expected += square_units(x.value[i]);
    RUN_OP(square_sum_op(x.t, tensor_1d(words, U64, EXACT_SUM_WORDS)));
    for (int i = 0; i < 3; i++) assert_true(words[i] < (1ull << 32));
    assert_true(value_of(words) == expected && !words[EXACT_SUM_NOT_FINITE] && !words[EXACT_SUM_OUTGROWN]);
    release();
}

static void squares(void **state)
{
    for (dtype type = F32; type <= BF16; type++) {
        check_squares(type, 1, 0, 0, 0, 0);
        check_squares(type, 5000, -30, 0, 0xFFFFFFFFu, 0);
        check_squares(type, 3000, -140, -20, 0, 1);
        check_squares(type, 3001, -60, 20, 77, 0);
        check_squares(type, 150001, 7, 7, 0, 1);
        check_squares(type, 2048, -45, -38, 0, 0);
    }
}

/* Squares half-way between two units round to even. */
static void squares_tie(void **state)
{
    float x[2] = { 0x1p-41f * sqrtf(2.0f), 0.0f };
    const float ties[3] = { 0x1.8p-40f, 0x1p-40f, 0x1.4p-39f }; /* squares in units: 2.25, 1, 6.25 */
    uint64_t words[EXACT_SUM_WORDS] = { 0 };
    RUN_OP(square_sum_op(tensor_1d((void *)ties, F32, 3), tensor_1d(words, U64, EXACT_SUM_WORDS)));
    assert_int_equal(words[0], 2 + 1 + 6);
    RUN_OP(square_sum_op(tensor_1d(x, F32, 2), tensor_1d(words, U64, EXACT_SUM_WORDS)));
    assert_int_equal(words[0], 9 + (uint64_t)square_units((double)x[0]));
}

static void squares_flag(void **state)
{
    static const double bad[] = { (double)NAN, (double)-INFINITY, -0x1p24, 3e38 };
    for (int i = 0; i < 4; i++) {
        const int flag = i < 2 ? EXACT_SUM_NOT_FINITE : EXACT_SUM_OUTGROWN;
        float x[3000] = { 1.0f };
        uint64_t words[EXACT_SUM_WORDS] = { 0 };
        for (int among = 2999; among >= 0; among -= 2999) { /* the last element, then all */
            for (int j = among; j < 3000; j++) x[j] = (float)bad[i];
            RUN_OP(square_sum_op(tensor_1d(x, F32, 3000), tensor_1d(words, U64, EXACT_SUM_WORDS)));
            assert_true(words[flag] == 1 && words[EXACT_SUM_NOT_FINITE] + words[EXACT_SUM_OUTGROWN] == 1);
        }
    }
}

/* Sums of integers are exact. Every element belongs to one slice of its owner's part, with the sign of its place and
 * step. Parts of a single run of signs have one slice; BF16 values need not be aligned to 16 bytes. */
static void signed_sums(void **state)
{
    static const struct {
        dtype type;
        int64_t part, place;
        int owners, skipped;
    } trial[] = { { F32, 7 * SIGN_RUN, 0, 3, 0 },
                  { BF16, 70 * SIGN_RUN, 64, 2, 0 },
                  { BF16, 19 * SIGN_RUN, 96, 1, 1 },
                  { F32, SIGN_RUN, 32, 5, 0 },
                  { BF16, 5000 * SIGN_RUN, 0, 1, 0 } };
    double scalars[STEP_SCALARS] = { [SCALAR_STEP] = 17.0 };
    uint64_t key = signs_key(5, 17.0);
    for (size_t t = 0; t < sizeof trial / sizeof *trial; t++) {
        int64_t part = trial[t].part, n = part * trial[t].owners;
        double got[SUM_SLICES][SLICE_TOTALS], expected[SUM_SLICES][SLICE_TOTALS] = { { 0.0 } };
        sample x = SAMPLE(trial[t].type, 0, n + trial[t].skipped);
        tensor view = tensor_slice(x.t, 0, trial[t].skipped, n);
        for (int64_t i = 0; i < n; i++) {
            double value = floor(100.0 * random_value(3, i));
            int64_t place = trial[t].place + i;
            int slice = 0;
            element_set(&view, i, value);
            while (slice_begin(part, slice + 1) <= i % part) slice++;
            expected[slice][SLICE_SIGNED] += signs_of(key, place / SIGN_RUN) >> place % SIGN_RUN & 1u ? -value : value;
            expected[slice][SLICE_SQUARES] += value * value;
        }
        RUN_OP(signed_sums_op(view, tensor_1d(scalars, F64, STEP_SCALARS),
                              tensor_1d(got, F64, SUM_SLICES * SLICE_TOTALS),
                              &(signed_sums_args){ 5, trial[t].place, trial[t].owners }));
        assert_memory_equal(got, expected, sizeof got);
        release();
    }
}

/* A digest is the sum of the digests of its parts. It depends on bits and on the places of elements. */
static void digests(void **state)
{
    enum { N = 10001, PART = 4099 };
    static const dtype types[] = { E4M3, BF16, F32, U64 };
    static uint64_t x[N];
    for (int t = 0; t < 4; t++) {
        size_t bytes = dtype_bytes(types[t]);
        uint64_t whole = 5, parts = 0, moved = 0, expected = 5;
        char *rest = (char *)x + PART * bytes;
        for (int i = 0; i < N; i++) x[i] = mix64((uint64_t)(i + 1));
        for (int i = 0; i < N; i++) {
            uint64_t bits = 0;
            memcpy(&bits, (char *)x + (size_t)i * bytes, bytes);
            expected += digest_element(9, 70 + i, bits);
        }
        RUN_OP(digest_op(tensor_1d(x, types[t], N), tensor_1d(&whole, U64, 1), &(digest_args){ 9, 70 }));
        RUN_OP(digest_op(tensor_1d(x, types[t], PART), tensor_1d(&parts, U64, 1), &(digest_args){ 9, 70 }));
        RUN_OP(
            digest_op(tensor_1d(rest, types[t], N - PART), tensor_1d(&parts, U64, 1), &(digest_args){ 9, 70 + PART }));
        assert_true(whole == expected && parts == whole - 5);
        memmove(x, (char *)x + bytes, bytes);
        memcpy((char *)x + bytes, &(uint64_t){ mix64(1) }, bytes);
        RUN_OP(digest_op(tensor_1d(x, types[t], N), tensor_1d(&moved, U64, 1), &(digest_args){ 9, 70 }));
        assert_true(moved != whole - 5);
    }
}

/* ---- the step's scalars ---- */

static tensor scalars_tensor(double *scalar) { return tensor_1d(scalar, F64, STEP_SCALARS); }

static double clip_of(const uint64_t *words, double clip, double *norm)
{
    double scalar[STEP_SCALARS] = { 0 }, loss = 3.5;
    RUN_OP(step_clip_op(tensor_1d((void *)words, U64, EXACT_SUM_WORDS), tensor_1d(&loss, F64, 1),
                        scalars_tensor(scalar), &(step_clip_args){ clip, 2 }));
    assert_true(scalar[SCALAR_LOSS] == 3.5 / 2);
    *norm = scalar[SCALAR_NORM];
    return scalar[SCALAR_CLIP];
}

static void clips(void **state)
{
    double norm;
    const uint64_t nine[EXACT_SUM_WORDS] = { 0, 0, 9u << 16 }, carried[EXACT_SUM_WORDS] = { 0, 9ull << 48 };
    assert_true(clip_of(nine, 1.0, &norm) == 1.0 / (3.0 + 1e-6) && norm == 3.0);
    assert_true(clip_of(nine, 0.0, &norm) == 1.0 && norm == 3.0);
    assert_true(clip_of(nine, 4.0, &norm) == 1.0);
    assert_true(clip_of(carried, 0.0, &norm) == 1.0 && norm == 3.0); /* carries between words summed over ranks */
    const uint64_t largest[EXACT_SUM_WORDS] = { [3] = 0xFFFFFFFFu }, outgrown[EXACT_SUM_WORDS] = { [3] = 1ull << 32 };
    assert_true(clip_of(largest, 0.0, &norm) == 1.0 && fabs(norm - 0x1p24) < 0.01);
    assert_true(clip_of(outgrown, 1.0, &norm) == 1.0 && isinf(norm));
    uint64_t flagged[EXACT_SUM_WORDS] = { 1, 1, 1, 1, [EXACT_SUM_OUTGROWN] = 2 };
    assert_true(clip_of(flagged, 1.0, &norm) == 1.0 && isinf(norm));
    flagged[EXACT_SUM_NOT_FINITE] = 3;
    assert_true(clip_of(flagged, 1.0, &norm) == 1.0 && isnan(norm));
}

static void learning_rates(void **state)
{
    const step_begin_args args = {
        .maximum = 8e-5, .minimum = 8e-6, .warmup = 4, .total = 11, .beta1 = 0.9f, .beta2 = 0.95f
    };
    double scalar[STEP_SCALARS] = { [SCALAR_STEP] = -1 };
    for (int t = 0; t < 13; t++) {
        RUN_OP(step_begin_op(scalars_tensor(scalar), &args));
        int done = t < 11 ? t - 4 : 6;
        double rate = t < 4 ? 8e-5 * (t + 1) / 5 : 8e-6 + (8e-5 - 8e-6) / 2 * (1 + cos(acos(-1.0) * done / 6));
        assert_true(scalar[SCALAR_STEP] == t);
        assert_true(fabs(scalar[SCALAR_LEARNING_RATE] - rate) < 1e-15);
        assert_true(fabs(scalar[SCALAR_CORRECTION1] * (1 - pow((double)0.9f, t + 1)) - 1) < 1e-14);
        assert_true(fabs(scalar[SCALAR_CORRECTION2] * (1 - pow((double)0.95f, t + 1)) - 1) < 1e-14);
    }
}

static double first_rate(step_begin_args args, double step)
{
    double scalar[STEP_SCALARS] = { [SCALAR_STEP] = step - 1 };
    RUN_OP(step_begin_op(scalars_tensor(scalar), &args));
    return scalar[SCALAR_LEARNING_RATE];
}

static void learning_rate_corners(void **state)
{
    const step_begin_args constant = { .maximum = 1e-3, .total = 10, .constant = true },
                          warm = { .maximum = 1e-3, .total = 10, .warmup = 3, .constant = true };
    const step_begin_args zero = { .maximum = 1e-3, .minimum = 1e-4, .total = 50, .warmup = 5, .from_zero = true };
    assert_true(first_rate(zero, 0) == 0.0 && fabs(first_rate(zero, 4) - 8e-4) < 1e-18 && first_rate(zero, 5) == 1e-3);
    assert_true(fabs(first_rate(zero, 49) - 1e-4) < 1e-18);
    const step_begin_args single = { .maximum = 1e-3, .minimum = 1e-4, .total = 1 },
                          all_warm = { .maximum = 1e-3, .minimum = 1e-4, .total = 4, .warmup = 3 };
    assert_true(first_rate(constant, 0) == 1e-3 && first_rate(constant, 9) == 1e-3);
    assert_true(first_rate(warm, 0) == 1e-3 / 4 && first_rate(warm, 3) == 1e-3);
    assert_true(fabs(first_rate(single, 0) - 1e-3) < 1e-18 && fabs(first_rate(all_warm, 3) - 1e-3) < 1e-18);
}

/* ---- AdamW ---- */

typedef struct {
    dtype gradient, weight, moments;
    bool master;
} adamw_formats;

/* If n is odd, starts one element in, where kernels cannot use vector loads. */
static sample skipped(dtype type, int64_t n, uint32_t number, double scale, double offset)
{
    sample x = SAMPLE(type, 0, n + n % 2);
    x.t = tensor_slice(x.t, 0, n % 2, n), x.elements = n;
    return drawn(x, number, scale, offset);
}

/* Reference: double, from the rounded inputs. FP32 makes about eight roundings of the update and one of each result. */
static void check_adamw(adamw_formats f, int64_t n)
{
    double scalar[STEP_SCALARS] = { 4, 1e-3, 1 / (1 - pow(0.9, 5)), 1 / (1 - pow(0.95, 5)), 0.37, 0, 0 };
    sample g = skipped(f.gradient, n, 1, 1e-2, 0.0), w = skipped(f.weight, n, 2, 0.05, 0.0),
           master = skipped(F32, n, 3, 0.05, 0.0), m = skipped(f.moments, n, 4, 1e-3, 0.0),
           v = skipped(f.moments, n, 5, 1e-5, 1.1e-5), *values = f.master ? &master : &w;
    adamw_operands o = { .scalars = scalars_tensor(scalar),
                         .gradient = g.t,
                         .weight = w.t,
                         .master = f.master ? master.t : tensor_none(),
                         .first = m.t,
                         .second = v.t };
    RUN_OP(adamw_op(&o, (adamw_rule){ 0.9f, 0.95f, 1e-5f, 0.1f }));
    for (int64_t i = 0; i < n; i++) {
        double gradient = g.value[i] * 0.37;
        m.value[i] = (double)0.9f * m.value[i] + (double)(1.0f - 0.9f) * gradient;
        v.value[i] = (double)0.95f * v.value[i] + (double)(1.0f - 0.95f) * gradient * gradient;
        double step = m.value[i] * scalar[SCALAR_CORRECTION1] / (sqrt(v.value[i] * scalar[SCALAR_CORRECTION2]) + 1e-5);
        values->value[i] -= 1e-3 * (step + (double)0.1f * values->value[i]);
    }
    compare("first moment", &m, m.value, rounding(f.moments), 4 * F32_ROUND * 1e-2);
    compare("second moment", &v, v.value, rounding(f.moments) + 4 * F32_ROUND, 0);
    compare("weight", values, values->value, rounding(values->t.type) + F32_ROUND, 16 * F32_ROUND * 1e-2);
    for (int64_t i = 0; f.master && i < n; i++)
        assert_true(element(&w.t, i) == as_type(f.weight, element(&master.t, i)));
    release();
}

static void adamw_updates(void **state)
{
    static const adamw_formats formats[] = { { F32, F32, F32, false },
                                             { BF16, BF16, F32, true },
                                             { F32, BF16, F32, true },
                                             { BF16, BF16, BF16, false },
                                             { F32, F32, F32, true } };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int n = 0; n < 3; n++) check_adamw(formats[i], (int64_t[]){ 7, 37, 5000 }[n]);
}

/* ---- initial weights and tokens, against Philox as in the paper ---- */

static void round_of(uint32_t c[4], const uint32_t k[2])
{
    uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                         (uint32_t)a };
    memcpy(c, next, sizeof next);
}

static void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (uint32_t r = 0; r < 10; r++) round_of(c, (uint32_t[]){ k0 + r * 0x9E3779B9u, k1 + r * 0xBB67AE85u });
}

static double normal_at(uint32_t key, int64_t index, double std)
{
    uint32_t c[4] = { (uint32_t)index, (uint32_t)(index >> 32), 0, 0 };
    int64_t sum = -262140;
    philox(c, 1234, key);
    for (int i = 0; i < 4; i++) sum += (c[i] & 0xFFFF) + (c[i] >> 16);
    return (double)((float)sum * (float)(std / sqrt(8.0 * (65536.0 * 65536.0 - 1.0) / 12.0)));
}

/* A rank's window of a matrix; the matrix ends inside the window. */
static void check_initialize(dtype type, int64_t rows, int64_t columns, initialize_args args)
{
    sample x = SAMPLE(type, 0, rows, columns);
    RUN_OP(initialize_op(x.t, &args));
    for (int64_t i = 0; i < x.elements; i++) {
        int64_t row = args.first_row + i / columns, column = args.first_column + i % columns;
        bool inside = row < args.rows && column < args.columns;
        x.value[i] = inside ? as_type(type, normal_at(args.key, row * args.columns + column, 0.02)) : 0.0;
    }
    compare_exactly("initialize", &x);
    release();
}

static void first_weights(void **state)
{
    initialize_args args = {
        .seed = 1234, .key = fnv1a("layers.0.q"), .scale = normal_scale(0.02), .rows = 40, .columns = 70
    };
    for (dtype type = F32; type <= BF16; type++) {
        check_initialize(type, 40, 70, args);
        args.first_row = 30, args.first_column = 64;
        check_initialize(type, 12, 9, args);
        args.first_row = 50, args.first_column = 0;
        check_initialize(type, 3, 70, args);
        args.rows = 1 << 20, args.columns = 1 << 16, args.first_row = 70000; /* indices above 32 bits */
        check_initialize(type, 2, 1500, args);
        args.rows = 40, args.columns = 70, args.first_row = 0;
    }
}

static uint32_t draw(uint32_t a, uint32_t b, uint32_t c, uint32_t d, int word, uint32_t below)
{
    uint32_t counter[4] = { a, b, c, d };
    philox(counter, 1234, fnv1a("tokens"));
    return (uint32_t)((uint64_t)counter[word] * below >> 32);
}

static void run_tokens(tokens_args args, int64_t step, sample *token, sample *label)
{
    double scalar[STEP_SCALARS] = { [SCALAR_STEP] = (double)step };
    RUN_OP(tokens_op(scalars_tensor(scalar), token->t, label->t, &args));
    sample_read(token);
    sample_read(label);
}

static void tokens_uniform(void **state)
{
    sample token = SAMPLE(I32, 0, 50, 3), label = SAMPLE(I32, 0, 50, 3);
    for (int next = 0; next < 2; next++) {
        run_tokens(
            (tokens_args){
                .kind = TOKENS_UNIFORM, .labels_next = next, .seed = 1234, .vocabulary = 1000, .first_sample = 17 },
            5, &token, &label);
        for (uint32_t p = 0; p < 50; p++)
            for (uint32_t b = 0; b < 3; b++) {
                assert_true(token.value[p * 3 + b] == draw(p, 17 + b, 5, 0, 0, 1000));
                assert_true(label.value[p * 3 + b] ==
                            (next ? draw(p + 1, 17 + b, 5, 0, 0, 1000) : draw(p, 17 + b, 5, 0, 1, 1000)));
            }
    }
    release();
}

static void tokens_ramp(void **state)
{
    enum { LENGTH = 9000, VOCABULARY = 500 };
    static double row[LENGTH + 5000];
    sample token = SAMPLE(I32, 0, LENGTH, 2), label = SAMPLE(I32, 0, LENGTH, 2);
    run_tokens(
        (tokens_args){
            .kind = TOKENS_RAMP, .labels_next = true, .seed = 1234, .vocabulary = VOCABULARY, .first_sample = 3 },
        2, &token, &label);
    for (uint32_t b = 0; b < 2; b++) {
        int64_t filled = 0;
        for (uint32_t document = 0; filled <= LENGTH; document++) {
            int64_t length = 1 + draw(document, 3 + b, 2, 1, 0, 4096);
            for (int64_t i = 0; i < length - 1; i++) row[filled++] = (double)(1 + i % (VOCABULARY - 2));
            row[filled++] = VOCABULARY - 1;
        }
        for (int64_t p = 0; p < LENGTH; p++)
            assert_true(token.value[2 * p + b] == row[p] && label.value[2 * p + b] == row[p + 1]);
    }
    run_tokens((tokens_args){ .kind = TOKENS_ZEROS, .seed = 1234, .vocabulary = VOCABULARY, .first_sample = 3 }, 2,
               &token, &label);
    for (int64_t i = 0; i < token.elements; i++) assert_true(token.value[i] == 0.0 && label.value[i] == 0.0);
    tokens_args far = { .kind = TOKENS_RAMP, .labels_next = true, .seed = 1234, .vocabulary = VOCABULARY };
    /* past the documents that a block of a GPU places at a time: compared with the host */
    far.place = (position_args){ 1000003, 0 };
    run_tokens(far, 2, &token, &label);
    release();
}

OPERATIONS_PROGRAM("operations_exact", true, squares, squares_tie, squares_flag, digests, signed_sums, clips,
                   learning_rates, learning_rate_corners, adamw_updates, first_weights, tokens_uniform, tokens_ramp)
