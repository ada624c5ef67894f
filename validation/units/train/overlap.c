/* Overlap of tensor-parallel communication: the rings against the bulk transfers and against what conjugate.h says of
 * them, training with one and with the other. That transfers lie beside products is overlap_spans.c's. */
#include "bench/check.h"
#include "trained.h"
#include "units/machine/fabric_ranks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { DECK = 1024, SCRATCH_BYTES = 1 << 18, SEEDS = 3 };

/* ---- rings and bulk ---- */

typedef struct {
    int64_t part, k, n;
    dtype type, out;
} shape;

/* Uneven halves, single rows (one way has nothing to carry), and sizes beyond a block of the products. */
static const shape shapes[] = {
    { 8, 16, 24, F32, F32 },  { 5, 7, 3, F32, F32 },      { 1, 4, 4, F32, F32 },
    { 37, 65, 70, F32, F32 }, { 8, 16, 24, BF16, BF16 },  { 3, 9, 5, BF16, BF16 },
    { 1, 6, 2, BF16, BF16 },  { 37, 65, 70, BF16, BF16 }, { 6, 10, 8, BF16, F32 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static test_group everybody;

static int open_group(void **state)
{
    (void)state;
    group_of_all(&everybody);
    return 0;
}

static int close_group(void **state)
{
    (void)state;
    group_close(&everybody);
    return 0;
}

/* Element i of what rank r holds, in (-1, 1), as rounded to the format. */
static double given(dtype type, uint32_t what, int rank, int64_t i)
{
    philox_block draw = { { (uint32_t)i, (uint32_t)rank, what, 0 } };
    float x = (float)((double)philox4x32(draw, 5, 7).word[0] * 0x1p-31 - 1.0);
    return (double)(type == BF16 ? bf16_widen(bf16_round(x)) : x);
}

static tensor made(dtype type, int64_t rows, int64_t columns)
{
    return tensor_2d(bytes_of((size_t)(rows * columns) * dtype_bytes(type)), type, rows, columns);
}

static tensor filled(dtype type, int64_t rows, int64_t columns, uint32_t what, int rank)
{
    tensor x = made(type, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++) value_set(type, x.data, i, given(type, what, rank, i));
    return x;
}

typedef struct {
    queues queues;
    void *scratch[HAZARD_QUEUES];
} road;

static road road_open(bool overlap, bool hostile, uint32_t seed)
{
    machine_options o = { .hostile = hostile, .order_seed = seed, .prove_access = true, .world_rank = world_rank() };
    road r = { .queues = queues_open(machine_open(&o), overlap) };
    for (int i = 0; i < machine_queues(r.queues.machine); i++) {
        r.scratch[i] = bytes_of(SCRATCH_BYTES);
        queue_set_scratch(machine_queue_at(r.queues.machine, i), r.scratch[i], SCRATCH_BYTES);
    }
    return r;
}

/* Runs what was submitted; the number of hazards. */
static int64_t road_close(road *r)
{
    machine *m = r->queues.machine;
    machine_sync(m);
    int64_t hazards = machine_hazards(m)->count;
    for (int i = 0; i < machine_queues(m); i++) free(r->scratch[i]);
    machine_close(m);
    return hazards;
}

typedef struct {
    bool overlap, hostile;
    uint32_t seed;
} manner;
typedef struct {
    tensor y, whole;
    int64_t hazards;
} outcome;

static void outcome_free(outcome *x)
{
    free(x->y.data);
    free(x->whole.data);
}

/* Twice in a row into the same places, as layers do. */
static outcome gathered_by(const shape *x, manner how)
{
    group *g = &everybody.g;
    road r = road_open(how.overlap, how.hostile, how.seed);
    tensor part = filled(x->type, x->part, x->k, 1, g->rank), w = filled(x->type, x->k, x->n, 2, g->rank);
    outcome o = { .y = made(x->out, g->size * x->part, x->n), .whole = made(x->type, g->size * x->part, x->k) };
    for (int i = 0; i < 2; i++)
        gather_matmul(&r.queues, "test", g,
                      (gathered_product){ .part = part, .w = w, .whole = o.whole, .y = o.y, .keeps_whole = true });
    o.hazards = road_close(&r);
    free(part.data);
    free(w.data);
    return o;
}

static outcome scattered_by(const shape *x, manner how)
{
    group *g = &everybody.g;
    road r = road_open(how.overlap, how.hostile, how.seed);
    tensor a = filled(x->type, g->size * x->part, x->k, 3, g->rank), w = filled(x->type, x->k, x->n, 4, g->rank);
    tensor partial = made(F32, scatter_partial_parts(&r.queues, g) * x->part, x->n);
    outcome o = { .y = made(x->out, x->part, x->n) };
    for (int i = 0; i < 2; i++)
        matmul_scatter(&r.queues, "test", g, (scattered_product){ .a = a, .w = w, .partial = partial, .out = o.y });
    o.hazards = road_close(&r);
    free(a.data);
    free(w.data);
    free(partial.data);
    return o;
}

static bool same_bytes(tensor a, tensor b)
{
    return tensor_span(&a) == tensor_span(&b) && !memcmp(a.data, b.data, tensor_span(&a));
}

/* Sum over k of |a w|: row of rank `from`'s a, w of rank `held`. */
static double magnitude(const shape *x, uint32_t what, int from, int held, int64_t row, int64_t column)
{
    double sum = 0.0;
    for (int64_t k = 0; k < x->k; k++)
        sum += fabs(given(x->type, what, from, row * x->k + k) * given(x->type, what + 1, held, k * x->n + column));
    return sum;
}

/* Two FP32 sums of `terms` terms in different orders are each within terms 2^-24 sum |terms| of the exact one, to first
 * order; each may then be rounded to BF16, relative 2^-8. */
static bool near(const shape *x, double a, double b, double terms, double sum)
{
    double limit = 2.0 * terms * 0x1p-24 * sum + (x->out == BF16 ? 2.0 * 0x1p-8 * fmax(fabs(a), fabs(b)) : 0.0);
    return fabs(a - b) <= limit;
}

static bool products_near(const shape *x, tensor a, tensor b)
{
    bool right = true;
    for (int64_t i = 0; i < tensor_elements(&a); i++) {
        int64_t row = i / x->n;
        double sum = magnitude(x, 1, (int)(row / x->part), everybody.g.rank, row % x->part, i % x->n);
        right = right && near(x, tensor_value(&a, i), tensor_value(&b, i), (double)x->k, sum);
    }
    return right;
}

static bool sums_near(const shape *x, tensor a, tensor b)
{
    const group *g = &everybody.g;
    bool right = true;
    for (int64_t i = 0; i < tensor_elements(&a); i++) {
        double sum = 0.0;
        for (int r = 0; r < g->size; r++) sum += magnitude(x, 3, r, r, g->rank * x->part + i / x->n, i % x->n);
        right = right && near(x, tensor_value(&a, i), tensor_value(&b, i), (double)(x->k + g->size), sum);
    }
    return right;
}

static void gather_agrees_with_bulk(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        outcome bulk = gathered_by(&shapes[i], (manner){ 0 }),
                ring = gathered_by(&shapes[i], (manner){ .overlap = true });
        assert_on_all(bulk.hazards + ring.hazards == 0, "hazards, shape %d", i);
        assert_on_all(same_bytes(bulk.whole, ring.whole), "the gathered whole, shape %d", i);
        assert_on_all(products_near(&shapes[i], bulk.y, ring.y), "the product, shape %d", i);
        outcome_free(&bulk);
        outcome_free(&ring);
    }
}

static void scatter_agrees_with_bulk(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        outcome bulk = scattered_by(&shapes[i], (manner){ 0 }),
                ring = scattered_by(&shapes[i], (manner){ .overlap = true });
        assert_on_all(bulk.hazards + ring.hazards == 0, "hazards, shape %d", i);
        assert_on_all(sums_near(&shapes[i], bulk.y, ring.y), "the sums, shape %d", i);
        outcome_free(&bulk);
        outcome_free(&ring);
    }
}

/* A sum that stays FP32, rounded here, is the sum that the ring rounds. */
static void scatter_rounds_once(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        shape narrow = shapes[i], wide = shapes[i];
        bool right = true;
        narrow.out = BF16, wide.out = F32;
        if (narrow.type != BF16) continue;
        outcome n = scattered_by(&narrow, (manner){ .overlap = true }),
                w = scattered_by(&wide, (manner){ .overlap = true });
        for (int64_t k = 0; k < tensor_elements(&n.y); k++)
            right = right && ((uint16_t *)n.y.data)[k] == bf16_round(((float *)w.y.data)[k]);
        assert_on_all(right, "rounded once, shape %d", i);
        outcome_free(&n);
        outcome_free(&w);
    }
}

/* One term a rank, multiplied by 1: the sum shows its order, bit for bit. */
static void scatter_adds_in_the_written_order(void **state)
{
    enum { PART = 9 };
    const group *g = &everybody.g;
    road r = road_open(true, false, 0);
    tensor a = filled(F32, g->size * PART, 1, 3, g->rank), w = made(F32, 1, 1), partial = made(F32, 2 * PART, 1),
           out = made(F32, PART, 1);
    bool right = true;
    (void)state;
    value_set(F32, w.data, 0, 1.0);
    matmul_scatter(&r.queues, "test", &everybody.g,
                   (scattered_product){ .a = a, .w = w, .partial = partial, .out = out });
    assert_on_all(road_close(&r) == 0, "hazards");
    for (int64_t row = 0; row < PART; row++) {
        int step = row < (PART + 1) / 2 ? 1 : g->size - 1;
        float sum = 0.0f;
        for (int i = 1; i <= g->size; i++)
            sum += (float)given(F32, 3, (g->rank + i * step) % g->size, g->rank * PART + row);
        right = right && ((float *)out.data)[row] == sum;
    }
    assert_on_all(right, "order of the sum");
    free(a.data);
    free(w.data);
    free(partial.data);
    free(out.data);
}

static void rings_in_hostile_order(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        manner how = { .overlap = true };
        outcome y = gathered_by(&shapes[i], how), z = scattered_by(&shapes[i], how);
        for (uint32_t seed = 1; seed <= SEEDS; seed++) {
            manner hostile = { .overlap = true, .hostile = true, .seed = 100 * seed + (uint32_t)world_rank() };
            outcome hy = gathered_by(&shapes[i], hostile), hz = scattered_by(&shapes[i], hostile);
            assert_on_all(hy.hazards + hz.hazards == 0, "hazards, shape %d", i);
            assert_on_all(same_bytes(y.y, hy.y) && same_bytes(y.whole, hy.whole) && same_bytes(z.y, hz.y),
                          "shape %d, seed %u", i, seed);
            outcome_free(&hy);
            outcome_free(&hz);
        }
        outcome_free(&y);
        outcome_free(&z);
    }
}

/* ---- training ---- */

enum { STEPS = 4 };

/* Even numbers of ranks: half of them data ranks, if there are four. */
static bench_case train_case_of(const char *precision, const char *recompute, const char *overlap)
{
    char text[DECK];
    int ranks = world_ranks(), data = ranks == 4 ? 2 : 1, cut = ranks / data;
    snprintf(
        text, sizeof text,
        "overlap\n\n[llama3.1-70b]\nsize = small\nlayers = 2\nhidden = %d\nffn = %d\nheads = %d\nkv_heads = "
        "%d\nsequence = %d\n"
        "vocabulary = 250\nglobal_batch = 8\nmicro_batch = 2\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\n"
        "tensor = %d\ndata = %d\nsharding = optimizer\nprecision = %s\nrecompute = %s\noverlap = %s\n",
        32 * cut, 64 * cut, 2 * cut, cut, 24 * cut, STEPS, cut, data, precision, recompute, overlap);
    return case_of(text, ranks);
}

static double loss_distance(const trained *x, const trained *want, int first, int last)
{
    double worst = 0.0;
    for (int step = first; step <= last; step++)
        for (int64_t i = 0; i < want->sequences; i++)
            worst = worst_of(worst, fabs(x->sequence_loss[step][i] / want->sequence_loss[step][i] - 1.0));
    return worst;
}

static void on_agrees_with_off(const char *precision, const char *recompute)
{
    trained on, off;
    const char *name = "";
    bench_case with = train_case_of(precision, recompute, "on"), without = train_case_of(precision, recompute, "off");
    check_limits limit = check_limits_of(with.precision, with.model.layers, false);
    train_case(&on, &with, &(training){ .steps = STEPS });
    train_case(&off, &without, &(training){ .steps = STEPS });
    double first = worst_ratio(&off, on.gradient, off.gradient, &name),
           fourth = worst_ratio(&off, on.last_gradient, off.last_gradient, &name);
    double loss_first = loss_distance(&on, &off, 0, 0), loss_later = loss_distance(&on, &off, 1, STEPS - 1);
    double weights = worst_change(&off, on.weight, off.weight, off.first_weight, &name);
    if (world_rank() == 0)
        printf("# %s, recompute %s: loss %.1e %.1e  gradient %.1e %.1e  weights %.1e\n", precision, recompute,
               loss_first, loss_later, first, fourth, weights);
    assert_true(on.hazards == 0.0 && off.hazards == 0.0 && on.whole_weight_errors == 0.0);
    assert_true(losses_are_positive(&on) && losses_are_positive(&off));
    assert_true(loss_first < limit.loss_first && loss_later < limit.loss_later);
    assert_true(first < limit.gradient_first && fourth < limit.gradient_fourth && weights < limit.weights);
    trained_close(&on);
    trained_close(&off);
}

static void training_agrees(void **state)
{
    (void)state;
    on_agrees_with_off("fp32", "none");
    on_agrees_with_off("fp32", "layer");
    on_agrees_with_off("bf16", "none");
}

static void same_training(const trained *want, const bench_case *c, training how)
{
    trained got;
    how.steps = STEPS;
    train_case(&got, c, &how);
    size_t bytes = (size_t)want->base[want->rows] * sizeof(double);
    assert_true(got.hazards == 0.0);
    assert_memory_equal(got.loss, want->loss, sizeof got.loss);
    assert_memory_equal(got.norm, want->norm, sizeof got.norm);
    assert_memory_equal(got.weight, want->weight, bytes);
    assert_memory_equal(got.gradient, want->gradient, bytes);
    assert_memory_equal(got.last_gradient, want->last_gradient, bytes);
    trained_close(&got);
}

/* Bit for bit with overlap: hostile orders, every rank its own, and recompute masks. */
static void hostile_training_is_the_same(void **state)
{
    static const char *const recomputes[] = { "none", "mlp", "layer" };
    (void)state;
    for (int p = 0; p < 2; p++) {
        trained want;
        bench_case c = train_case_of(p ? "bf16" : "fp32", "none", "on");
        train_case(&want, &c, &(training){ .steps = STEPS });
        for (int i = 0; i < 3; i++) {
            bench_case again = train_case_of(p ? "bf16" : "fp32", recomputes[i], "on");
            same_training(&want, &again,
                          (training){ .hostile = true,
                                      .order_seed = 1000 * (uint32_t)i + (uint32_t)world_rank(),
                                      .prove_access = i == 2 });
        }
        trained_close(&want);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_agrees_with_bulk),      cmocka_unit_test(scatter_agrees_with_bulk),
        cmocka_unit_test(scatter_rounds_once),          cmocka_unit_test(scatter_adds_in_the_written_order),
        cmocka_unit_test(rings_in_hostile_order),       cmocka_unit_test(training_agrees),
        cmocka_unit_test(hostile_training_is_the_same),
    };
    world_start(&argc, &argv);
    world_stall_limit(30.0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests_name("overlap", tests, open_group, close_group);
    world_stop();
    return failed;
}
