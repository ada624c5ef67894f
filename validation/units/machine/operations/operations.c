/* Norms, rotation, embedding, activations and sums of columns: rows of trial.h. The rows that are `encoded` also write
 * their output as FP8 values, and give bitwise the same as the operation followed by quantize on the same machine. */
#include "encoded.h"
#include "trial.h"

/* ---- norms; in: x, gain, delta, bias; out: out, rstd, sum, mean ---- */

static op norm(const views *v)
{
    return norm_forward_op((norm_forward_operands){ .x = v->in[0],
                                                    .gain = v->in[1],
                                                    .delta = v->in[2],
                                                    .bias = v->in[3],
                                                    .out = v->out[0],
                                                    .rstd = v->out[1],
                                                    .sum = v->out[2],
                                                    .mean = v->out[3] },
                           1e-5f);
}

static op d_norm(const views *v)
{
    return norm_backward_op((norm_backward_operands){ .d_out = v->d_out,
                                                      .x = v->in[0],
                                                      .rstd = v->out[1],
                                                      .mean = v->out[3],
                                                      .gain = v->in[1],
                                                      .dx = v->d_in[0],
                                                      .gain_gradient = v->d_in[1],
                                                      .bias_gradient = v->d_in[3],
                                                      .dx_access = v->how,
                                                      .gain_access = v->how,
                                                      .bias_access = v->how });
}

/* With delta, the sum is rounded once, and the norm is that of the rounded sum. */
static void norm_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t row = 0; row < n[0]; row++) {
        double *x = in[2] ? out[2] + row * n[1] : in[0] + row * n[1], sum = 0.0, squares = 0.0, mean = 0.0;
        for (int64_t i = row * n[1]; in[2] && i < (row + 1) * n[1]; i++)
            out[2][i] = (double)rounded(type, (float)(in[0][i] + in[2][i]));
        for (int64_t i = 0; in[3] && i < n[1]; i++) sum += x[i];
        if (in[3]) mean = out[3][row] = sum / (double)n[1];
        for (int64_t i = 0; i < n[1]; i++) squares += (x[i] - mean) * (x[i] - mean);
        double rstd = out[1][row] = 1.0 / sqrt(squares / (double)n[1] + 1e-5);
        for (int64_t i = 0; i < n[1]; i++)
            out[0][row * n[1] + i] = (x[i] - mean) * rstd * (in[1][i] + (in[3] != NULL)) + (in[3] ? in[3][i] : 0.0);
    }
}

/* ---- rotation and embedding ---- */

/* The table need not hold true angles. */
static op rope(const views *v) { return rope_forward_op(v->out[0], v->in[1]); }
static op d_rope(const views *v) { return rope_backward_op(v->d_in[0], v->in[1]); }

static void rope_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    int64_t half = n[3], rows = n[1] * n[2];
    for (int64_t row = 0; row < n[0] * rows; row++)
        for (int64_t i = 0; i < half; i++) {
            const double *pair = in[1] + (row / rows * half + i) * 2, *x = in[0] + row * 2 * half + i;
            out[0][row * 2 * half + i] = x[0] * pair[0] - x[half] * pair[1];
            out[0][row * 2 * half + i + half] = x[half] * pair[0] + x[0] * pair[1];
        }
}

/* Axes: s, b, h, v rows held, f first row held, p positions. Tokens go beyond both ends of the rows. The second half of
 * the s positions starts 3 further. column_sums computes the positions' gradient. */
static op embedding(const views *v)
{
    embedding_args args = { .first = v->n[4] };
    if (v->in[2].dims) args.place = (position_args){ v->n[5] - v->n[0] - 3, 3 };
    return embedding_forward_op((embedding_forward_operands){ v->in[0], v->in[1], v->out[0], v->in[2] }, args);
}

static op d_embedding(const views *v) { return embedding_backward_op(v->in[0], v->d_out, v->d_in[1], v->how, v->n[4]); }

static void embedding_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++)
        for (int64_t k = 0; k < n[2]; k++) {
            int64_t row = (int64_t)in[0][i] - n[4], place = n[5] - n[0] - 3 + i / n[1] + 3 * (i / n[1] >= n[0] / 2);
            bool held = row >= 0 && row < n[3];
            out[0][i * n[2] + k] = held ? in[1][row * n[2] + k] + (in[2] ? in[2][place * n[2] + k] : 0.0) : 0.0;
        }
}

/* ---- activations ---- */

static op swiglu(const views *v) { return swiglu_forward_op(v->in[0], v->out[0]); }
static op d_swiglu(const views *v) { return swiglu_backward_op(v->in[0], v->d_out, v->d_in[0]); }
static op geglu(const views *v) { return geglu_forward_op(v->in[0], v->out[0]); }
static op d_geglu(const views *v) { return geglu_backward_op(v->in[0], v->d_out, v->d_in[0]); }
static op gelu(const views *v) { return gelu_forward_op(v->in[0], v->in[1], v->out[0]); }
static op squared_relu(const views *v) { return squared_relu_forward_op(v->in[0], v->out[0]); }
static op d_squared_relu(const views *v) { return squared_relu_backward_op(v->in[0], v->d_out, v->d_in[0]); }

static op d_gelu(const views *v)
{
    return gelu_backward_op((gelu_backward_operands){ v->in[0], v->in[1], v->d_out, .dx = v->d_in[0],
                                                      .bias_gradient = v->d_in[1], .bias_access = v->how });
}

static double silu_of(double x) { return x / (1.0 + exp(-x)); }
static double gelu_of(double x) { return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x))); }

static void gated(const int64_t *n, double (*value)(double), const double *x, double *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++) {
        int64_t gate = i / n[1] * 2 * n[1] + i % n[1];
        out[i] = value(x[gate]) * x[gate + n[1]];
    }
}

static void swiglu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    gated(n, silu_of, in[0], out[0]);
}

static void geglu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    gated(n, gelu_of, in[0], out[0]);
}

static void gelu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++) out[0][i] = gelu_of(in[0][i] + in[1][i % n[1]]);
}

static void squared_relu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++) out[0][i] = fmax(in[0][i], 0.0) * fmax(in[0][i], 0.0);
}

/* The gradient of numbers that are added to each row of a group. */
static op column_sums(const views *v) { return column_sums_op(v->d_out, v->d_in[0], v->how); }

static void column_sums_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) out[0][i] = in[0][i / n[2] / n[1] * n[2] + i % n[2]];
}

#define NORM_SHAPES                                                                                                    \
    { 5, 7 }, { 33, 256 }, { 70, 1000 }, { 3, 2500 }, { 1, 16 }, { 300, 16 }, { 2, 4104 }, { 3, 8200 }, { 2, 18432 }
#define SUM_SHAPES                                                                                                     \
    { 5, 7 }, { 9, 512 }, { 3, 2500 }, { 2, 18432 }

/* Roundings. A sum of up to 1024 squares has an error of 60 roundings if the compiler does not vectorize (measured;
 * BF16 numbers round mostly one way); the CUDA machine adds chains of at most 72 terms in pairs. The square root halves
 * the error of a norm; division, root and products add five. A gradient has two such sums. The mean of LayerNorm, here
 * half of the largest deviation (of an added one: all of it), adds 60 of itself, 30 (60) of the largest result; its
 * gradient has a third sum, and other steps add a dozen. exp_shared has 5 roundings, plus |argument|. */
static const operation list[] = {
    ROW("norm", "rh", norm, d_norm, norm_reference, .in = { { "T~rh", 'T' }, { "T.h", 'F', .offset = 1 } },
        .out = { { "T~rh" }, { "F.r" } }, .updates = true, .encoded = true, .forward_roundings = 36,
        .backward_roundings = 96, .shape = { NORM_SHAPES }),
    ROW("layer_norm", "rh", norm, d_norm, norm_reference,
        .in = { { "T~rh", 'T', .offset = 0.5 }, { "T.h", 'F' }, { NULL }, { "T.h", 'F' } },
        .out = { { "T~rh" }, { "F.r" }, { NULL }, { "F.r" } }, .updates = true, .forward_roundings = 72,
        .backward_roundings = 192, .shape = { NORM_SHAPES }),
    ROW("added_norm", "rh", norm, NULL, norm_reference,
        .in = { { "T~rh", .offset = 0.5 }, { "T.h", .offset = 1 }, { "T~rh", .offset = 0.5 } },
        .out = { { "T~rh" }, { "F.r" }, { "T^rh", .exact = true } }, .encoded = true, .beside = true,
        .forward_roundings = 36, .shape = { SUM_SHAPES }),
    ROW("added_layer_norm", "rh", norm, NULL, norm_reference,
        .in = { { "T~rh", .offset = 0.5 }, { "T.h" }, { "T.rh", .offset = 0.5 }, { "T.h" } },
        .out = { { "T~rh" }, { "F.r" }, { "T^rh", .exact = true }, { "F.r" } }, .encoded = true, .beside = true,
        .forward_roundings = 104, .shape = { SUM_SHAPES }),
    ROW("rope", "sbhn", rope, d_rope, rope_reference, .in = { { "T~sbhN", 'T' }, { "F.sn2" } }, .out = { { "T~sbhN" } },
        .in_place = true, .forward_roundings = 4, .backward_roundings = 4,
        .shape = { { 5, 2, 3, 3 }, { 17, 1, 4, 32 }, { 1, 1, 1, 1 }, { 2, 1, 1, 128 } }),
    ROW("embedding", "sbhvf", embedding, d_embedding, embedding_reference,
        .in = { { "I.sb", .below = "vff" }, { "T~vh", 'T' } }, .out = { { "T~sbh" } }, .updates = true,
        .backward_roundings = 8, .shape = { { 6, 2, 5, 4, 0 }, { 40, 1, 1100, 30, 3 }, { 30, 3, 16, 2, 5 } }),
    ROW("positions", "sbhvfp", embedding, NULL, embedding_reference,
        .in = { { "I.sb", .below = "vff" }, { "T~vh" }, { "T~ph" } }, .out = { { "T~sbh" } },
        .shape = { { 6, 2, 5, 4, 0, 9 }, { 40, 1, 1100, 30, 3, 50 }, { 30, 3, 16, 2, 5, 34 } }),
    ROW("swiglu", "rf", swiglu, d_swiglu, swiglu_reference, .in = { { "T~rF", 'T' } }, .out = { { "T~rf" } },
        .encoded = true, .forward_roundings = 16, .backward_roundings = 24,
        .shape = { { 5, 7 }, { 16, 256 }, { 2, 2100 } }),
    ROW("geglu", "rf", geglu, d_geglu, geglu_reference, .in = { { "T~rF", 'T' } }, .out = { { "T~rf" } },
        .encoded = true, .forward_roundings = 16, .backward_roundings = 24,
        .shape = { { 5, 7 }, { 16, 256 }, { 2, 2100 } }),
    ROW("gelu", "rf", gelu, d_gelu, gelu_reference, .in = { { "T~rf", 'T', .overwritten = true }, { "T.f", 'F' } },
        .out = { { "T~rf" } }, .updates = true, .encoded = true, .forward_roundings = 24, .backward_roundings = 48,
        .shape = { { 5, 7 }, { 16, 256 }, { 2, 2100 }, { 300, 48 }, { 70, 1031 } }),
    ROW("squared_relu", "rf", squared_relu, d_squared_relu, squared_relu_reference, .in = { { "T.rf", 'T' } },
        .out = { { "T.rf" } }, .encoded = true, .forward_roundings = 1, .backward_roundings = 2,
        .shape = { { 1, 1 }, { 1, 7 }, { 2, 2048 }, { 1, 8193 } }),
    ROW("column_sums", "gmh", NULL, column_sums, column_sums_reference, .in = { { "F.gh", 'F' } },
        .out = { { "T~gmh" } }, .updates = true, .backward_roundings = 40,
        .shape = { { 1, 5, 7 }, { 1, 300, 48 }, { 6, 2, 1100 }, { 3, 1, 16 }, { 2, 130, 72 } }),
};
enum { ROWS = sizeof list / sizeof *list };

/* ---- encoding ---- */

/* groups 0: the transposed copy is one matrix. gap: as a trial's. */
typedef struct {
    int64_t n[2], groups, gap;
} encoded_shape;
static const encoded_shape encoded_shapes[] = { { { 1, 8 }, 0, 0 },     { { 5, 7 }, 0, 3 },    { { 48, 64 }, 0, 0 },
                                                { { 150, 136 }, 0, 8 }, { { 130, 70 }, 0, 5 }, { { 6, 33 }, 3, 1 },
                                                { { 268, 72 }, 4, 0 } };
enum { ENCODED_SHAPES = sizeof encoded_shapes / sizeof *encoded_shapes };

/* Sets magnitudes below and above the FP8 range, zeros of both signs, and NaN and infinity unless all_numbers. */
static void set_wide(sample *x, uint32_t number, bool all_numbers)
{
    static const double no_number[] = { (double)NAN, (double)INFINITY, (double)-INFINITY };
    for (int64_t i = 0; i < x->elements; i++) {
        double value = random_value(number, i) * exp2(floor(12 * random_value(number + 100, i)));
        if (i % 13 == 5) value = i % 2 ? 0.0 : -0.0;
        if (!all_numbers && i % 97 == 3) value = no_number[i % 3];
        element_set(&x->t, i, value);
    }
}

static void needs_no_scratch(op o)
{
    preparation noted = { .notes = 0 };
    pass p = pass_open(0, &noted);
    submit_op(p.queue, o);
    pass_close(&p, &noted);
    assert_int_equal(noted.scratch[0], 0);
    preparation_free(&noted);
}

static trial encoded_trial(const operation *o, const encoded_shape *s, bool all_numbers)
{
    trial t = trial_open(o, s->n, BF16, s->gap);
    for (uint32_t i = 0; i < TENSORS; i++) set_wide(&t.in[i], i, all_numbers), set_wide(&t.out[i], i + 4, all_numbers);
    set_wide(&t.d_out, 9, all_numbers);
    return t;
}

/* Compares an operation that encodes with one that is quantized afterwards. Other results are equal, too. Sums over
 * rows need scratch, values alone do not. */
static void check_encoded(const operation *o, bool backward, const encoded_shape *s, int parts, bool all_numbers)
{
    trial apart = encoded_trial(o, s, all_numbers), together = encoded_trial(o, s, all_numbers);
    sample *values = backward ? apart.d_in : apart.out, *others = backward ? together.d_in : together.out;
    encoded a = encoded_open(values[0].t, s->groups, backward ? E5M2 : E4M3, 3.7f, 1),
            b = encoded_open(values[0].t, s->groups, backward ? E5M2 : E4M3, 3.7f, 1);
    views v = views_of(&apart, WRITE), w = views_of(&together, WRITE);
    op (*filled)(const views *) = backward ? o->backward : o->forward;
    RUN(q, submit_op(q, filled(&v)), submit_op(q, quantize_op(values[0].t, encoding_of(&a, parts))));
    RUN_OP(encode_op(filled(&w), encoding_of(&b, parts)));
    if (!(backward && o->in[1].gradient) && tested_machine() == MACHINE_CUDA)
        needs_no_scratch(encode_op(filled(&w), encoding_of(&b, parts)));
    encoded_compare(o->name, &a, &b);
    for (int i = 1; i < TENSORS; i++)
        if (values[i].bytes) assert_memory_equal(values[i].memory, others[i].memory, values[i].bytes);
    release();
}

static void encodes(void **state)
{
    for (int row = 0; row < 2 * ROWS; row++) {
        const operation *o = &list[row / 2];
        bool backward = row % 2;
        if (!o->encoded || (backward && !o->backward)) continue;
        for (int i = 0; i < ENCODED_SHAPES; i++) check_encoded(o, backward, &encoded_shapes[i], PARTS - 1, i % 2);
        for (int parts = 0; parts < PARTS - 1; parts++)
            if (parts & (CODES | TRANSPOSED))
                check_encoded(o, backward, &encoded_shapes[2 + parts % 2 * 4], parts, true);
    }
}

/* [s, b, heads, d]: rotates the first `rotated` heads, the first `width` channels of each. */
typedef struct {
    int64_t s, b, heads, d, rotated, width;
} rotation;

static tensor rotated_of(tensor whole, const rotation *r)
{
    return tensor_slice(tensor_slice(whole, 2, 0, r->rotated), 3, 0, r->width);
}

static void check_rotation(const rotation *r, dtype type, int parts)
{
    sample x = SAMPLE(BF16, 0, r->s, r->b, r->heads, r->d), copy = SAMPLE(BF16, 0, r->s, r->b, r->heads, r->d),
           table = drawn(SAMPLE(F32, 0, r->s, r->width / 2, 2), 2, 1.0, 0.0);
    tensor rows = tensor_2d(copy.memory, BF16, r->s * r->b, r->heads * r->d);
    encoded apart = encoded_open(rows, 0, type, 3.7f, 1), together = encoded_open(rows, 0, type, 3.7f, 1);
    set_wide(&x, 1, true);
    memcpy(copy.memory, x.memory, x.bytes);
    op o = encode_rotated_op(rope_backward_op(rotated_of(x.t, r), table.t), x.t, encoding_of(&together, parts));
    RUN_OP(o);
    assert_memory_equal(copy.memory, x.memory, x.bytes);
    if (type == E5M2 && r->width == r->d && r->d % 16 == 0 && tested_machine() == MACHINE_CUDA) needs_no_scratch(o);
    RUN_OP(rope_backward_op(rotated_of(copy.t, r), table.t));
    RUN_OP(quantize_op(rows, encoding_of(&apart, parts)));
    encoded_compare("rope", &apart, &together);
    release();
}

static void encodes_what_is_rotated(void **state)
{
    static const rotation all[] = { { 1, 1, 1, 2, 1, 2 },       { 5, 2, 3, 16, 2, 16 }, { 33, 2, 6, 64, 5, 64 },
                                    { 70, 1, 4, 128, 3, 128 },  { 9, 3, 3, 48, 3, 16 }, { 20, 1, 4, 24, 2, 24 },
                                    { 140, 1, 2, 256, 1, 256 }, { 16, 2, 3, 32, 3, 32 } };
    for (int i = 0; i < 8; i++) {
        check_rotation(&all[i], E5M2, PARTS - 1);
        check_rotation(&all[i], E4M3, PARTS - 1);
    }
    for (int parts = 0; parts < PARTS; parts++)
        if (parts & (CODES | TRANSPOSED)) check_rotation(&all[2], E5M2, parts);
}

int main(int argc, char **argv)
{
    TESTS(encoders, encodes, encodes_what_is_rotated);
    return check_rows(argc, argv, "operations", list, ROWS, encoders, 2);
}
