/* Do cuDNN's engines for an H100 take the graphs of attention, with the workspace that they are promised? Asked of the
 * library by the description of the device; without a GPU and its driver a plan is made up to the loading of its
 * kernel. */
#include "machine/cuda/attention/attention_library.h"
#include "machine/cuda/attention/attention_staging.h"
#include "machine/cuda/cudnn/cudnn_attention_graph.h"
#include "units/machine/cudnn_h100.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* s, b, heads, kv_heads, d, causal */
typedef struct {
    int64_t s, b, heads, kv_heads, d;
    bool causal;
} shape;
static const shape shapes[] = {
    { 8192, 1, 32, 8, 128, true }, { 8192, 1, 64, 8, 128, true }, { 4096, 2, 64, 8, 128, true },
    { 8192, 1, 8, 2, 128, false }, { 4096, 1, 12, 1, 192, true }, { 500, 1, 4, 2, 64, true },
    { 128, 1, 4, 2, 16, true },
};

/* Of context parallelism: a rank has s positions of queries in fused rows. */
static const shape context[] = {
    { 4096, 1, 32, 8, 128, true }, { 1024, 2, 16, 16, 128, true }, { 2048, 1, 12, 1, 192, true },
    { 500, 2, 4, 2, 64, true },    { 64, 1, 4, 2, 16, true },
};

/* Heads out of rows of `row` elements, which begin with them. */
static tensor heads_of(const shape *n, dtype type, int64_t heads, int64_t row)
{
    tensor t = tensor_4d(NULL, type, n->s, n->b, row / n->d, n->d);
    return tensor_slice(t, 2, 0, heads);
}

static tensor statistics_of(const shape *n) { return tensor_3d(NULL, F32, n->b, n->heads, n->s); }

static cuda_call call_of(const shape *n)
{
    int64_t fused = (n->heads + 2 * n->kv_heads) * n->d, row = n->heads * n->d;
    cuda_call c = { .args.attention = { .scale = 1.0f, .causal = n->causal } };
    c.x[Q] = c.x[DQ] = heads_of(n, BF16, n->heads, fused);
    c.x[K] = c.x[V] = c.x[DK] = c.x[DV] = heads_of(n, BF16, n->kv_heads, fused);
    c.x[OUT] = c.x[D_OUT] = heads_of(n, BF16, n->heads, row);
    c.x[LSE] = statistics_of(n);
    return c;
}

/* Both calls of context rank 1 of 2, as model/attention.c makes them: of 4 pieces of s / 2 positions it has the second
 * and the third. Keys, then values, of all. */
enum { CALLS = 2 };
static cuda_call part_of(const shape *n, int call)
{
    static const int by_query[] = { Q, OUT, D_OUT, DQ };
    int64_t piece = n->s / 2, row = 2 * n->kv_heads * n->d;
    cuda_call c = call_of(n);
    for (int i = 0; i < 4; i++) c.x[by_query[i]] = tensor_slice(c.x[by_query[i]], 0, call * piece, piece);
    const shape keys = { (call + 2) * piece, n->b, n->heads, n->kv_heads, n->d, true };
    c.x[K] = c.x[V] = heads_of(&keys, BF16, n->kv_heads, row);
    c.x[DK] = c.x[DV] = heads_of(&keys, F32, n->kv_heads, row);
    c.update[DK] = c.update[DV] = call == 0;
    c.x[LSE] = tensor_3d(NULL, F32, n->b, n->heads, piece);
    return c;
}

static cudnnBackendDescriptor_t device;

/* The reason that no plan was made; empty: one was. */
static void try_plan(const attention_spec *a, size_t most, char reason[GRAPH_REASON])
{
    cudnn_graph g;
    attention_graph(&g, a);
    cudnnBackendDescriptor_t plan = graph_plan(&g, device, most);
    memcpy(reason, g.reason, GRAPH_REASON);
    if (plan) cudnnBackendDestroyDescriptor(plan);
    graph_close(&g);
}

static void expect_plan(const cuda_call *c, bool backward)
{
    char reason[GRAPH_REASON];
    attention_parts p = attention_parts_of(c, backward, 0);
    assert_true(library_attention_takes(c, backward));
    for (int i = 0; i < p.parts; i++) {
        const tensor *x = p.part[i].x;
        attention_spec a = attention_spec_of(&p.part[i], backward);
        try_plan(&a, attention_workspace(&a), reason);
        if (reason[0] && !strstr(reason, "cuLibraryLoadData"))
            fail_msg("s %lld, keys %lld, d %lld, %s: %s", (long long)x[Q].dim[0], (long long)x[K].dim[0],
                     (long long)x[Q].dim[3], backward ? "backward" : "forward", reason);
    }
}

static void engines_take_the_graphs(void **state)
{
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        cuda_call c = call_of(&shapes[i / 2]);
        expect_plan(&c, i % 2);
    }
}

static void engines_take_pieces(void **state)
{
    for (size_t i = 0; i < 2 * CALLS * sizeof context / sizeof *context; i++) {
        cuda_call c = part_of(&context[i / (2 * CALLS)], (int)(i / 2 % CALLS));
        expect_plan(&c, i % 2);
    }
}

/* FP32 gradients of keys and values, and the second part's dq, have twins in scratch, apart from each other and within
 * what is promised. */
static void parts_have_twins(void **state)
{
    enum { PIECE_BYTES = 1024 * 8 * 128 * 2, KEY_BYTES = 2 * PIECE_BYTES, QUERY_BYTES = 4 * PIECE_BYTES };
    const shape n = { 2048, 1, 32, 8, 128, true };
    cuda_call c = part_of(&n, 0), plain = c;
    assert_int_equal(attention_parts_of(&c, false, 512).end, 512);
    attention_parts p = attention_parts_of(&c, true, 512);
    assert_int_equal(p.parts, 2);
    assert_int_equal(p.end, 512 + 2 * KEY_BYTES + QUERY_BYTES);
    assert_ptr_equal(p.staged.x[DK].data, 512);
    assert_ptr_equal(p.staged.x[DV].data, 512 + KEY_BYTES);
    assert_ptr_equal(p.part[1].x[DQ].data, 512 + 2 * KEY_BYTES);
    assert_true(p.staged.x[DK].type == BF16 && !p.staged.update[DK] && tensor_contiguous(&p.staged.x[DV]));
    for (int i = DK; i <= DV; i++) plain.x[i].type = BF16, plain.update[i] = false;
    assert_int_equal(attention_parts_of(&plain, true, 0).end, QUERY_BYTES);
    assert_int_equal(library_attention_scratch(&c, true), library_attention_scratch(&plain, true) + 2 * KEY_BYTES);
    attention_spec second = attention_spec_of(&p.part[1], true), first = attention_spec_of(&p.part[0], true);
    size_t a = attention_workspace(&first), b = attention_workspace(&second), rows = 1024 * 32 * sizeof(float);
    assert_int_equal(library_attention_scratch(&c, true),
                     256 + rows + 128 * rows + 2 * KEY_BYTES + QUERY_BYTES + (a > b ? a : b));
    assert_true(first.causal && !second.causal);
}

/* Inputs in FP32, sums in BF16 and rows that are no 16-byte pieces are for own kernels. */
static void others_are_not_taken(void **state)
{
    const shape n = { 64, 1, 4, 2, 16, true }, odd = { 64, 1, 4, 2, 12, true };
    cuda_call c = call_of(&n), thin = call_of(&odd);
    assert_true(library_attention_takes(&c, true) && !library_attention_takes(&thin, false));
    c.x[OUT].type = F32;
    assert_false(library_attention_takes(&c, false));
    c = call_of(&n);
    c.x[K].type = F32;
    assert_false(library_attention_takes(&c, false));
    c = call_of(&n);
    c.update[DK] = true;
    assert_false(library_attention_takes(&c, true));
    c = call_of(&n);
    c.x[LSE] = tensor_slice(c.x[LSE], 2, 32, 32);
    assert_false(library_attention_takes(&c, false));
}

static void too_little_workspace_is_refused(void **state)
{
    const cuda_call c = call_of(&shapes[0]);
    attention_spec a = attention_spec_of(&c, true);
    char reason[GRAPH_REASON];
    try_plan(&a, 1 << 20, reason);
    assert_non_null(strstr(reason, "bytes of workspace"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(parts_have_twins), cmocka_unit_test(others_are_not_taken),
                                        cmocka_unit_test(engines_take_the_graphs),
                                        cmocka_unit_test(engines_take_pieces),
                                        cmocka_unit_test(too_little_workspace_is_refused) };
    char why[GRAPH_REASON] = "";
    if (cudnn_load(why, sizeof why)) device = graph_device_described(h100, why);
    if (!device) printf("1..1\nnot ok 1 - cuDNN, which this was built with: %s\n", why);
    return device ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
