/* Measures the host's kernels per operand byte: one thread, processor seconds, layers of Llama and of the other
 * families. Prints one line per kernel: kind, format, GB/s. */
#include "machine/op/kernels.h"
#include "base/fail.h"
#include "base/fp8.h"
#include "machine/host/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOKENS = 2048, HIDDEN = 1024, FFN = 3584, SEQUENCE = 512, EXPERTS = 8, ROWS = 2 * TOKENS, REPEATS = 40 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns a tensor of small numbers of both signs. */
static tensor filled(dtype type, int64_t rows, int64_t columns)
{
    tensor t = tensor_2d(NULL, type, rows, columns);
    t.data = aligned_alloc(64, (tensor_span(&t) + 63) / 64 * 64);
    if (!t.data) FAIL("no memory for %lld numbers", (long long)(rows * columns));
    for (int64_t i = 0; i < rows * columns; i++) {
        float x = (float)((i * 2654435761u >> 7) % 1024) / 512.0f - 1.0f;
        if (type == BF16) ((uint16_t *)t.data)[i] = bf16_round(x);
        else if (type == F32) ((float *)t.data)[i] = x;
        else if (type == E4M3) ((uint8_t *)t.data)[i] = e4m3_round(x);
        else ((int32_t *)t.data)[i] = (int32_t)(i % HIDDEN);
    }
    return t;
}

static tensor vector(dtype type, int64_t n) { return tensor_flat(filled(type, n, 1)); }

static double operand_bytes(const op *o)
{
    double bytes = 0.0;
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        double one = (double)tensor_elements(&x->tensor) * (double)dtype_bytes(x->tensor.type);
        if (tensor_present(&x->tensor)) bytes += x->access == UPDATE ? 2.0 * one : one;
    }
    return bytes;
}

static void time_op(const char *name, dtype type, op o)
{
    if (o.error) FAIL("%s: %s", name, o.error);
    size_t scratch_bytes = host_scratch_of(&(machine_tuning){ 0 }, &o);
    void *scratch = aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
    double best = 1e30;
    for (int i = 0; i < REPEATS; i++) {
        double begin = now();
        host_compute(&o, scratch);
        double seconds = now() - begin;
        if (i > 0 && seconds < best) best = seconds;
    }
    free(scratch);
    printf("%s %s %.3f\n", name, type == BF16 ? "bf16" : "fp32", operand_bytes(&o) / best * 1e-9);
}

static void time_norms(dtype t)
{
    tensor x = filled(t, TOKENS, HIDDEN), delta = filled(t, TOKENS, HIDDEN), sum = filled(t, TOKENS, HIDDEN),
           out = filled(t, TOKENS, HIDDEN), gain = vector(t, HIDDEN), bias = vector(t, HIDDEN),
           rstd = vector(F32, TOKENS), mean = vector(F32, TOKENS), gains = vector(F32, HIDDEN),
           biases = vector(F32, HIDDEN);
    norm_forward_operands f = { .x = x, .delta = delta, .gain = gain, .sum = sum, .out = out, .rstd = rstd };
    norm_backward_operands b = { .d_out = out,
                                 .x = x,
                                 .rstd = rstd,
                                 .gain = gain,
                                 .dx = delta,
                                 .gain_gradient = gains,
                                 .dx_access = UPDATE,
                                 .gain_access = UPDATE };
    time_op("rms_norm_forward", t, norm_forward_op(f, 1e-5f));
    time_op("rms_norm_backward", t, norm_backward_op(b));
    f.bias = bias, f.mean = mean, b.mean = mean, b.bias_gradient = biases, b.bias_access = UPDATE;
    time_op("layer_norm_forward", t, norm_forward_op(f, 1e-5f));
    time_op("layer_norm_backward", t, norm_backward_op(b));
}

static void time_activations(dtype t)
{
    tensor gate_up = filled(t, TOKENS, 2 * FFN), d_gate_up = filled(t, TOKENS, 2 * FFN), up = filled(t, TOKENS, FFN),
           out = filled(t, TOKENS, FFN), d = filled(t, TOKENS, FFN), bias = vector(t, FFN), sums = vector(F32, FFN);
    time_op("swiglu_forward", t, swiglu_forward_op(gate_up, out));
    time_op("swiglu_backward", t, swiglu_backward_op(gate_up, out, d_gate_up));
    time_op("geglu_forward", t, geglu_forward_op(gate_up, out));
    time_op("geglu_backward", t, geglu_backward_op(gate_up, out, d_gate_up));
    time_op("squared_relu_forward", t, squared_relu_forward_op(up, out));
    time_op("squared_relu_backward", t, squared_relu_backward_op(up, out, d));
    time_op("gelu_forward", t, gelu_forward_op(up, bias, out));
    time_op("gelu_backward", t, gelu_backward_op((gelu_backward_operands){ up, bias, out, d, sums, UPDATE }));
    time_op("column_sums", t, column_sums_op(up, sums, UPDATE));
}

/* Times FP8 values with their transposed copy, without it, in the other format, and a transposed copy alone. */
static void time_codes(dtype t)
{
    static _Alignas(16) float scale[FP8_FACTORS];
    static int32_t amax;
    static uint64_t counts[FP8_COUNTS];
    tensor x = filled(t, TOKENS, FFN), codes = filled(E4M3, TOKENS, FFN), transposed = filled(E4M3, FFN, TOKENS);
    fp8_set_factors(codes.scale = transposed.scale = scale, 16.0f);
    encoding to = { .codes = codes,
                    .transposed = transposed,
                    .amax = tensor_1d(&amax, I32, 1),
                    .counts = tensor_1d(counts, U64, FP8_COUNTS) };
    time_op("quantize", t, quantize_op(x, to));
    to.transposed = tensor_none();
    time_op("quantize_rows", t, quantize_op(x, to));
    to.codes.type = E5M2;
    time_op("quantize_rows_e5m2", t, quantize_op(x, to));
    time_op("transpose", t, transpose_op(transposed, codes));
    time_op("copy", t, copy_op(filled(t, TOKENS, FFN), WRITE, x));
}

static void time_embeddings(dtype t)
{
    tensor tokens = tensor_2d(vector(I32, TOKENS).data, I32, SEQUENCE, TOKENS / SEQUENCE),
           table = filled(t, TOKENS, HIDDEN), positions = filled(t, SEQUENCE, HIDDEN), out = filled(t, TOKENS, HIDDEN),
           sums = filled(F32, SEQUENCE, HIDDEN);
    out = tensor_3d(out.data, t, SEQUENCE, TOKENS / SEQUENCE, HIDDEN);
    embedding_forward_operands o = { .tokens = tokens, .table = table, .out = out };
    time_op("embedding_forward", t, embedding_forward_op(o, (embedding_args){ 0 }));
    o.positions = positions;
    time_op("embedding_positions", t, embedding_forward_op(o, (embedding_args){ 0 }));
    time_op("positions_gradient", t, column_sums_op(out, sums, UPDATE));
}

static void time_experts(dtype t)
{
    router_args args = { .rows = ROWS / EXPERTS, .local = EXPERTS, .groups = 1 };
    tensor logits = filled(t, TOKENS, EXPERTS), choices = filled(I32, TOKENS, 2), weights = filled(F32, TOKENS, 2),
           place = filled(I32, TOKENS, 2), source = vector(I32, ROWS), x = filled(t, TOKENS, HIDDEN),
           rows = filled(t, ROWS, HIDDEN), d_rows = filled(t, ROWS, HIDDEN), d_logits = filled(t, TOKENS, EXPERTS),
           d_weights = filled(F32, TOKENS, 2);
    tensor statistics = tensor_3d(vector(F32, 4 * 3 * EXPERTS).data, F32, 4, 3, EXPERTS);
    time_op("router_forward", t,
            router_forward_op((router_forward_operands){ .logits = logits,
                                                         .choices = choices,
                                                         .weights = weights,
                                                         .place = place,
                                                         .source = source,
                                                         .statistics = statistics },
                              args));
    time_op("router_backward", t,
            router_backward_op((router_backward_operands){ .logits = logits,
                                                           .choices = choices,
                                                           .d_weights = d_weights,
                                                           .statistics = statistics,
                                                           .d_logits = d_logits },
                               (balance_args){ 0.01f }));
    time_op("permute", t, permute_op(rows, x, source));
    time_op("unpermute_forward", t, unpermute_forward_op(x, rows, weights, place));
    time_op("unpermute_backward", t,
            unpermute_backward_op((unpermute_backward_operands){ x, rows, weights, place, source, d_rows, d_weights }));
}

int main(void)
{
    for (int i = 0; i < 2; i++) {
        dtype t = i ? BF16 : F32;
        time_norms(t);
        time_activations(t);
        time_codes(t);
        time_embeddings(t);
        time_experts(t);
    }
    return 0;
}
