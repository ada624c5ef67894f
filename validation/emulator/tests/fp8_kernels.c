/* FP8's kernels against the host's, to the last bit. */
#include "base/fp8.h"
#include "base/random.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/compute.h"
#include "machine/host/host.h"
#include "machine/kernels.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t seed = 1;
static uint32_t draw(void) { seed = seed * 6364136223846793005u + 1442695040888963407u; return (uint32_t)(seed >> 33); }

enum { ROOM = 1 << 20 };
static char *memory;
static cudaStream_t stream;

static void fill(char *p, size_t bytes, dtype type)
{
    for (size_t i = 0; i < bytes / dtype_bytes(type); i++) {
        uint32_t r = draw();
        float x = ((float)(int)(r % 2001) - 1000.0f) * ((r >> 12) % 3 ? 1e-3f : (r >> 14) % 2 ? 1.0f : 1e-6f);
        if ((r >> 20) % 97 == 0) x = 0.0f;
        if ((r >> 20) % 301 == 0) x = (r >> 5) & 1 ? INFINITY : -NAN;
        if (type == F32) ((float *)p)[i] = x;
        else if (type == BF16) ((uint16_t *)p)[i] = bf16_round(x);
        else ((uint8_t *)p)[i] = (uint8_t)r;
    }
}

/* The op on the host's memory, and on the device's, which is memory + the same offset. */
static void both(const char *what, op o, char *host, size_t bytes)
{
    op d = o;
    char *back = malloc(bytes);
    assert_null(o.lacks);
    for (int i = 0; i < o.operands; i++)
        if (tensor_present(&o.operand[i].tensor))
            d.operand[i].tensor.data = memory + ((char *)o.operand[i].tensor.data - host);
    assert_int_equal(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    cuda_compute(&d, NULL, 0, stream);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    if (o.kind == OP_QUANTIZE) host_quantize(&o, NULL);
    if (o.kind == OP_TRANSPOSE) host_transpose(&o, NULL);
    if (o.kind == OP_FP8_SCALES) host_fp8_scales(&o, NULL);
    if (o.kind == OP_ADAMW) host_adamw(&o, NULL);
    if (o.kind == OP_FILL) host_fill(&o, NULL);
    if (o.kind == OP_SCALE) host_scale(&o, NULL);
    if (o.kind == OP_FLIP) host_flip(&o, NULL);
    if (o.kind == OP_COPY) host_copy(&o, NULL);
    assert_int_equal(cudaMemcpy(back, memory, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < bytes; i++)
        if (back[i] != host[i]) fail_msg("%s: byte %zu is %02x, host %02x", what, i, (uint8_t)back[i], (uint8_t)host[i]);
    free(back);
}

static void quantize_one(int number)
{
    static const int64_t sizes[] = { 1, 5, 16, 17, 40, 130, 128, 260 };
    char *host = calloc(1, ROOM), what[200];
    int64_t groups = draw() % 3 ? 0 : 1 + draw() % 3, m = sizes[draw() % 8] * (groups ? groups : 1), n = sizes[draw() % 8];
    dtype from = draw() % 2 ? BF16 : F32, type = draw() % 2 ? E4M3 : E5M2;
    int64_t gap = draw() % 2 ? 0 : draw() % 2 ? 8 : 3, first = draw() % 3 ? 0 : 3;
    int which = (int)(draw() % 4);
    snprintf(what, sizeof what, "%d: %s [%lld, %lld] groups %lld to %s gap %lld first %lld which %d", number, dtype_name(from),
             (long long)m, (long long)n, (long long)groups, dtype_name(type), (long long)gap, (long long)first, which);
    fill(host, ROOM / 2, from);
    memset(host + ROOM / 2, 0x5A, ROOM / 2);
    float *scale = (float *)(host + ROOM / 2);
    int32_t *amax = (int32_t *)(scale + 4);
    uint64_t *counts = (uint64_t *)(scale + 8);
    scale[0] = draw() % 9 ? (draw() % 2 ? 64.0f : 300.0f) : NAN, scale[1] = 1.0f / scale[0];
    *amax = draw() % 2 ? 0 : 0x40000000;
    tensor x = tensor_2d(host + (size_t)first * dtype_bytes(from), from, m, n);
    x.stride[0] = n + gap;
    char *codes_at = host + ROOM / 2 + 256 + (draw() % 3 ? 0 : 1), *to = host + ROOM / 2 + ROOM / 4 + (draw() % 3 ? 0 : 4);
    tensor codes = tensor_2d(codes_at, type, m, n), t = fp8_transposed_shape(type, groups, groups ? m / groups : m, n);
    t.data = to;
    codes.scale = t.scale = scale;
    if (which & 1) codes = tensor_none();
    if (which & 2) t = tensor_none();
    quantize_operands o = { .x = x, .codes = codes, .transposed = t };
    if (draw() % 4 || which == 3) o.amax = tensor_1d(amax, I32, 1);
    if (draw() % 4 && which != 3) o.counts = tensor_1d(counts, U64, FP8_COUNTS);
    both(what, quantize_op(o), host, ROOM);
    free(host);
}

static void transpose_one(int number)
{
    static const int64_t sizes[] = { 1, 5, 16, 17, 40, 130, 128, 260 };
    char *host = malloc(ROOM), what[200];
    int64_t groups = draw() % 2 ? 0 : 1 + draw() % 3, m = sizes[draw() % 8], n = sizes[draw() % 8];
    snprintf(what, sizeof what, "transpose %d: %lld [%lld, %lld]", number, (long long)groups, (long long)m, (long long)n);
    fill(host, ROOM, E4M3);
    tensor x = groups ? tensor_3d(host, E4M3, groups, m, n) : tensor_2d(host, E4M3, m, n);
    if (draw() % 2) x.stride[x.dims - 2] += draw() % 2 ? 8 : 1, x.stride[0] = groups ? x.stride[1] * m + 16 : x.stride[0];
    tensor out = fp8_transposed_shape(E4M3, groups, m, n);
    out.data = host + ROOM / 2 + (draw() % 3 ? 0 : 1);
    both(what, transpose_op(out, x), host, ROOM);
    free(host);
}

static void test_tiles(void **state)
{
    for (int i = 0; i < 200; i++) quantize_one(i);
    for (int i = 0; i < 60; i++) transpose_one(i);
}

static void test_scales(void **state)
{
    static char host[ROOM];
    for (int n = 3; n <= 75; n += 72)
        for (int exact = 0; exact < 2; exact++) {
            double *scalars = (double *)host;
            int32_t *amax = (int32_t *)(host + 4096), *past = (int32_t *)(host + 8192);
            scalars[SCALAR_STEP] = exact ? -1.0 : 1500.0;
            for (int i = 0; i < n; i++) amax[i] = i % 7 == 0 ? 0 : (int32_t)(draw() % 0x42000000u);
            amax[1] = 0x7F800000;
            for (int i = 0; i < FP8_HISTORY * n; i++) past[i] = i % 11 ? 0 : (int32_t)(draw() % 0x42000000u);
            fp8_scales_operands o = { tensor_1d(scalars, F64, STEP_SCALARS), tensor_1d(amax, I32, n),
                                      tensor_2d(past, I32, FP8_HISTORY, n),
                                      tensor_2d(host + ROOM - 4096, F32, n, FP8_FACTORS) };
            both("scales", fp8_scales_op(o, (fp8_scales_args){ .exact = exact }), host, ROOM);
        }
}

static void test_adamw(void **state)
{
    static const int64_t counts[] = { 1, 7, 8, 2048, 5003 };
    for (int i = 0; i < 40; i++) {
        static char host[ROOM];
        int64_t n = counts[i % 5], at = i % 3 ? 0 : 4;
        dtype type = i % 2 ? E4M3 : E5M2;
        fill(host, ROOM, F32);
        for (int64_t k = 0; k < ROOM / 4; k++) if (!(fabsf(((float *)host)[k]) < 1e30f)) ((float *)host)[k] = 0.5f;
        double *scalars = (double *)host;
        for (int k = 0; k < STEP_SCALARS; k++) scalars[k] = 0.5;
        float *scale = (float *)(host + 1024);
        scale[0] = 128.0f;
        int32_t *amax = (int32_t *)(host + 2048);
        for (int k = 0; k < n; k++) ((float *)(host + 5 * 32768 + at))[k] = fabsf(((float *)(host + 5 * 32768 + at))[k]);
        *amax = i % 4 ? 0 : 0x47000000;
        dtype weight = i % 8 == 7 ? BF16 : type;
        adamw_operands o = { .scalars = tensor_1d(scalars, F64, STEP_SCALARS),
                             .gradient = tensor_1d(host + 32768 + at, F32, n),
                             .weight = tensor_1d(host + 2 * 32768 + at, weight, n),
                             .master = tensor_1d(host + 3 * 32768 + at, F32, n),
                             .first = tensor_1d(host + 4 * 32768 + at, F32, n),
                             .second = tensor_1d(host + 5 * 32768 + at, F32, n),
                             .amax = i % 5 ? tensor_1d(amax, I32, 1) : tensor_none() };
        if (weight != BF16) o.weight.scale = scale;
        both("adamw", adamw_op(&o, (adamw_rule){ .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f }), host, ROOM);
    }
}

static void test_elements(void **state)
{
    static char host[ROOM];
    for (int i = 0; i < 60; i++) {
        dtype type = i % 2 ? E4M3 : E5M2;
        fill(host, ROOM, E4M3);
        tensor t = tensor_1d(host + i % 3, type, 77 + i % 7 * 3), u = tensor_1d(host + 8192 + i % 5, type, 77 + i % 7 * 3);
        op o = fill_op(t, 0.7);
        if (i % 4 == 1) o.kind = OP_SCALE, o.args.scale.factor = 1.3;
        if (i % 4 == 2) o.kind = OP_FLIP, o.args.flip.index = 5;
        if (i % 4 == 3) o = copy_op(t, WRITE, u);
        both("elements", o, host, 16384);
    }
}

int main(void)
{
    cudaMalloc((void **)&memory, ROOM);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tiles), cmocka_unit_test(test_scales),
                                        cmocka_unit_test(test_adamw), cmocka_unit_test(test_elements) };
    return cmocka_run_group_tests_name("emulator/fp8_kernels", tests, NULL, NULL);
}
