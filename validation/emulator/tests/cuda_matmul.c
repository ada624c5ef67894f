/* Matrix products of the CUDA machine with the emulated library: lines and empty sums, refusals, rules of cuBLASLt that
 * the emulated library must hold to, and the choice and the list of algorithms. units/machine/operations tests layouts,
 * formats and accesses. Sums of small integers are exact in FP32 in any order, so every result is known to the last
 * bit. Every test is a separate process, because the known products are state of the process. */
#include "base/fail.h"
#include "base/numeric.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/products/algorithms.h"
#include "machine/cuda/products/matmul.h"
#include "machine/cuda/products/product.h"
#include "units/tests.h"
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA = 1 << 20, GAP_VALUE = 0x4B, OUTPUT = 1 << 16, PRODUCTS = 3 };

static struct {
    char *memory, *scratch;
    size_t used;
    cudaStream_t stream;
} device;

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

/* A matrix on the device and its values on the host. */
typedef struct {
    tensor t;
    char *bytes;
    size_t length;
    char *at;
} matrix;

static int64_t place_of(const tensor *t, int64_t i, int64_t j) { return i * t->stride[0] + j * t->stride[1]; }

static double element(const matrix *x, int64_t i, int64_t j)
{
    int64_t at = place_of(&x->t, i, j);
    return (double)(x->t.type == BF16 ? bf16_widen(((uint16_t *)x->bytes)[at]) : ((float *)x->bytes)[at]);
}

static void element_set(matrix *x, int64_t i, int64_t j, double value)
{
    int64_t at = place_of(&x->t, i, j);
    if (x->t.type == BF16) ((uint16_t *)x->bytes)[at] = bf16_round((float)value);
    else ((float *)x->bytes)[at] = (float)value;
}

static int integer(int64_t i, int64_t j, int number) { return (int)((i * 7 + j * 5 + number * 3 + i * j) % 7) - 3; }

/* gap: elements between rows. */
static matrix matrix_open(dtype type, int64_t rows, int64_t columns, int64_t gap, int number)
{
    matrix x = { .length = ((size_t)(rows * (columns + gap)) * dtype_bytes(type) + 255) / 256 * 256,
                 .at = device.memory + device.used };
    x.bytes = malloc(x.length + 1);
    memset(x.bytes, GAP_VALUE, x.length);
    x.t = tensor_2d(x.at, type, rows, columns);
    x.t.stride[0] = columns + gap;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) element_set(&x, i, j, integer(i, j, number));
    device.used += x.length;
    if (device.used > ARENA) abort();
    CUDA_CHECK(cudaMemcpy(x.at, x.bytes, x.length, cudaMemcpyHostToDevice));
    return x;
}

/* Closes the matrix that was opened last. */
static void matrix_close(matrix *x)
{
    device.used -= x->length;
    free(x->bytes);
}

static op product_of(const matrix *c, access_mode how, const matrix *a, const matrix *b)
{
    return (op){ .kind = OP_MATMUL,
                 .operands = 3,
                 .operand = { { c->t, how }, { a->t, READ }, { b->t, READ } },
                 .origin.name = "layers.3.down" };
}

static cuda_call call_of(const op *o)
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

/* Sums are exact in FP32 in any order, and the result is rounded once. The bytes between rows must not change. */
static void expect_product(const char *what, const op *o, matrix *c, const matrix *a, const matrix *b)
{
    matrix expected = *c;
    bool update = o->operand[0].access == UPDATE;
    int64_t m = c->t.dim[0], n = c->t.dim[1], terms = a->t.dim[1];
    double *left = values(a), *right = values(b);
    expected.bytes = memcpy(malloc(c->length + 1), c->bytes, c->length);
    CUDA_CHECK(cudaMemcpy(c->bytes, c->at, c->length, cudaMemcpyDeviceToHost));
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

/* Prepares the product of this number and calls before(), or runs it and checks the result if before is NULL. */
static void one_product(int number, dtype type, void (*before)(const op *))
{
    static const int64_t sizes[PRODUCTS][3] = { { 16, 64, 32 }, { 33, 25, 61 }, { 24, 1, 200 } };
    const int64_t *s = sizes[number];
    matrix a = matrix_open(type, s[0], s[2], 0, 1), b = matrix_open(type, s[2], s[1], 0, 2),
           c = matrix_open(type, s[0], s[1], 0, 3);
    op o = product_of(&c, WRITE, &a, &b);
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
    for (int i = 0; i < PRODUCTS; i++) one_product(i, BF16, before);
}

static void nothing(const op *o) { (void)o; }

/* The memory for trials is separate from that of the matrices. */
static void tune(machine_tuning tuning)
{
    void *memory;
    CUDA_CHECK(cudaMalloc(&memory, ARENA));
    cuda_matmul_tune(&tuning, memory, ARENA);
    CUDA_CHECK(cudaFree(memory));
}

/* ---- processes ---- */

/* Runs body in a child. said: its stderr and stdout. Returns whether it ended well. */
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
    for (ssize_t n; length < OUTPUT - 1 && (n = read(ends[0], said + length, OUTPUT - 1 - length)) > 0;)
        length += (size_t)n;
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

/* The stride of a single line is ignored. A sum without terms is zero, or adds nothing. */
static void degenerate(void)
{
    static const int64_t strides[][2] = { { 1, 1 }, { 9, 1 }, { 0, 1 } };
    for (int s = 0; s < 3; s++) {
        matrix a = matrix_open(BF16, 1, 9, 0, 1), b = matrix_open(BF16, 9, 1, 0, 2), c = matrix_open(BF16, 1, 1, 0, 3);
        for (int i = 0; i < 2; i++) a.t.stride[i] = strides[s][i], b.t.stride[i] = strides[s][!i];
        c.t.stride[0] = c.t.stride[1] = s;
        op o = product_of(&c, UPDATE, &a, &b);
        cuda_matmul_prepare(&o);
        run(&o);
        expect_product("line times line", &o, &c, &a, &b);
        matrix outer = matrix_open(BF16, 9, 9, 2, 3), row = a, column = b;
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
        matrix a = matrix_open(F32, 6, 0, 0, 1), b = matrix_open(F32, 0, 5, 0, 2);
        matrix c = matrix_open(F32, 6, 5, 3, 3);
        op o = product_of(&c, how, &a, &b), empty = o;
        for (int i = 0; i < 2; i++) empty.operand[i].tensor.dim[0] = 0;
        cuda_matmul_prepare(&o);
        cuda_matmul_prepare(&empty);
        run(&empty);
        run(&o);
        expect_product("sum of no terms", &o, &c, &a, &b);
    }
}

/* Tuning results outlive the machine; another machine uses them. */
static void opened_again(void)
{
    one_product(0, F32, nothing);
    tune((machine_tuning){ 0 });
    cuda_matmul_close();
    cuda_matmul_open();
    one_product(0, F32, NULL);
}

static void never_prepared(void)
{
    matrix a = matrix_open(F32, 4, 4, 0, 1), b = matrix_open(F32, 4, 4, 0, 2), c = matrix_open(F32, 4, 4, 0, 3);
    op o = product_of(&c, WRITE, &a, &b), other = product_of(&c, UPDATE, &a, &b);
    cuda_matmul_prepare(&o);
    run(&other);
}

static void overlapping_rows(void)
{
    matrix a = matrix_open(F32, 4, 4, 0, 1), c = a;
    a.t.stride[0] = 3;
    op o = product_of(&c, WRITE, &a, &c);
    cuda_matmul_prepare(&o);
}

static void little_scratch(void)
{
    matrix a = matrix_open(BF16, 64, 64, 0, 1), b = matrix_open(BF16, 64, 64, 0, 2),
           c = matrix_open(BF16, 64, 64, 0, 3);
    op o = product_of(&c, WRITE, &a, &b);
    cuda_matmul_prepare(&o);
    cuda_call call = call_of(&o);
    call.scratch_bytes = 200;
    cuda_matmul(&call);
}

/* One wrong property of a product d = a b below the public interface, and the library's words; NULL: nothing is wrong.
 */
enum { NOTHING, LEADING, UNALIGNED, ALGORITHM, FP8, FP8_LAYOUT, FP8_FORMATS, FP8_MIXED, FP8_OUTPUT };
enum { FP8_TERMS = FP8_OUTPUT + 1, FP8_ROWS, FP8_LEADING, FP8_PROMISE, FP8_BIAS, FP8_NO_SCALE };
static const struct {
    int mistake;
    const char *words;
} deeds[] = {
    { NOTHING, NULL },
    { LEADING, "a has leading dimension 7 and 8 rows" },
    { UNALIGNED, "matrix a is not aligned to the 16 bytes" },
    { ALGORITHM, "CUBLAS_STATUS_NOT_SUPPORTED" },
    { FP8, NULL },
    { FP8_LAYOUT, "FP8 with a transposed and b transposed" },
    { FP8_FORMATS, "formats 29 times 29 to 14" },
    { FP8_MIXED, "formats 28 times 14 to 14" },
    { FP8_OUTPUT, "formats 28 times 28 to 28" },
    { FP8_TERMS, "no multiples of 16" },
    { FP8_ROWS, "no multiples of 16" },
    { FP8_LEADING, "do not begin at multiples of 16 bytes" },
    { FP8_PROMISE, "FP8 aligned to 8 bytes" },
    { FP8_BIAS, "which would be BF16" },
    { FP8_NO_SCALE, "cublasLtMatmul: a scale" },
};
static size_t deed;

static void make_fp8(product_key *key, void **x)
{
    key->m = key->n = key->k = 16;
    for (int i = 0; i < MATRICES; i++) key->leading[i] = 16, key->format[i] = i == DESTINATION ? BF16 : E4M3;
    key->transposed[LEFT] = 1;
    x[LEFT_SCALE] = x[RIGHT_SCALE] = device.memory + 12288;
}

static void spoil(int which, product_key *key, candidate *c, void **x)
{
    if (which >= FP8) make_fp8(key, x);
    switch (which) {
    case LEADING: key->leading[LEFT] = 7; break;
    case UNALIGNED: x[LEFT] = device.memory + 4100; break;
    case ALGORITHM: c->algorithm = (cublasLtMatmulAlgo_t){ { 0 } }; break;
    case FP8_LAYOUT: key->transposed[RIGHT] = 1; break;
    case FP8_FORMATS: key->format[LEFT] = key->format[RIGHT] = E5M2; break;
    case FP8_MIXED: key->format[RIGHT] = BF16; break;
    case FP8_OUTPUT: key->format[DESTINATION] = E4M3; break;
    case FP8_TERMS: key->k = 8; break;
    case FP8_ROWS: key->m = 8; break;
    case FP8_LEADING: key->leading[RIGHT] = 24; break;
    case FP8_PROMISE: key->alignment[RIGHT] = 8; break;
    case FP8_BIAS: key->format[DESTINATION] = F32, key->bias = 1; break;
    case FP8_NO_SCALE: x[RIGHT_SCALE] = device.memory + ARENA; break;
    default: break;
    }
}

static void planted(void)
{
    int which = deeds[deed].mistake;
    product p = { .key = { .m = 8,
                           .n = 8,
                           .k = 8,
                           .leading = { 8, 8, 8 },
                           .alignment = { 16, 16, 16 },
                           .format = { F32, F32, F32 } } };
    candidate list[PRODUCT_CANDIDATES], none = { .workspace = 0 };
    void *x[ADDRESSES] = { device.memory, device.memory + 4096, device.memory + 8192 };
    spoil(which, &p.key, &none, x);
    product_open(&p, 0);
    if (product_candidates(&p, list) < 2) exit(3);
    spoil(which, &p.key, &list[0], x);
    CUBLAS_CHECK(&p.key, product_run(&p, &list[0], x, device.scratch, device.stream));
    CUDA_CHECK(cudaStreamSynchronize(device.stream));
}

static void test_exact(void **state)
{
    passes(degenerate);
    passes(opened_again);
}

static void test_refused(void **state)
{
    dies(never_prepared, "matmul layers.3.down: not prepared: f32 d[4, 4] += f32 a[4, 4] b[4, 4]");
    dies(overlapping_rows, "rows or columns of a matrix overlap");
    dies(little_scratch, "matmul layers.3.down: its scratch is only 200 bytes");
}

static void test_planted(void **state)
{
    for (deed = 0; deed < sizeof deeds / sizeof *deeds; deed++)
        if (deeds[deed].words) dies(planted, deeds[deed].words);
        else passes(planted);
}

/* ---- algorithms ---- */

static void print_list(void)
{
    char text[OUTPUT];
    cuda_matmul_algorithms(text, sizeof text);
    fputs(text, stderr);
}

static void list_algorithms(machine_tuning options)
{
    all_products(nothing);
    tune(options);
    all_products(NULL);
    print_list();
}

static void list_tried(void) { list_algorithms((machine_tuning){ 0 }); }
static void list_deterministic(void) { list_algorithms((machine_tuning){ .deterministic = true }); }

/* The memory is too small for trials. */
static void list_untried(void)
{
    void *memory;
    one_product(0, F32, nothing);
    CUDA_CHECK(cudaMalloc(&memory, 4096));
    cuda_matmul_tune(&(machine_tuning){ 0 }, memory, 4096);
    one_product(0, F32, NULL);
    print_list();
    CUDA_CHECK(cudaFree(memory));
}

static int times_in(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)); text++) count++;
    return count;
}

/* Returns how many lines of the list contain the words. */
static int says(void (*body)(void), const char *words)
{
    char said[OUTPUT];
    if (!child(body, said)) fail_msg("%.2000s", said);
    return times_in(said, words);
}

static void expect_lines(const char *when, size_t room, int lines, const char *last)
{
    char text[OUTPUT];
    memset(text, '!', sizeof text);
    cuda_matmul_algorithms(text, room);
    size_t length = strlen(text), end = strlen(last);
    bool ends = length >= end && strcmp(text + length - end, last) == 0;
    if (length < room && times_in(text, "\n") == lines && ends) return;
    fprintf(stderr, "%s: %d lines, expected: %d, the last %s: %s", when, times_in(text, "\n"), lines, last, text);
    exit(3);
}

/* The list has no product that was only tuned or ran on an earlier machine. Lines that do not fit are counted, not
 * cut. */
static void list_what_ran(void)
{
    char text[OUTPUT];
    all_products(nothing);
    tune((machine_tuning){ 0 });
    expect_lines("nothing ran", sizeof text, 0, "");
    one_product(1, BF16, NULL);
    expect_lines("one ran", sizeof text, 1, "\n");
    all_products(NULL);
    cuda_matmul_algorithms(text, sizeof text);
    size_t whole = strlen(text), line = strcspn(text, "\n") + 1;
    expect_lines("all fit", whole + 1, 3, "\n");
    for (size_t room = 32; room < line + 32; room++) expect_lines("no room", room, 1, "and 3 more\n");
    for (size_t room = line + 32; room < line + 64; room++) expect_lines("room for one", room, 2, "and 2 more\n");
    expect_lines("nearly all fit", whole, 3, "and 1 more\n");
    cuda_matmul_open();
    expect_lines("another machine", sizeof text, 0, "");
    cuda_matmul_close();
}

static void test_list(void **state) { passes(list_what_ran); }

static void test_sources(void **state)
{
    static const char TRIED[] = "the fastest tried", FIRST[] = "the library's first answer";
    assert_int_equal(says(list_tried, TRIED), 3);
    assert_int_equal(says(list_deterministic, FIRST), 3);
    assert_int_equal(says(list_untried, FIRST), 1);
}

int main(void)
{
    algorithms_try_from(0.0, 0.0);
    TESTS(tests, test_exact, test_refused, test_planted, test_list, test_sources);
    return cmocka_run_group_tests_name("cuda_matmul", tests, NULL, NULL);
}
