/* Matrix products of the CUDA machine on the emulated library: every layout, format and access, planned at first use
 * and tuned; what is refused; and mistakes behind the door, which the emulated library must find. */
#include "machine/cuda/products/algorithms.h"
#include "products.h"

static void planned_at_first_use(void) { all_products(NULL); }

static void tuned(void)
{
    all_products(nothing);
    tune((machine_tuning){ .transfer_multiprocessors = 16 });
    all_products(NULL);
}

/* A single line's stride is free, whatever it says; a sum of no terms is zero, or adds nothing. */
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

/* 1 plus 600 times 2^-9: parts of the sum that are rounded to BF16 would lose it. */
static void rounded_once(void)
{
    for (int number = 0; number < 2; number++) {
        layout l = { .gap = number ? 3 : 0 };
        matrix a = matrix_open(BF16, 48, 600, l, 1), b = matrix_open(BF16, 600, 32, l, 2),
               c = matrix_open(BF16, 48, 32, l, 3);
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
            tune((machine_tuning){ 0 });
        }
    }
}

/* What is known outlives the machine; another one uses it. */
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

/* d = a b of 8 x 8, one fact of it wrong, behind the door. */
static void planted(void (*spoil)(product *, candidate *, void **))
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

static void planted_nothing(void) { planted(spoil_nothing); }
static void planted_small(void) { planted(spoil_small); }
static void planted_large(void) { planted(spoil_large); }
static void planted_alignment(void) { planted(spoil_alignment); }
static void planted_address(void) { planted(spoil_address); }
static void planted_alias(void) { planted(spoil_alias); }
static void planted_workspace(void) { planted(spoil_workspace); }
static void planted_place(void) { planted(spoil_place); }
static void planted_algorithm(void) { planted(spoil_algorithm); }

static void test_exact(void **state)
{
    passes(planned_at_first_use);
    passes(tuned);
    passes(degenerate);
    passes(rounded_once);
    passes(opened_again);
}

static void test_refused(void **state)
{
    dies(never_prepared, "matmul layers.3.down: nobody has prepared f32 d[4, 4] += f32 a[4, 4] b[4, 4]");
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
    algorithms_try_from(0.0, 0.0);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_exact), cmocka_unit_test(test_refused),
                                        cmocka_unit_test(test_planted) };
    return cmocka_run_group_tests_name("emulator/cuda_matmul", tests, NULL, NULL);
}
