/* Attention's gradients of keys and values are sums over a group's query heads. Finds a head that is omitted or added
 * twice. */
#include "operations.h"

/* Returns 1 and -1 alternately, from key to key and from one kv head to the other. */
static double turn_of(int64_t element) { return (element / 4 + element / 2) % 2 ? -1.0 : 1.0; }

/* Two groups of heads have one query each, which sees t zero keys (t is a power of two), so every weight is 1 / t. Head
 * h has query (h + 1, 1) and d_out (2^h, 1); values alternate between (1, 0) and (-1, 0). dv is the group's sum of
 * d_out / t, dk the sum of +- 2^h query / t, so a head omitted or added twice is visible. Error: lse is rounded by
 * 2^-21, its exponential by at most 15 roundings. */
static void check_groups(int64_t t, int64_t of_a_key)
{
    const int64_t query[] = { 1, 1, 2 * of_a_key, 2 }, key[] = { t, 1, 2, 2 }, heads[] = { 1, 2 * of_a_key, 1 };
    sample q = sample_open(BF16, 4, query, 0), d_out = sample_open(BF16, 4, query, 0),
           dq = sample_open(F32, 4, query, 0);
    sample out = sample_open(F32, 4, query, 0), lse = sample_open(F32, 3, heads, 0), k = sample_open(BF16, 4, key, 0);
    sample v = sample_open(BF16, 4, key, 0), dk = sample_open(F32, 4, key, 0), dv = sample_open(F32, 4, key, 0);
    double dk_sum[2][2] = { 0 }, dv_sum[2][2] = { 0 };
    for (int64_t i = 0; i < 4 * of_a_key; i++) {
        int64_t head = i / 2, column = i % 2;
        double factor = exp2((double)head), x = column ? 1.0 : (double)(head + 1), d = column ? 1.0 : factor;
        element_set(&q.t, i, x);
        element_set(&d_out.t, i, d);
        element_set(&out.t, i, 0.0);
        element_set(&lse.t, head, log((double)t));
        dk_sum[head / of_a_key][column] += factor * x;
        dv_sum[head / of_a_key][column] += d;
    }
    for (int64_t i = 0; i < 4 * t; i++) element_set(&k.t, i, 0.0), element_set(&v.t, i, i % 2 ? 0.0 : turn_of(i));
    RUN(queue_, submit(queue_, "d_attention",
                       attention_backward_op((attention_backward_operands){ q.t, k.t, v.t, out.t, lse.t, d_out.t, dq.t,
                                                                            dk.t, dv.t, WRITE },
                                             (attention_args){ .scale = 1.0f, .causal = false })));
    for (int64_t i = 0; i < 4 * t; i++) {
        double dk_expected = turn_of(i) * dk_sum[i / 2 % 2][i % 2], dv_expected = dv_sum[i / 2 % 2][i % 2];
        assert_true(fabs(element(&dk.t, i) * (double)t / dk_expected - 1.0) <= 0x1p-18);
        assert_true(fabs(element(&dv.t, i) * (double)t / dv_expected - 1.0) <= 0x1p-18);
    }
    sample *all[] = { &q, &d_out, &dq, &out, &lse, &k, &v, &dk, &dv };
    for (int i = 0; i < 9; i++) sample_close(all[i]);
}

/* The CUDA machine splits a group with few keys over several blocks: here it does not split, then two blocks of three
 * heads, then six blocks, because four do not divide six heads. */
static void groups(void **state)
{
    check_groups(16384, 2);
    check_groups(8192, 6);
    check_groups(4096, 6);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(groups) };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("operations_groups", tests, NULL, NULL);
    world_stop();
    return failed;
}
