/* The list of operations with a backward (except operations_activations.c): how each one is described, its simple
 * version in double, and how it is submitted. FP32 and BF16, odd sizes, rows with gaps. trial.h tests them. */
#include "trial.h"

/* shape: rows, h */
static void norm_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] = (spec){ DTYPES, 2, { n[0], n[1] }, .gaps = true, .differentiate = true, .gradient_type = DTYPES };
    in[1] = (spec){ DTYPES, 1, { n[1] }, .differentiate = true, .offset = 1.0, .gradient_type = F32 };
    out[0] = (spec){ DTYPES, 2, { n[0], n[1] }, .gaps = true };
    out[1] = (spec){ F32, 1, { n[0] }, .gaps = false };
}

static void norm_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t row = 0; row < n[0]; row++) {
        const double *x = in[0] + row * n[1];
        double sum = 0.0;
        for (int64_t i = 0; i < n[1]; i++) sum += x[i] * x[i];
        double rstd = out[1][row] = 1.0 / sqrt(sum / (double)n[1] + 1e-5);
        for (int64_t i = 0; i < n[1]; i++) out[0][row * n[1] + i] = x[i] * rstd * in[1][i];
    }
}

static void norm_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "norm",
           norm_forward_op((norm_forward_operands){ .x = in[0], .gain = in[1], .out = out[0], .rstd = out[1] }, 1e-5f));
}

static void norm_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                              const tensor *d_in, access_mode how)
{
    submit(q, "d_norm",
           norm_backward_op((norm_backward_operands){ .d_out = d_out,
                                                      .x = in[0],
                                                      .rstd = out[1],
                                                      .gain = in[1],
                                                      .dx = d_in[0],
                                                      .gain_gradient = d_in[1],
                                                      .dx_access = how,
                                                      .gain_access = how }));
}

/* shape: rows, h; x of mean 0.5 */
static void layer_norm_describe(const int64_t *n, spec *in, spec *out)
{
    norm_describe(n, in, out);
    in[0].offset = 0.5;
    in[1].offset = 0.0;
    in[2] = in[1];
    out[2] = out[1];
}

static void layer_norm_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t row = 0; row < n[0]; row++) {
        const double *x = in[0] + row * n[1];
        double sum = 0.0, squares = 0.0;
        for (int64_t i = 0; i < n[1]; i++) sum += x[i];
        double mean = out[2][row] = sum / (double)n[1];
        for (int64_t i = 0; i < n[1]; i++) squares += (x[i] - mean) * (x[i] - mean);
        double rstd = out[1][row] = 1.0 / sqrt(squares / (double)n[1] + 1e-5);
        for (int64_t i = 0; i < n[1]; i++) out[0][row * n[1] + i] = (x[i] - mean) * rstd * (1.0 + in[1][i]) + in[2][i];
    }
}

static void layer_norm_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "layer_norm",
           norm_forward_op(
               (norm_forward_operands){
                   .x = in[0], .gain = in[1], .bias = in[2], .out = out[0], .rstd = out[1], .mean = out[2] },
               1e-5f));
}

static void layer_norm_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                                    const tensor *d_in, access_mode how)
{
    submit(q, "d_layer_norm",
           norm_backward_op((norm_backward_operands){ .d_out = d_out,
                                                      .x = in[0],
                                                      .rstd = out[1],
                                                      .mean = out[2],
                                                      .gain = in[1],
                                                      .dx = d_in[0],
                                                      .gain_gradient = d_in[1],
                                                      .bias_gradient = d_in[2],
                                                      .dx_access = how,
                                                      .gain_access = how,
                                                      .bias_access = how }));
}

/* shape: s, b, heads, d. The table need not hold true angles. */
static void rope_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] =
        (spec){ DTYPES, 4, { n[0], n[1], n[2], n[3] }, .gaps = true, .differentiate = true, .gradient_type = DTYPES };
    in[1] = (spec){ F32, 3, { n[0], n[3] / 2, 2 }, .gaps = false };
    out[0] = (spec){ DTYPES, 4, { n[0], n[1], n[2], n[3] }, .gaps = true };
}

static void rope_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    int64_t half = n[3] / 2, rows = n[1] * n[2];
    for (int64_t row = 0; row < n[0] * rows; row++)
        for (int64_t i = 0; i < half; i++) {
            const double *pair = in[1] + (row / rows * half + i) * 2, *x = in[0] + row * n[3] + i;
            out[0][row * n[3] + i] = x[0] * pair[0] - x[half] * pair[1];
            out[0][row * n[3] + i + half] = x[half] * pair[0] + x[0] * pair[1];
        }
}

static void rope_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "rope", rope_forward_op(out[0], in[1]));
}

/* d_in[0] starts as d_out. */
static void rope_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                              const tensor *d_in, access_mode how)
{
    submit(q, "d_rope", rope_backward_op(d_in[0], in[1]));
}

/* shape: s, b, heads, kv_heads, d, t; t = 0: causal, over as many keys as queries */
static bool is_causal(const int64_t *n) { return n[5] <= 0; }
static int64_t key_count(const int64_t *n) { return n[5] ? llabs(n[5]) : n[0]; }

/* Returns whether own attention needs more than 99 KiB of shared memory per block. */
static bool attention_is_large(const int64_t *n, dtype type) { return n[4] > (type == BF16 ? 192 : 128); }

static void attention_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] =
        (spec){ DTYPES, 4, { n[0], n[1], n[2], n[4] }, .gaps = true, .differentiate = true, .gradient_type = DTYPES };
    in[1] = in[2] = (spec){
        DTYPES, 4, { key_count(n), n[1], n[3], n[4] }, .gaps = true, .differentiate = true, .gradient_type = DTYPES
    };
    out[0] = in[0];
    out[1] = (spec){ F32, 3, { n[1], n[2], n[0] }, .gaps = false };
}

/* Keys of several ranks: their gradients are FP32 and may be added to. Statistics have gaps. */
static void attention_part_describe(const int64_t *n, spec *in, spec *out)
{
    attention_describe(n, in, out);
    in[0].overwritten = true;
    in[1].gradient_type = in[2].gradient_type = F32;
    out[1].gaps = true;
}

static double attention_score(const int64_t *n, const double *q, const double *k)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n[4]; i++) sum += q[i] * k[i];
    return sum / sqrt((double)n[4]);
}

/* One query of one head over the first keys; computes out and lse. */
static double attention_row(const int64_t *n, int64_t keys, const double *q, const double *k, const double *v,
                            double *out)
{
    int64_t stride = n[1] * n[3] * n[4];
    double total = 0.0;
    memset(out, 0, (size_t)n[4] * sizeof *out);
    for (int64_t key = 0; key < keys; key++) {
        double p = exp(attention_score(n, q, k + key * stride));
        total += p;
        for (int64_t i = 0; i < n[4]; i++) out[i] += p * v[key * stride + i];
    }
    for (int64_t i = 0; i < n[4]; i++) out[i] /= total;
    return log(total);
}

static void attention_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t position = 0; position < n[0]; position++)
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t head = 0; head < n[2]; head++) {
                int64_t at = ((position * n[1] + b) * n[2] + head) * n[4],
                        kv = (b * n[3] + head / (n[2] / n[3])) * n[4];
                int64_t keys = is_causal(n) ? position + 1 + key_count(n) - n[0] : key_count(n);
                out[1][(b * n[2] + head) * n[0] + position] =
                    attention_row(n, keys, in[0] + at, in[1] + kv, in[2] + kv, out[0] + at);
            }
}

static attention_args attention_args_of(const int64_t *n)
{
    return (attention_args){ (float)(1.0 / sqrt((double)n[4])), is_causal(n) };
}

static void attention_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "attention",
           attention_forward_op((attention_forward_operands){ in[0], in[1], in[2], out[0], out[1] },
                                attention_args_of(n)));
}

static void attention_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                                   const tensor *d_in, access_mode how)
{
    submit(q, "d_attention",
           attention_backward_op((attention_backward_operands){ in[0], in[1], in[2], out[0], out[1], d_out, d_in[0],
                                                                d_in[1], d_in[2], how },
                                 attention_args_of(n)));
}

/* shape: s, b, h, rows held, first row held; tokens go beyond both ends */
static void embedding_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] = (spec){ I32, 2, { n[0], n[1] }, .below = n[3] + 2 * n[4] };
    in[1] = (spec){ DTYPES, 2, { n[3], n[2] }, .gaps = true, .differentiate = true, .gradient_type = DTYPES };
    out[0] = (spec){ DTYPES, 3, { n[0], n[1], n[2] }, .gaps = true };
}

static void embedding_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++)
        for (int64_t k = 0; k < n[2]; k++) {
            int64_t row = (int64_t)in[0][i] - n[4];
            out[0][i * n[2] + k] = row >= 0 && row < n[3] ? in[1][row * n[2] + k] : 0.0;
        }
}

static void embedding_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "embedding",
           embedding_forward_op((embedding_forward_operands){ in[0], in[1], out[0], tensor_none() },
                                (embedding_args){ .first = n[4] }));
}

static void embedding_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                                   const tensor *d_in, access_mode how)
{
    submit(q, "d_embedding", embedding_backward_op(in[0], d_out, d_in[1], how, n[4]));
}

/* Embedding with positions: the second half of the s local positions starts 3 further; shape[5]: the first position.
 * column_sums computes their gradient. */
static void places_describe(const int64_t *n, spec *in, spec *out)
{
    embedding_describe(n, in, out);
    in[1].differentiate = false;
    in[2] = (spec){ DTYPES, 2, { n[5] + n[0] + 3, n[2] }, .gaps = true };
}

static void places_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    embedding_reference(n, type, in, out);
    for (int64_t i = 0; i < n[0] * n[1]; i++)
        for (int64_t k = 0; k < n[2]; k++) {
            int64_t row = (int64_t)in[0][i] - n[4], place = n[5] + i / n[1] + (i / n[1] >= n[0] / 2 ? 3 : 0);
            if (row >= 0 && row < n[3]) out[0][i * n[2] + k] += in[2][place * n[2] + k];
        }
}

static void places_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "embedding",
           embedding_forward_op((embedding_forward_operands){ in[0], in[1], out[0], in[2] },
                                (embedding_args){ .first = n[4], .place = { n[5], 3 } }));
}

/* Roundings. A sum of up to 1024 squares has an error of 60 roundings if the compiler does not vectorize (measured;
 * BF16 numbers round mostly one way); the CUDA machine adds chains of at most 72 terms in pairs. The square root halves
 * the error of a norm; division, root and products add five. A gradient has two such sums. The mean of LayerNorm, here
 * half of the largest deviation, adds 60 of itself, 30 of the largest result; its gradient has a third sum, and other
 * steps add a dozen. exp_shared has 5 roundings, plus at most |score| of its argument. Attention divides sums of up to
 * s terms. On tensor cores the weights P = e^(score - maximum) are rounded to BF16, but not their sum: the error of out
 * is at most sum P |v| / sum P <= max |v| roundings. The errors of gradients are roots of sums of squares: P |d_out|
 * (dv; for the first key, seen by all queries, sum P^2 <= pi^2 / 6 per head), |dS| |k| (dq), |dS| |q| (dk): four
 * roundings of the largest gradient cover them (measured: at most 1.0). */
static const operation list[] = {
    OPERATION("norm", norm, norm, .inputs = 2, .outputs = 2, .updates = true, .forward_roundings = 36,
              .backward_roundings = 96,
              .shape = { { 5, 7 },
                         { 33, 256 },
                         { 70, 1000 },
                         { 3, 2500 },
                         { 1, 16 },
                         { 300, 16 },
                         { 2, 4104 },
                         { 3, 8200 },
                         { 2, 18432 } }),
    OPERATION("layer_norm", layer_norm, layer_norm, .inputs = 3, .outputs = 3, .updates = true, .forward_roundings = 72,
              .backward_roundings = 192,
              .shape = { { 5, 7 },
                         { 33, 256 },
                         { 70, 1000 },
                         { 3, 2500 },
                         { 1, 16 },
                         { 300, 16 },
                         { 2, 4104 },
                         { 3, 8200 },
                         { 2, 18432 } }),
    OPERATION("rope", rope, rope, .inputs = 2, .outputs = 1, .in_place = 1, .forward_roundings = 4,
              .backward_roundings = 4, .shape = { { 5, 2, 3, 6 }, { 17, 1, 4, 64 }, { 1, 1, 1, 2 }, { 2, 1, 1, 256 } }),
    OPERATION("attention", attention, attention, .is_large = attention_is_large, .inputs = 3, .outputs = 2,
              .forward_roundings = 24, .backward_roundings = 60, .backward_bf16 = 4, .weights_bf16 = 1,
              .shape = { { 70, 2, 4, 2, 6 },
                         { 130, 1, 2, 1, 18 },
                         { 64, 1, 2, 2, 64 },
                         { 1, 1, 1, 1, 2 },
                         { 20, 1, 3, 1, 256 },
                         { 66, 1, 2, 1, 128 },
                         { 34, 1, 2, 1, 192 } }),
    OPERATION("attention_part", attention_part, attention, .is_large = attention_is_large, .inputs = 3, .outputs = 2,
              .updates = true, .forward_roundings = 24, .backward_roundings = 60, .backward_bf16 = 4, .weights_bf16 = 1,
              .shape = { { 70, 2, 4, 2, 6, 40 },
                         { 30, 1, 2, 1, 18, 130 },
                         { 20, 1, 3, 1, 256, 1 },
                         { 70, 2, 4, 2, 6, -75 },
                         { 30, 1, 2, 1, 18, -130 },
                         { 1, 1, 2, 1, 2, -65 },
                         { 17, 1, 2, 1, 128, -66 },
                         { 66, 1, 1, 1, 192, -200 },
                         { 20, 1, 3, 1, 256, -20 } }),
    { "positions", .inputs = 3, .outputs = 1, .describe = places_describe, .reference = places_reference,
      .forward = places_run, .shape = { { 6, 2, 5, 4, 0, 0 }, { 40, 1, 1100, 30, 3, 7 }, { 30, 3, 16, 2, 5, 1 } } },
    OPERATION("embedding", embedding, embedding, .inputs = 2, .outputs = 1, .updates = true, .backward_roundings = 8,
              .shape = { { 6, 2, 5, 4, 0 }, { 40, 1, 1100, 30, 3 }, { 30, 3, 16, 2, 5 } }),
};
enum { OPERATIONS = sizeof list / sizeof *list };

int main(int argc, char **argv)
{
    struct CMUnitTest tests[OPERATIONS];
    world_start(&argc, &argv);
    for (int i = 0; i < OPERATIONS; i++)
        tests[i] = (struct CMUnitTest){ list[i].name, check_operation, NULL, NULL, (void *)&list[i] };
    int failed = cmocka_run_group_tests_name("operations", tests, NULL, NULL);
    world_stop();
    return failed;
}
