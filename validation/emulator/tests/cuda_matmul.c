/* Matrix products of the CUDA machine on the emulated library: small integers, whose products and sums are exact, so that every
 * result is known to the last bit; algorithms planned at first use, tried, and read from a file; and mistakes that must be found.
 * Every test is a process of its own, for the products that are known are process state. */
#include "base/fail.h"
#include "base/numeric.h"
#include "machine/cuda/kernels.h"
#include "machine/cuda/matmul.h"
#include "machine/cuda/product.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { ARENA = 1 << 20, GAP_VALUE = 0x4B, OUTPUT = 1 << 16 };
static const char CACHE[] = "build/emulator/matmul-algorithms";

/* ---- device and products ---- */

static struct { char *memory, *scratch; size_t used; cudaStream_t stream; } device;

static void device_open(void)
{
    cuda_matmul_open();
    CUDA_CHECK(cudaMalloc((void **)&device.memory, ARENA));
    CUDA_CHECK(cudaMalloc((void **)&device.scratch, ARENA));
    CUDA_CHECK(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
}

static void device_close(void)
{
    CUDA_CHECK(cudaStreamSynchronize(device.stream));
    CUDA_CHECK(cudaStreamDestroy(device.stream));
    CUDA_CHECK(cudaFree(device.memory));
    CUDA_CHECK(cudaFree(device.scratch));
    cuda_matmul_close();
}

/* A matrix on the device and what the host knows of it. */
typedef struct { tensor t; char *bytes; size_t length; char *at; } matrix;

static int64_t place_of(const tensor *t, int64_t i, int64_t j) { return i * t->stride[0] + j * t->stride[1]; }

static double element(const matrix *x, int64_t i, int64_t j)
{
    int64_t at = place_of(&x->t, i, j) + ((char *)x->t.data - x->at) / (int64_t)dtype_bytes(x->t.type);
    return (double)(x->t.type == BF16 ? bf16_widen(((uint16_t *)x->bytes)[at]) : ((float *)x->bytes)[at]);
}

static void element_set(matrix *x, int64_t i, int64_t j, double value)
{
    int64_t at = place_of(&x->t, i, j) + ((char *)x->t.data - x->at) / (int64_t)dtype_bytes(x->t.type);
    if (x->t.type == BF16) ((uint16_t *)x->bytes)[at] = bf16_round((float)value);
    else ((float *)x->bytes)[at] = (float)value;
}

static int integer(int64_t i, int64_t j, int number) { return (int)((i * 7 + j * 5 + number * 3 + i * j) % 7) - 3; }

static void store(const matrix *x) { CUDA_CHECK(cudaMemcpy(x->at, x->bytes, x->length, cudaMemcpyHostToDevice)); }
static void load(matrix *x) { CUDA_CHECK(cudaMemcpy(x->bytes, x->at, x->length, cudaMemcpyDeviceToHost)); }

/* gap: elements between rows (or columns, if it lies by columns); first: elements before the first. */
typedef struct { bool by_columns; int64_t gap, first; } layout;

static matrix matrix_open(dtype type, int64_t rows, int64_t columns, layout l, int number)
{
    int64_t lines = l.by_columns ? columns : rows, length = (l.by_columns ? rows : columns) + l.gap;
    matrix x = { .length = ((size_t)(lines * length + l.first) * dtype_bytes(type) + 255) / 256 * 256, .at = device.memory + device.used };
    x.bytes = malloc(x.length + 1);
    memset(x.bytes, GAP_VALUE, x.length);
    x.t = (tensor){ .data = x.at + (size_t)l.first * dtype_bytes(type), .type = type, .dims = 2, .dim = { rows, columns } };
    x.t.stride[l.by_columns] = length;
    x.t.stride[!l.by_columns] = 1;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) element_set(&x, i, j, integer(i, j, number));
    device.used += x.length;
    if (device.used > ARENA) abort();
    store(&x);
    return x;
}

/* The last one that was opened. */
static void matrix_close(matrix *x)
{
    device.used -= x->length;
    free(x->bytes);
}

static op product_of(const matrix *c, access_mode how, const matrix *a, const matrix *b)
{
    return (op){ .kind = OP_MATMUL, .operands = 3, .operand = { { c->t, how }, { a->t, READ }, { b->t, READ } }, .origin.name = "layers.3.down" };
}

static cuda_call call_of(const op *o)
{
    cuda_call c = { .update = { o->operand[0].access == UPDATE }, .name = o->origin.name, .scratch = device.scratch + 64, .stream = device.stream };
    for (int i = 0; i < 3; i++) c.x[i] = o->operand[i].tensor;
    c.scratch_bytes = cuda_matmul_scratch(&c);
    if (c.scratch_bytes + 64 > ARENA) abort();
    return c;
}

static void run(const op *o)
{
    cuda_call c = call_of(o);
    cuda_matmul(&c);
    CUDA_CHECK(cudaStreamSynchronize(device.stream));
}

static void wrong(const char *what, int64_t i, int64_t j, double got, double expected)
{
    fprintf(stderr, "wrong: %s [%lld, %lld] is %.9g, not %.9g\n", what, (long long)i, (long long)j, got, expected);
    exit(3);
}

static double *values(const matrix *x)
{
    double *value = malloc((size_t)(x->t.dim[0] * x->t.dim[1] + 1) * sizeof *value);
    for (int64_t i = 0; i < x->t.dim[0]; i++)
        for (int64_t j = 0; j < x->t.dim[1]; j++) value[i * x->t.dim[1] + j] = element(x, i, j);
    return value;
}

/* Sums of products in FP32 are exact here, in any order; the result is rounded once. Nothing between the rows is touched. */
static void expect_product(const char *what, const op *o, matrix *c, const matrix *a, const matrix *b)
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
            if (element(c, i, j) != element(&expected, i, j)) wrong(what, i, j, element(c, i, j), element(&expected, i, j));
        }
    if (memcmp(expected.bytes, c->bytes, c->length) != 0) wrong("between the rows of the result", 0, 0, 0.0, 0.0);
    free(expected.bytes);
    free(left);
    free(right);
}

typedef struct { int64_t m, n, k; } shape;
typedef struct { dtype input, output; } formats;
static const shape shapes[] = { { 1, 1, 1 }, { 3, 5, 7 }, { 16, 64, 32 }, { 33, 25, 61 }, { 24, 1, 200 }, { 1, 31, 17 }, { 32, 40, 131 } };
static const formats all_formats[] = { { F32, F32 }, { BF16, BF16 }, { BF16, F32 } };
enum { SHAPES = sizeof shapes / sizeof *shapes, FORMATS = sizeof all_formats / sizeof *all_formats, LAYOUTS = 16 };

/* Bits of number: columns contiguous in a, b, c; gaps of 3 or, with the first element one further on, of 8. */
static void one_product(const shape *s, formats f, access_mode how, int number, void (*before)(const op *))
{
    layout l = { .gap = number & 8 ? 3 : 0, .first = number & 8 ? number % 2 : 0 };
    layout la = l, lb = l, lc = l;
    la.by_columns = number & 1, lb.by_columns = number & 2, lc.by_columns = number & 4;
    matrix a = matrix_open(f.input, s->m, s->k, la, 1), b = matrix_open(f.input, s->k, s->n, lb, 2), c = matrix_open(f.output, s->m, s->n, lc, 3);
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

static void all_products(void (*before)(const op *))
{
    for (int s = 0; s < SHAPES; s++)
        for (int f = 0; f < FORMATS; f++)
            for (int number = 0; number < LAYOUTS; number++) {
                one_product(&shapes[s], all_formats[f], WRITE, number, before);
                one_product(&shapes[s], all_formats[f], UPDATE, number, before);
            }
}

static void nothing(const op *o) { (void)o; }

/* ---- in processes of their own ---- */

static void planned_at_first_use(void) { all_products(NULL); }

/* Memory for trials is another than that of the matrices. */
static void tune(machine_options options)
{
    void *memory;
    CUDA_CHECK(cudaMalloc(&memory, ARENA));
    cuda_matmul_tune(&options, memory, ARENA);
    CUDA_CHECK(cudaFree(memory));
}

static void tuned(void)
{
    all_products(nothing);
    tune((machine_options){ .transfer_multiprocessors = 16 });
    all_products(NULL);
}

/* A single line's stride is free, whatever it says; a sum of no terms is zero, or adds nothing. */
static void degenerate(void)
{
    static const int64_t strides[][2] = { { 1, 1 }, { 9, 1 }, { 0, 1 } };
    layout plain = { 0 };
    for (int s = 0; s < 3; s++) {
        matrix a = matrix_open(BF16, 1, 9, plain, 1), b = matrix_open(BF16, 9, 1, plain, 2), c = matrix_open(BF16, 1, 1, plain, 3);
        for (int i = 0; i < 2; i++) a.t.stride[i] = strides[s][i], b.t.stride[i] = strides[s][!i];
        c.t.stride[0] = c.t.stride[1] = s;
        op o = product_of(&c, UPDATE, &a, &b);
        cuda_matmul_prepare(&o);
        run(&o);
        expect_product("line times line", &o, &c, &a, &b);
        matrix outer = matrix_open(BF16, 9, 9, (layout){ .gap = 2 }, 3), row = a, column = b;
        op p = product_of(&outer, WRITE, &column, &row);
        cuda_matmul_prepare(&p);
        run(&p);
        expect_product("outer product", &p, &outer, &column, &row);
        matrix_close(&outer);
        matrix_close(&c);
        matrix_close(&b);
        matrix_close(&a);
    }
    for (access_mode how = WRITE; how <= UPDATE; how++) {
        matrix a = matrix_open(F32, 6, 0, plain, 1), b = matrix_open(F32, 0, 5, plain, 2), c = matrix_open(F32, 6, 5, (layout){ .gap = 3 }, 3);
        op o = product_of(&c, how, &a, &b), empty = o;
        for (int i = 0; i < 2; i++) empty.operand[i].tensor.dim[0] = 0;
        cuda_matmul_prepare(&o);
        cuda_matmul_prepare(&empty);
        run(&empty);
        run(&o);
        expect_product("sum of no terms", &o, &c, &a, &b);
    }
}

/* 1 plus 600 times 2^-9: parts of the sum that are rounded to BF16 would lose it. */
static void rounded_once(void)
{
    for (int number = 0; number < 2; number++) {
        layout l = { .gap = number ? 3 : 0 };
        matrix a = matrix_open(BF16, 48, 600, l, 1), b = matrix_open(BF16, 600, 32, l, 2), c = matrix_open(BF16, 48, 32, l, 3);
        for (int64_t k = 0; k < 600; k++) {
            for (int64_t i = 0; i < 48; i++) element_set(&a, i, k, 0x1p-9);
            for (int64_t j = 0; j < 32; j++) element_set(&b, k, j, 1.0);
        }
        for (int64_t i = 0; i < 48 * 32; i++) element_set(&c, i / 32, i % 32, 1.0);
        store(&a);
        store(&b);
        store(&c);
        op o = product_of(&c, UPDATE, &a, &b);
        cuda_matmul_prepare(&o);
        for (int i = 0; i < 2; i++) {
            run(&o);
            expect_product("rounded once", &o, &c, &a, &b);
            tune((machine_options){ 0 });
        }
    }
}

static void list_algorithms(machine_options options)
{
    char text[OUTPUT];
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, nothing);
    tune(options);
    if (cuda_matmul_algorithms(text, sizeof text) >= sizeof text || cuda_matmul_algorithms(NULL, 0) != strlen(text)) exit(3);
    fputs(text, stderr);
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, NULL);
}

static void list_tried(void) { list_algorithms((machine_options){ .algorithm_cache = CACHE }); }
static void list_deterministic(void) { list_algorithms((machine_options){ .algorithm_cache = CACHE, .deterministic = true }); }
static void list_elsewhere(void) { list_algorithms((machine_options){ .algorithm_cache = "build/no/such/folder/algorithms" }); }
static void list_with_transfers(void) { list_algorithms((machine_options){ .algorithm_cache = CACHE, .transfer_multiprocessors = 8 }); }

/* Memory for trials does not suffice. */
static void list_untried(void)
{
    void *memory;
    char text[OUTPUT];
    one_product(&shapes[2], all_formats[0], WRITE, 0, nothing);
    CUDA_CHECK(cudaMalloc(&memory, 4096));
    cuda_matmul_tune(&(machine_options){ 0 }, memory, 4096);
    cuda_matmul_algorithms(text, sizeof text);
    fputs(text, stderr);
    one_product(&shapes[2], all_formats[0], WRITE, 0, NULL);
    CUDA_CHECK(cudaFree(memory));
}

/* What is known outlives the machine; another one uses it. */
static void opened_again(void)
{
    one_product(&shapes[2], all_formats[0], WRITE, 0, nothing);
    tune((machine_options){ 0 });
    cuda_matmul_close();
    cuda_matmul_open();
    one_product(&shapes[2], all_formats[0], WRITE, 0, NULL);
}

static void never_measured(void)
{
    matrix a = matrix_open(F32, 4, 4, (layout){ 0 }, 1), b = matrix_open(F32, 4, 4, (layout){ 0 }, 2), c = matrix_open(F32, 4, 4, (layout){ 0 }, 3);
    op o = product_of(&c, WRITE, &a, &b), other = product_of(&c, UPDATE, &a, &b);
    cuda_matmul_prepare(&o);
    run(&other);
}

static void overlapping_rows(void)
{
    matrix a = matrix_open(F32, 4, 4, (layout){ 0 }, 1), c = a;
    a.t.stride[0] = 3;
    op o = product_of(&c, WRITE, &a, &c);
    cuda_matmul_prepare(&o);
}

static void little_scratch(void)
{
    matrix a = matrix_open(BF16, 64, 64, (layout){ 0 }, 1), b = matrix_open(BF16, 64, 64, (layout){ 0 }, 2), c = matrix_open(BF16, 64, 64, (layout){ 0 }, 3);
    op o = product_of(&c, WRITE, &a, &b);
    cuda_matmul_prepare(&o);
    cuda_call call = call_of(&o);
    call.scratch_bytes = 200;
    cuda_matmul(&call);
}

/* d = a b of 8 x 8, one fact of it wrong, behind the door. */
static void planted(void (*spoil)(product *, candidate *, void **))
{
    product p = { .key = { .m = 8, .n = 8, .k = 8, .leading = { 8, 8, 8 }, .alignment = { 16, 16, 16 }, .input = F32, .output = F32 } };
    candidate list[PRODUCT_CANDIDATES], none = { .workspace = 0 };
    void *x[MATRICES] = { device.memory, device.memory + 4096, device.memory + 8192 };
    spoil(&p, &none, x);
    product_open(&p, 0);
    if (product_candidates(&p, list) < 2) exit(3);
    candidate *c = &list[0];
    spoil(&p, c, x);
    CUBLAS_CHECK(&p.key, product_run(&p, c, x, device.scratch + (p.name[1] == 'w' ? 16 : 0), device.stream));
    CUDA_CHECK(cudaStreamSynchronize(device.stream));
}

static void spoil_nothing(product *p, candidate *c, void **x) { (void)p, (void)c, (void)x; }
static void spoil_small(product *p, candidate *c, void **x) { (void)c, (void)x, p->key.leading[LEFT] = 7; }
static void spoil_large(product *p, candidate *c, void **x) { (void)c, (void)x, p->key.leading[RIGHT] = ARENA / 16; }
static void spoil_alignment(product *p, candidate *c, void **x) { (void)c, (void)p, x[LEFT] = device.memory + 4100; }
static void spoil_address(product *p, candidate *c, void **x) { (void)c, (void)p, x[RIGHT] = device.memory + ARENA - 128; }
static void spoil_alias(product *p, candidate *c, void **x) { (void)c, (void)p, x[DESTINATION] = x[LEFT]; }
static void spoil_workspace(product *p, candidate *c, void **x) { (void)p, (void)x, c->workspace = c->workspace / 2; }
static void spoil_place(product *p, candidate *c, void **x) { (void)c, (void)x, p->name[1] = 'w'; }
static void spoil_algorithm(product *p, candidate *c, void **x) { (void)p, (void)x, c->algorithm = (cublasLtMatmulAlgo_t){ { 0 } }; }

static void planted_nothing(void) { planted(spoil_nothing); }
static void planted_small(void) { planted(spoil_small); }
static void planted_large(void) { planted(spoil_large); }
static void planted_alignment(void) { planted(spoil_alignment); }
static void planted_address(void) { planted(spoil_address); }
static void planted_alias(void) { planted(spoil_alias); }
static void planted_workspace(void) { planted(spoil_workspace); }
static void planted_place(void) { planted(spoil_place); }
static void planted_algorithm(void) { planted(spoil_algorithm); }

/* ---- the tests ---- */

/* Runs it in a child; what it said on stderr and stdout; whether it ended well. */
static bool child(void (*body)(void), char said[OUTPUT])
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
    for (ssize_t n; length < OUTPUT - 1 && (n = read(ends[0], said + length, OUTPUT - 1 - length)) > 0;) length += (size_t)n;
    said[length] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void passes(void (*body)(void))
{
    char said[OUTPUT];
    if (!child(body, said)) fail_msg("%.2000s", said);
}

static void dies(void (*body)(void), const char *words)
{
    char said[OUTPUT];
    if (child(body, said)) fail_msg("it passes, and should die with: %s", words);
    if (!strstr(said, words)) fail_msg("expected: %s\nsaid: %.2000s", words, said);
}

/* So many lines of the list hold the words. */
static int says(void (*body)(void), const char *words)
{
    char said[OUTPUT];
    int count = 0;
    if (!child(body, said)) fail_msg("%.2000s", said);
    for (const char *at = said; (at = strstr(at, words)); at++) count++;
    return count;
}

static size_t read_cache(char text[OUTPUT])
{
    FILE *file = fopen(CACHE, "r");
    size_t length = file ? fread(text, 1, OUTPUT - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    return length;
}

static void write_cache(const char *text, size_t length)
{
    FILE *file = fopen(CACHE, "w");
    assert_non_null(file);
    fwrite(text, 1, length, file);
    fclose(file);
}

static void test_exact(void **state)
{
    passes(planned_at_first_use);
    passes(tuned);
    passes(degenerate);
    passes(rounded_once);
    passes(opened_again);
}

static const char TRIED[] = "the fastest tried", KEPT[] = "tried in an earlier run", FIRST[] = "the library's first answer";

static void test_cache(void **state)
{
    char text[OUTPUT], again[OUTPUT];
    unlink(CACHE);
    assert_int_equal(says(list_tried, TRIED), 3);
    size_t length = read_cache(text);
    assert_true(length > 0);
    assert_int_equal(says(list_tried, KEPT), 3);
    assert_true(read_cache(again) == length && memcmp(text, again, length) == 0);
    assert_int_equal(says(list_deterministic, FIRST), 3);
    assert_true(read_cache(again) == length && memcmp(text, again, length) == 0);
    assert_int_equal(says(list_with_transfers, TRIED), 3);
    assert_true(read_cache(again) == 2 * length || read_cache(again) > length);
    assert_int_equal(says(list_tried, KEPT), 3);
    assert_int_equal(says(list_elsewhere, "algorithm cache build/no/such/folder/algorithms: No such file or directory"), 1);
    assert_int_equal(says(list_untried, FIRST), 1);
}

/* The first line whole, but of an algorithm that the library does not know. */
static void change_algorithm(char *text)
{
    char *end = strchr(text, '\n') - 16, *id = strstr(text, "\tid ") + 4, after;
    uint64_t sum = 14695981039346656037u;
    *id = '9';
    for (const char *at = text; at < end; at++) sum = (sum ^ (uint8_t)*at) * 1099511628211u;
    after = end[16];
    snprintf(end, 17, "%016llx", (unsigned long long)sum);
    end[16] = after;
}

/* A file that ends anywhere, or has one wrong byte, costs new trials of the lines that it spoils and no more. */
static void test_corrupted_cache(void **state)
{
    char text[OUTPUT], spoiled[OUTPUT];
    unlink(CACHE);
    assert_int_equal(says(list_tried, TRIED), 3);
    size_t length = read_cache(text), line = strcspn(text, "\n") + 1;
    static const size_t cuts[] = { 0, 1, 40, 200 };
    for (int i = 0; i < 4; i++) {
        write_cache(text, line + cuts[i]);
        assert_int_equal(says(list_tried, KEPT), 1);
        assert_int_equal(says(list_tried, KEPT), 3);
    }
    for (size_t at = 3; at < line - 1; at += line / 5) {
        memcpy(spoiled, text, length);
        spoiled[at] ^= 1;
        write_cache(spoiled, length);
        assert_int_equal(says(list_tried, TRIED), 1);
    }
    strcpy(spoiled, text);
    change_algorithm(spoiled);
    write_cache(spoiled, length);
    assert_int_equal(says(list_tried, TRIED), 1);
    assert_int_equal(says(list_tried, KEPT), 3);
    memset(spoiled, 0, sizeof spoiled);
    write_cache(spoiled, sizeof spoiled);
    assert_int_equal(says(list_tried, TRIED), 3);
    assert_int_equal(says(list_tried, KEPT), 3);
    unlink(CACHE);
}

static void test_refused(void **state)
{
    dies(never_measured, "matmul layers.3.down: no measuring pass has met f32 d[4, 4] += f32 a[4, 4] b[4, 4]");
    dies(overlapping_rows, "rows or columns of a matrix overlap");
    dies(little_scratch, "matmul layers.3.down: its scratch is only 200 bytes");
}

static void test_planted(void **state)
{
    passes(planted_nothing);
    dies(planted_small, "a has leading dimension 7 and 8 rows");
    dies(planted_small, "CUBLAS_STATUS_INVALID_VALUE");
    dies(planted_large, "do not lie in one live device allocation");
    dies(planted_alignment, "matrix a is not aligned to the 16 bytes");
    dies(planted_address, "cublasLtMatmul: b");
    dies(planted_alias, "d is a or b");
    dies(planted_workspace, "bytes of workspace");
    dies(planted_place, "the workspace is not aligned");
    dies(planted_algorithm, "CUBLAS_STATUS_NOT_SUPPORTED");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_exact), cmocka_unit_test(test_cache), cmocka_unit_test(test_corrupted_cache),
                                        cmocka_unit_test(test_refused), cmocka_unit_test(test_planted) };
    return cmocka_run_group_tests_name("emulator/cuda_matmul", tests, NULL, NULL);
}
