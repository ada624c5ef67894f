/* Products of small integers on the emulated device: sums are exact in FP32 in any order, so every result is known to
 * the last bit. Every test is a separate process, because the known products are state of the process. */
#pragma once
#include "base/fail.h"
#include "base/numeric.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/products/matmul.h"
#include "machine/cuda/products/product.h"
#include "machine/op/args.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { ARENA = 1 << 20, GAP_VALUE = 0x4B, OUTPUT = 1 << 16 };

/* ---- device and products ---- */

static struct {
    char *memory, *scratch;
    size_t used;
    cudaStream_t stream;
} device;

static inline void device_open(void)
{
    cuda_matmul_open();
    CUDA_CHECK(cudaMalloc((void **)&device.memory, ARENA));
    CUDA_CHECK(cudaMalloc((void **)&device.scratch, ARENA));
    CUDA_CHECK(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
}

static inline void device_close(void)
{
    CUDA_CHECK(cudaStreamSynchronize(device.stream));
    CUDA_CHECK(cudaStreamDestroy(device.stream));
    CUDA_CHECK(cudaFree(device.memory));
    CUDA_CHECK(cudaFree(device.scratch));
    cuda_matmul_close();
}

/* A matrix on the device and its values on the host. */
typedef struct {
    tensor t;
    char *bytes;
    size_t length;
    char *at;
} matrix;

static inline int64_t place_of(const tensor *t, int64_t i, int64_t j) { return i * t->stride[0] + j * t->stride[1]; }

static inline double element(const matrix *x, int64_t i, int64_t j)
{
    int64_t at = place_of(&x->t, i, j) + ((char *)x->t.data - x->at) / (int64_t)dtype_bytes(x->t.type);
    return (double)(x->t.type == BF16 ? bf16_widen(((uint16_t *)x->bytes)[at]) : ((float *)x->bytes)[at]);
}

static inline void element_set(matrix *x, int64_t i, int64_t j, double value)
{
    int64_t at = place_of(&x->t, i, j) + ((char *)x->t.data - x->at) / (int64_t)dtype_bytes(x->t.type);
    if (x->t.type == BF16) ((uint16_t *)x->bytes)[at] = bf16_round((float)value);
    else ((float *)x->bytes)[at] = (float)value;
}

static inline int integer(int64_t i, int64_t j, int number)
{
    return (int)((i * 7 + j * 5 + number * 3 + i * j) % 7) - 3;
}

static inline void store(const matrix *x)
{
    CUDA_CHECK(cudaMemcpy(x->at, x->bytes, x->length, cudaMemcpyHostToDevice));
}
static inline void load(matrix *x) { CUDA_CHECK(cudaMemcpy(x->bytes, x->at, x->length, cudaMemcpyDeviceToHost)); }

/* gap: elements between rows (or columns if stored by columns); first: elements before the first. */
typedef struct {
    bool by_columns;
    int64_t gap, first;
} layout;

static inline matrix matrix_open(dtype type, int64_t rows, int64_t columns, layout l, int number)
{
    int64_t lines = l.by_columns ? columns : rows, length = (l.by_columns ? rows : columns) + l.gap;
    matrix x = { .length = ((size_t)(lines * length + l.first) * dtype_bytes(type) + 255) / 256 * 256,
                 .at = device.memory + device.used };
    x.bytes = malloc(x.length + 1);
    memset(x.bytes, GAP_VALUE, x.length);
    x.t = (tensor){
        .data = x.at + (size_t)l.first * dtype_bytes(type), .type = type, .dims = 2, .dim = { rows, columns }
    };
    x.t.stride[l.by_columns] = length;
    x.t.stride[!l.by_columns] = 1;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) element_set(&x, i, j, integer(i, j, number));
    device.used += x.length;
    if (device.used > ARENA) abort();
    store(&x);
    return x;
}

/* Closes the matrix that was opened last. */
static inline void matrix_close(matrix *x)
{
    device.used -= x->length;
    free(x->bytes);
}

static inline op product_of(const matrix *c, access_mode how, const matrix *a, const matrix *b)
{
    return (op){ .kind = OP_MATMUL,
                 .operands = 3,
                 .operand = { { c->t, how }, { a->t, READ }, { b->t, READ } },
                 .origin.name = "layers.3.down" };
}

static inline cuda_call call_of(const op *o)
{
    cuda_call c = { .update = { o->operand[0].access == UPDATE },
                    .name = o->origin.name,
                    .scratch = device.scratch + 64,
                    .stream = device.stream };
    for (int i = 0; i < o->operands; i++) c.x[i] = o->operand[i].tensor;
    c.scratch_bytes = cuda_matmul_scratch(&c);
    if (c.scratch_bytes + 64 > ARENA) abort();
    return c;
}

static inline void run(const op *o)
{
    cuda_call c = call_of(o);
    cuda_matmul(&c);
    CUDA_CHECK(cudaStreamSynchronize(device.stream));
}

static inline void wrong(const char *what, int64_t i, int64_t j, double got, double expected)
{
    fprintf(stderr, "wrong: %s [%lld, %lld] is %.9g, not %.9g\n", what, (long long)i, (long long)j, got, expected);
    exit(3);
}

static inline double *values(const matrix *x)
{
    double *value = malloc((size_t)(x->t.dim[0] * x->t.dim[1] + 1) * sizeof *value);
    for (int64_t i = 0; i < x->t.dim[0]; i++)
        for (int64_t j = 0; j < x->t.dim[1]; j++) value[i * x->t.dim[1] + j] = element(x, i, j);
    return value;
}

/* Sums are exact in FP32 in any order, and the result is rounded once. The bytes between rows must not change. */
static inline void expect_product(const char *what, const op *o, matrix *c, const matrix *a, const matrix *b)
{
    matrix expected = *c;
    bool update = o->operand[0].access == UPDATE;
    int64_t m = c->t.dim[0], n = c->t.dim[1], terms = a->t.dim[1];
    double *left = values(a), *right = values(b);
    expected.bytes = memcpy(malloc(c->length + 1), c->bytes, c->length);
    load(c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = update ? element(&expected, i, j) : 0.0;
            for (int64_t k = 0; k < terms; k++) sum += left[i * terms + k] * right[k * n + j];
            element_set(&expected, i, j, sum);
            if (element(c, i, j) != element(&expected, i, j))
                wrong(what, i, j, element(c, i, j), element(&expected, i, j));
        }
    if (memcmp(expected.bytes, c->bytes, c->length) != 0) wrong("between the rows of the result", 0, 0, 0.0, 0.0);
    free(expected.bytes);
    free(left);
    free(right);
}

typedef struct {
    int64_t m, n, k;
} shape;
typedef struct {
    dtype input, output;
} formats;
static const shape shapes[] = { { 1, 1, 1 },    { 3, 5, 7 },   { 16, 64, 32 }, { 33, 25, 61 },
                                { 24, 1, 200 }, { 1, 31, 17 }, { 32, 40, 131 } };
static const formats all_formats[] = { { F32, F32 }, { BF16, BF16 }, { BF16, F32 } };

/* Bits of number: 1, 2, 4: columns contiguous in a, b, c; 8: gaps of 3, and one element before the first if odd. */
static inline void one_product(const shape *s, formats f, access_mode how, int number, void (*before)(const op *))
{
    layout l = { .gap = number & 8 ? 3 : 0, .first = number & 8 ? number % 2 : 0 };
    layout la = l, lb = l, lc = l;
    la.by_columns = number & 1, lb.by_columns = number & 2, lc.by_columns = number & 4;
    matrix a = matrix_open(f.input, s->m, s->k, la, 1), b = matrix_open(f.input, s->k, s->n, lb, 2);
    matrix c = matrix_open(f.output, s->m, s->n, lc, 3);
    op o = product_of(&c, how, &a, &b);
    cuda_matmul_prepare(&o);
    if (before) before(&o);
    else {
        run(&o);
        expect_product("product", &o, &c, &a, &b);
    }
    matrix_close(&c);
    matrix_close(&b);
    matrix_close(&a);
}

static inline void nothing(const op *o) { (void)o; }

/* The memory for trials is separate from that of the matrices. */
static inline void tune(machine_tuning tuning)
{
    void *memory;
    CUDA_CHECK(cudaMalloc(&memory, ARENA));
    cuda_matmul_tune(&tuning, memory, ARENA);
    CUDA_CHECK(cudaFree(memory));
}

/* ---- processes ---- */

/* Runs body in a child. said: its stderr and stdout. Returns whether it ended well. */
static inline bool child(void (*body)(void), char said[OUTPUT])
{
    int ends[2], status;
    size_t length = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        dup2(ends[1], 1);
        device_open();
        body();
        device_close();
        exit(0);
    }
    close(ends[1]);
    for (ssize_t n; length < OUTPUT - 1 && (n = read(ends[0], said + length, OUTPUT - 1 - length)) > 0;)
        length += (size_t)n;
    said[length] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static inline void passes(void (*body)(void))
{
    char said[OUTPUT];
    if (!child(body, said)) fail_msg("%.2000s", said);
}

static inline void dies(void (*body)(void), const char *words)
{
    char said[OUTPUT];
    if (child(body, said)) fail_msg("it passes, and should die with: %s", words);
    if (!strstr(said, words)) fail_msg("expected: %s\nsaid: %.2000s", words, said);
}
