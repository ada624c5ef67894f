/* Compares activations and sums of columns with a simple version in double (trial.h). operations.c derives the allowed
 * roundings and has the other operations. */
#include "trial.h"

/* shape: rows, f */
static void swiglu_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] = (spec){ DTYPES, 2, { n[0], 2 * n[1] }, .gaps = true, .differentiate = true, .gradient_type = DTYPES };
    out[0] = (spec){ DTYPES, 2, { n[0], n[1] }, .gaps = true };
}

static void swiglu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t row = 0; row < n[0]; row++)
        for (int64_t i = 0; i < n[1]; i++) {
            double gate = in[0][2 * row * n[1] + i], up = in[0][(2 * row + 1) * n[1] + i];
            out[0][row * n[1] + i] = gate / (1.0 + exp(-gate)) * up;
        }
}

static void swiglu_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "swiglu", swiglu_forward_op(in[0], out[0]));
}

static void swiglu_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                                const tensor *d_in, access_mode how)
{
    submit(q, "d_swiglu", swiglu_backward_op(in[0], d_out, d_in[0]));
}

/* GELU with the tanh approximation, as in its definition. */
static void geglu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t row = 0; row < n[0]; row++)
        for (int64_t i = 0; i < n[1]; i++) {
            double gate = in[0][2 * row * n[1] + i], up = in[0][(2 * row + 1) * n[1] + i];
            double u = sqrt(2.0 / acos(-1.0)) * (gate + 0.044715 * gate * gate * gate);
            out[0][row * n[1] + i] = gate / 2.0 * (1.0 + tanh(u)) * up;
        }
}

static void geglu_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "geglu", geglu_forward_op(in[0], out[0]));
}

static void geglu_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                               const tensor *d_in, access_mode how)
{
    submit(q, "d_geglu", geglu_backward_op(in[0], d_out, d_in[0]));
}

/* shape: rows, f */
static void gelu_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] = (spec){
        DTYPES, 2, { n[0], n[1] }, .gaps = true, .differentiate = true, .overwritten = true, .gradient_type = DTYPES
    };
    in[1] = (spec){ DTYPES, 1, { n[1] }, .differentiate = true, .gradient_type = F32 };
    out[0] = (spec){ DTYPES, 2, { n[0], n[1] }, .gaps = true };
}

static void gelu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++) {
        double x = in[0][i] + in[1][i % n[1]];
        out[0][i] = 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    }
}

static void gelu_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "gelu", gelu_forward_op(in[0], in[1], out[0]));
}

static void gelu_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                              const tensor *d_in, access_mode how)
{
    submit(
        q, "d_gelu",
        gelu_backward_op((gelu_backward_operands){
            .x = in[0], .bias = in[1], .d_out = d_out, .dx = d_in[0], .bias_gradient = d_in[1], .bias_access = how }));
}

/* shape: groups, rows of a group, columns. Adds a number to each row of a group; column_sums computes its gradient. */
static void column_sums_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] = (spec){ F32, 2, { n[0], n[2] }, .differentiate = true, .gradient_type = F32 };
    out[0] = (spec){ DTYPES, 3, { n[0], n[1], n[2] }, .gaps = true };
}

static void column_sums_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++)
        for (int64_t k = 0; k < n[2]; k++) out[0][i * n[2] + k] = in[0][i / n[1] * n[2] + k];
}

static void column_sums_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    for (int64_t i = 0; i < n[0] * n[1]; i++)
        submit(q, "rows",
               copy_op(tensor_slice(tensor_slice(out[0], 0, i / n[1], 1), 1, i % n[1], 1), WRITE,
                       tensor_3d((float *)in[0].data + i / n[1] * n[2], F32, 1, 1, n[2])));
}

static void column_sums_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                                     const tensor *d_in, access_mode how)
{
    submit(q, "column_sums", column_sums_op(d_out, d_in[0], how));
}

/* shape: elements */
static void squared_relu_describe(const int64_t *n, spec *in, spec *out)
{
    in[0] = (spec){ DTYPES, 1, { n[0] }, .gaps = false, .differentiate = true, .gradient_type = DTYPES };
    out[0] = (spec){ DTYPES, 1, { n[0] }, .gaps = false };
}

static void squared_relu_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t i = 0; i < n[0]; i++) out[0][i] = in[0][i] > 0.0 ? in[0][i] * in[0][i] : 0.0;
}

static void squared_relu_run(queue *q, const int64_t *n, const tensor *in, const tensor *out)
{
    submit(q, "squared_relu", squared_relu_forward_op(in[0], out[0]));
}

static void squared_relu_run_backward(queue *q, const int64_t *n, const tensor *in, const tensor *out, tensor d_out,
                                      const tensor *d_in, access_mode how)
{
    submit(q, "d_squared_relu", squared_relu_backward_op(in[0], d_out, d_in[0]));
}

static const operation list[] = {
    OPERATION("swiglu", swiglu, swiglu, .inputs = 1, .outputs = 1, .forward_roundings = 16, .backward_roundings = 24,
              .shape = { { 5, 7 }, { 16, 256 }, { 2, 2100 } }),
    OPERATION("geglu", swiglu, geglu, .inputs = 1, .outputs = 1, .forward_roundings = 16, .backward_roundings = 24,
              .shape = { { 5, 7 }, { 16, 256 }, { 2, 2100 } }),
    OPERATION("gelu", gelu, gelu, .inputs = 2, .outputs = 1, .updates = true, .forward_roundings = 24,
              .backward_roundings = 48, .shape = { { 5, 7 }, { 16, 256 }, { 2, 2100 }, { 300, 48 }, { 70, 1031 } }),
    OPERATION("column_sums", column_sums, column_sums, .inputs = 1, .outputs = 1, .updates = true,
              .backward_roundings = 40,
              .shape = { { 1, 5, 7 }, { 1, 300, 48 }, { 6, 2, 1100 }, { 3, 1, 16 }, { 2, 130, 72 } }),
    OPERATION("squared_relu", squared_relu, squared_relu, .inputs = 1, .outputs = 1, .forward_roundings = 1,
              .backward_roundings = 2, .shape = { { 1 }, { 7 }, { 4096 }, { 8193 } }),
};
enum { OPERATIONS = sizeof list / sizeof *list };

int main(int argc, char **argv)
{
    struct CMUnitTest tests[OPERATIONS];
    world_start(&argc, &argv);
    for (int i = 0; i < OPERATIONS; i++)
        tests[i] = (struct CMUnitTest){ list[i].name, check_operation, NULL, NULL, (void *)&list[i] };
    int failed = cmocka_run_group_tests_name("operations_activations", tests, NULL, NULL);
    world_stop();
    return failed;
}
