/* Matrix products of the CUDA machine with the emulated library: lines and empty sums, refusals, and internal mistakes
 * that the emulated library must find. units/machine/operations tests layouts, formats and accesses. */
#include "machine/cuda/products/algorithms.h"
#include "products.h"

/* The stride of a single line is ignored. A sum without terms is zero, or adds nothing. */
static void degenerate(void)
{
    static const int64_t strides[][2] = { { 1, 1 }, { 9, 1 }, { 0, 1 } };
    layout plain = { 0 };
    for (int s = 0; s < 3; s++) {
        matrix a = matrix_open(BF16, 1, 9, plain, 1), b = matrix_open(BF16, 9, 1, plain, 2),
               c = matrix_open(BF16, 1, 1, plain, 3);
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
        matrix a = matrix_open(F32, 6, 0, plain, 1), b = matrix_open(F32, 0, 5, plain, 2);
        matrix c = matrix_open(F32, 6, 5, (layout){ .gap = 3 }, 3);
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
    one_product(&shapes[2], all_formats[0], WRITE, 0, nothing);
    tune((machine_tuning){ 0 });
    cuda_matmul_close();
    cuda_matmul_open();
    one_product(&shapes[2], all_formats[0], WRITE, 0, NULL);
}

static void never_prepared(void)
{
    layout plain = { 0 };
    matrix a = matrix_open(F32, 4, 4, plain, 1), b = matrix_open(F32, 4, 4, plain, 2),
           c = matrix_open(F32, 4, 4, plain, 3);
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
    layout plain = { 0 };
    matrix a = matrix_open(BF16, 64, 64, plain, 1), b = matrix_open(BF16, 64, 64, plain, 2),
           c = matrix_open(BF16, 64, 64, plain, 3);
    op o = product_of(&c, WRITE, &a, &b);
    cuda_matmul_prepare(&o);
    cuda_call call = call_of(&o);
    call.scratch_bytes = 200;
    cuda_matmul(&call);
}

/* Computes d = a b of 8 x 8 with one wrong property, below the public interface. */
static void plant(void (*spoil)(product *, candidate *, void **))
{
    product p = { .key = { .m = 8,
                           .n = 8,
                           .k = 8,
                           .leading = { 8, 8, 8 },
                           .alignment = { 16, 16, 16 },
                           .format = { F32, F32, F32 } } };
    candidate list[PRODUCT_CANDIDATES], none = { .workspace = 0 };
    void *x[ADDRESSES] = { device.memory, device.memory + 4096, device.memory + 8192 };
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
static void spoil_address(product *p, candidate *c, void **x)
{
    (void)c, (void)p, x[RIGHT] = device.memory + ARENA - 128;
}
static void spoil_alias(product *p, candidate *c, void **x) { (void)c, (void)p, x[DESTINATION] = x[LEFT]; }
static void spoil_workspace(product *p, candidate *c, void **x) { (void)p, (void)x, c->workspace = c->workspace / 2; }
static void spoil_place(product *p, candidate *c, void **x) { (void)c, (void)x, p->name[1] = 'w'; }
static void spoil_algorithm(product *p, candidate *c, void **x)
{
    (void)p, (void)x, c->algorithm = (cublasLtMatmulAlgo_t){ { 0 } };
}

static void make_fp8(product *p, void **x)
{
    product_key *key = &p->key;
    key->m = key->n = key->k = 16;
    for (int i = 0; i < MATRICES; i++) key->leading[i] = 16, key->format[i] = i == DESTINATION ? BF16 : E4M3;
    key->transposed[LEFT] = 1;
    x[LEFT_SCALE] = x[RIGHT_SCALE] = device.memory + 12288;
}
static void spoil_fp8(product *p, candidate *c, void **x) { (void)c, make_fp8(p, x); }
static void spoil_fp8_layout(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), p->key.transposed[RIGHT] = 1;
}
static void spoil_fp8_formats(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), p->key.format[LEFT] = p->key.format[RIGHT] = E5M2;
}
static void spoil_fp8_mixed(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), p->key.format[RIGHT] = BF16;
}
static void spoil_fp8_output(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), p->key.format[DESTINATION] = E4M3;
}
static void spoil_fp8_terms(product *p, candidate *c, void **x) { (void)c, make_fp8(p, x), p->key.k = 8; }
static void spoil_fp8_rows(product *p, candidate *c, void **x) { (void)c, make_fp8(p, x), p->key.m = 8; }
static void spoil_fp8_leading(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), p->key.leading[RIGHT] = 24;
}
static void spoil_fp8_promise(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), p->key.alignment[RIGHT] = 8;
}
static void spoil_fp8_bias(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), p->key.format[DESTINATION] = F32, p->key.bias = 1;
}
static void spoil_fp8_scale(product *p, candidate *c, void **x)
{
    (void)c, make_fp8(p, x), x[RIGHT_SCALE] = device.memory + ARENA;
}

/* The library's message for each mistake; NULL if nothing is wrong. */
static const struct {
    void (*spoil)(product *, candidate *, void **);
    const char *words;
} deeds[] = {
    { spoil_nothing, NULL },
    { spoil_small, "a has leading dimension 7 and 8 rows" },
    { spoil_small, "CUBLAS_STATUS_INVALID_VALUE" },
    { spoil_large, "do not lie in one live device allocation" },
    { spoil_alignment, "matrix a is not aligned to the 16 bytes" },
    { spoil_address, "cublasLtMatmul: b" },
    { spoil_alias, "d is a or b" },
    { spoil_workspace, "bytes of workspace" },
    { spoil_place, "the workspace is not aligned" },
    { spoil_algorithm, "CUBLAS_STATUS_NOT_SUPPORTED" },
    { spoil_fp8, NULL },
    { spoil_fp8_layout, "FP8 with a transposed and b transposed" },
    { spoil_fp8_formats, "formats 29 times 29 to 14" },
    { spoil_fp8_mixed, "formats 28 times 14 to 14" },
    { spoil_fp8_output, "formats 28 times 28 to 28" },
    { spoil_fp8_terms, "no multiples of 16" },
    { spoil_fp8_rows, "no multiples of 16" },
    { spoil_fp8_leading, "do not begin at multiples of 16 bytes" },
    { spoil_fp8_promise, "FP8 aligned to 8 bytes" },
    { spoil_fp8_bias, "which would be BF16" },
    { spoil_fp8_scale, "cublasLtMatmul: a scale" },
};
static size_t deed;

static void planted(void) { plant(deeds[deed].spoil); }

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

int main(void)
{
    algorithms_try_from(0.0, 0.0);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_exact), cmocka_unit_test(test_refused),
                                        cmocka_unit_test(test_planted) };
    return cmocka_run_group_tests_name("emulator/cuda_matmul", tests, NULL, NULL);
}
