/* Operations that move data, tested bitwise: copies, additions, fills, sums, planted faults. */
#include "operations.h"

static void check_copies(int64_t n)
{
    for (dtype to = F32; to <= F64; to++)
        for (dtype from = F32; from <= F64; from++)
            for (access_mode how = WRITE; how <= UPDATE; how++) {
                sample x = sample_open(from, 1, &n, 0), y = sample_open(to, 1, &n, 0),
                       expected = sample_open(to, 1, &n, 0);
                sample_randomize(&x, 1, 1.0, 0.0);
                sample_randomize(&y, 2, 1.0, 0.0);
                RUN(q, submit(q, "copy", copy_op(y.t, how, x.t)));
                for (int64_t i = 0; i < n; i++) {
                    double sum = x.value[i] + (how == UPDATE ? y.value[i] : 0.0);
                    element_set(&expected.t, i, to == F64 || from == F64 ? sum : (double)(float)sum);
                    assert_true(element(&y.t, i) == element(&expected.t, i));
                }
                sample *all[] = { &x, &y, &expected };
                for (int i = 0; i < 3; i++) sample_close(all[i]);
            }
}

static void copies(void **state)
{
    check_copies(3000);
    check_copies(2999);
}

/* Sums are rounded once. The number of elements need not be a multiple of a kernel's vector. */
static void adds(void **state)
{
    const int64_t n = 5003;
    for (dtype type = F32; type <= BF16; type++) {
        sample a = sample_open(type, 1, &n, 0), b = sample_open(type, 1, &n, 0), sum = sample_open(type, 1, &n, 0);
        sample_randomize(&a, 1, 1.0, 0.0);
        sample_randomize(&b, 2, 1.0, 0.0);
        RUN(q, submit(q, "add", add_op(sum.t, a.t, b.t)));
        for (int64_t i = 0; i < n; i++) {
            float expected = (float)a.value[i] + (float)b.value[i];
            assert_true(element(&sum.t, i) == (double)(type == BF16 ? bf16_widen(bf16_round(expected)) : expected));
        }
        sample *all[] = { &a, &b, &sum };
        for (int i = 0; i < 3; i++) sample_close(all[i]);
    }
}

/* Tests rounding to BF16: every upper half of the bits, also NaN, with lower halves at zero, at the tie and next to
 * both. At odd addresses kernels cannot use vectors. */
static void roundings(void **state)
{
    static const uint16_t low[] = { 0, 1, 0x4000, 0x7FFF, 0x8000, 0x8001, 0xC000, 0xFFFF };
    enum { LOWS = sizeof low / sizeof *low, N = 65536 * LOWS };
    float *x = calloc(N + 1, sizeof *x);
    uint16_t *y = calloc(N + 1, sizeof *y);
    for (uint32_t i = 0; i < N; i++) x[i] = float_from_bits(i / LOWS << 16 | low[i % LOWS]);
    for (int odd = 0; odd < 2; odd++) {
        RUN(q, submit(q, "copy", copy_op(tensor_1d(y + odd, BF16, N), WRITE, tensor_1d(x + odd, F32, N))));
        for (int64_t i = odd; i < N + odd; i++)
            if (y[i] != bf16_round(x[i])) fail_msg("%08x became %04x", float_bits(x[i]), y[i]);
    }
    free(x);
    free(y);
}

/* Copies between views of equal shapes; the elements between rows stay. */
static void check_copy_of_views(dtype to, dtype from, int64_t columns, access_mode how, int64_t gap)
{
    const int64_t dim[] = { 7, 2, 3, columns };
    sample x = sample_open(from, 4, dim, gap), y = sample_open(to, 4, dim, gap + 8);
    sample_randomize(&x, 1, 1.0, 0.0);
    sample_randomize(&y, 2, 1.0, 0.0);
    RUN(q, submit(q, "copy", copy_op(y.t, how, x.t)));
    for (int64_t i = 0; i < x.elements; i++) {
        float sum = (float)x.value[i] + (how == UPDATE ? (float)y.value[i] : 0.0f);
        assert_true(element(&y.t, i) == (to == BF16 ? (double)bf16_widen(bf16_round(sum)) : (double)sum));
    }
    sample_check_gaps(&y, "copy");
    sample_close(&x);
    sample_close(&y);
}

static void copies_of_views(void **state)
{
    for (dtype to = F32; to <= BF16; to++)
        for (dtype from = F32; from <= BF16; from++)
            for (access_mode how = WRITE; how <= UPDATE; how++) {
                check_copy_of_views(to, from, 6, how, 5);
                check_copy_of_views(to, from, 2100, how, 5);
                check_copy_of_views(to, from, 2104, how, 8); /* aligned rows */
            }
}

/* Adds parts in FP32, in order, rounds once, and writes rows with or without gaps. */
static void check_sum_of_parts(dtype to, dtype from, int64_t parts, int64_t columns, int64_t gap)
{
    const int64_t dim[] = { 5, 2, 3, columns }, elements = 30 * columns, all = parts * elements;
    sample x = sample_open(from, 1, &all, 0), y = sample_open(to, 4, dim, gap);
    sample_randomize(&x, 1, 1.0, 0.0);
    RUN(q, submit(q, "sum", sum_parts_op(y.t, x.t)));
    for (int64_t i = 0; i < elements; i++) {
        float sum = (float)x.value[i];
        for (int64_t p = 1; p < parts; p++) sum += (float)x.value[p * elements + i];
        assert_true(element(&y.t, i) == (to == BF16 ? (double)bf16_widen(bf16_round(sum)) : (double)sum));
    }
    sample_check_gaps(&y, "sum_parts");
    sample_close(&x);
    sample_close(&y);
}

static void sums_of_parts(void **state)
{
    static const struct {
        int64_t parts, columns, gap;
    } row[] = { { 1, 8, 0 }, { 2, 6, 0 }, { 3, 104, 5 }, { 8, 2104, 8 }, { 17, 40, 8 } };
    for (dtype to = F32; to <= BF16; to++)
        for (dtype from = F32; from <= BF16; from++)
            for (int i = 0; i < 5; i++) check_sum_of_parts(to, from, row[i].parts, row[i].columns, row[i].gap);
}

static void copies_of_words(void **state)
{
    uint64_t from[3] = { 1, UINT64_MAX, 1ull << 60 }, to[3];
    RUN(q, submit(q, "copy", copy_op(tensor_1d(to, U64, 3), WRITE, tensor_1d(from, U64, 3))));
    assert_memory_equal(to, from, sizeof from);
}

static void fills(void **state)
{
    for (dtype type = F32; type < DTYPES; type++) {
        sample x = sample_open(type, 1, (int64_t[]){ 5001 }, 0);
        RUN(q, submit(q, "fill", fill_op(x.t, 3.0)));
        for (int64_t i = 0; i < 5001; i++) assert_true(element(&x.t, i) == 3.0);
        sample_close(&x);
    }
}

static void sums(void **state)
{
    double x[5] = { 1e16, 1, -1e16, 1, 1 }, out = 7;
    RUN(q, submit(q, "sum", sum_op(tensor_1d(&out, F64, 1), WRITE, tensor_1d(x, F64, 5))));
    assert_true(out == 2);
    RUN(q, submit(q, "sum", sum_op(tensor_1d(&out, F64, 1), UPDATE, tensor_1d(x + 3, F64, 2))));
    assert_true(out == 4);
}

static void submit_fault(queue *q, op_kind kind, tensor t, int64_t index)
{
    op o = { .kind = kind, .operands = 1, .operand = { { t, UPDATE } }, .origin.name = "fault" };
    if (kind == OP_SCALE) o.args.scale.factor = 2.0;
    if (kind == OP_FLIP) o.args.flip.index = index;
    if (kind == OP_FILL) o.args.fill.value = 0.0, o.operand[0].access = WRITE;
    op_submit(q, &o);
}

/* Planted faults change views with gaps, and nothing outside them. */
static void faults(void **state)
{
    for (dtype type = F32; type <= F64; type++) {
        sample x = sample_open(type, 4, (int64_t[]){ 3, 2, 2, 5 }, 4);
        sample_randomize(&x, 1, 1.0, 0.0);
        RUN(q, submit_fault(q, OP_SCALE, x.t, 0));
        for (int64_t i = 0; i < 60; i++) assert_true(element(&x.t, i) == 2 * x.value[i]);
        element_set(&x.t, 37, 1.0);
        RUN(q, submit_fault(q, OP_FLIP, x.t, 37));
        assert_true(isinf(element(&x.t, 37)));
        for (int64_t i = 0; i < 60; i++) assert_true(i == 37 || element(&x.t, i) == 2 * x.value[i]);
        RUN(q, submit_fault(q, OP_FILL, x.t, 0));
        for (int64_t i = 0; i < 60; i++) assert_true(element(&x.t, i) == 0.0);
        sample_check_gaps(&x, "a planted fault");
        sample_close(&x);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),
        cmocka_unit_test(copies_of_words),
        cmocka_unit_test(adds),
        cmocka_unit_test(roundings),
        cmocka_unit_test(copies_of_views),
        cmocka_unit_test(fills),
        cmocka_unit_test(sums_of_parts),
        cmocka_unit_test(sums),
        cmocka_unit_test(faults),
    };
    world_start(&argc, &argv);
    beside_host = true;
    int failed = cmocka_run_group_tests_name("operations_moves", tests, NULL, NULL);
    world_stop();
    return failed;
}
