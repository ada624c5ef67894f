/* Overlap of tensor-parallel communication: compares gathers and scatters in strips with the definition in conjugate.h,
 * with and without overlap. bitwise.c tests that training gives the same bits, overlap_spans.c that transfers run
 * during products. */
#include "machine/watch/watch.h"
#include "parallel/conjugate.h"
#include "trained.h"
#include "units/machine/fabric_ranks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { SCRATCH_BYTES = 1 << 18, SEEDS = 3 };

/* part: rows per rank. */
typedef struct {
    int64_t part, k, n;
    int strips;
    dtype type;
} shape;

/* Strips of single rows, and sizes larger than a block of the products. */
static const shape shapes[] = {
    { 8, 16, 24, 1, F32 }, { 8, 16, 24, 2, F32 },  { 4, 7, 3, 4, F32 },
    { 1, 4, 4, 1, F32 },   { 36, 65, 70, 2, F32 }, { 8, 16, 24, 2, BF16 },
    { 12, 9, 5, 4, BF16 }, { 3, 6, 2, 3, BF16 },   { 36, 65, 70, 4, BF16 },
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

/* Returns element i of rank r, in (-1, 1), rounded to the format. */
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
    sequence_parallel sequence;
    void *scratch[HAZARD_QUEUES];
} road;

typedef struct {
    bool overlap, hostile;
    uint32_t seed;
} manner;

static road road_open(manner how, int strips)
{
    machine_options o = {
        .hostile = how.hostile, .order_seed = how.seed, .prove_access = true, .world_rank = world_rank()
    };
    road r = { .sequence = { queues_open(machine_open(&o), how.overlap, false), &everybody.g, strips } };
    machine *m = r.sequence.queues.machine;
    for (int i = 0; i < machine_queues(m); i++) {
        r.scratch[i] = bytes_of(SCRATCH_BYTES);
        queue_set_scratch(machine_queue_at(m, i), r.scratch[i], SCRATCH_BYTES);
    }
    return r;
}

/* Runs the submitted operations and returns the number of hazards. */
static int64_t road_close(road *r)
{
    machine *m = r->sequence.queues.machine;
    machine_sync(m);
    int64_t hazards = machine_hazards(m)->count;
    for (int i = 0; i < machine_queues(m); i++) free(r->scratch[i]);
    machine_close(m);
    return hazards;
}

typedef struct {
    tensor y, whole;
    int64_t hazards;
} outcome;

static void outcome_free(outcome *x)
{
    free(x->y.data);
    free(x->whole.data);
}

/* Runs twice with the same buffers, as layers do. */
static outcome gathered_by(const shape *x, manner how)
{
    group *g = &everybody.g;
    road r = road_open(how, x->strips);
    tensor part = filled(x->type, x->part, x->k, 1, g->rank), w = filled(x->type, x->k, x->n, 2, g->rank);
    outcome o = { .y = made(x->type, g->size * x->part, x->n), .whole = made(x->type, g->size * x->part, x->k) };
    for (int i = 0; i < 2; i++)
        gather_matmul(&r.sequence, "test", (gathered_product){ .part = part, .w = w, .whole = o.whole, .y = o.y });
    o.hazards = road_close(&r);
    free(part.data);
    free(w.data);
    return o;
}

/* whole: the partial sums. */
static outcome scattered_by(const shape *x, manner how)
{
    group *g = &everybody.g;
    road r = road_open(how, x->strips);
    tensor a = filled(x->type, g->size * x->part, x->k, 3, g->rank), w = filled(x->type, x->k, x->n, 4, g->rank);
    tensor parts = made(x->type, g->size * x->part, x->n);
    outcome o = { .y = made(x->type, x->part, x->n), .whole = made(x->type, g->size * x->part, x->n) };
    for (int i = 0; i < 2; i++)
        matmul_scatter(
            &r.sequence, "test",
            (scattered_product){ .a = a, .w = w, .sum = { .partial = o.whole, .parts = parts, .out = o.y } });
    o.hazards = road_close(&r);
    free(a.data);
    free(w.data);
    free(parts.data);
    return o;
}

static bool same_bytes(tensor a, tensor b)
{
    return tensor_span(&a) == tensor_span(&b) && !memcmp(a.data, b.data, tensor_span(&a));
}

/* The owner of a row of the whole, and its index there. */
typedef struct {
    int rank;
    int64_t row;
} owner;
static owner owner_of(const shape *x, int64_t row)
{
    int64_t rows = x->part / x->strips, strip = row / (rows * everybody.g.size),
            within = row % (rows * everybody.g.size);
    return (owner){ (int)(within / rows), strip * rows + within % rows };
}

/* To first order, an FP32 sum of k products has an error of at most k 2^-24 sum |terms|. Rounding to BF16 adds 2^-9 of
 * the result, at most 2^-8 of the exact value. */
static bool is_product(const shape *x, double got, uint32_t what, int from, int64_t row, int64_t column)
{
    double sum = 0.0, size = 0.0;
    for (int64_t k = 0; k < x->k; k++) {
        double term =
            given(x->type, what, from, row * x->k + k) * given(x->type, what + 1, everybody.g.rank, k * x->n + column);
        sum += term, size += fabs(term);
    }
    return fabs(got - sum) <= (double)x->k * 0x1p-24 * size + (x->type == BF16 ? 0x1p-8 * fabs(sum) : 0.0);
}

/* Every rank's rows are in the right place, and the product uses them. */
static void gathers_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        const shape *x = &shapes[i];
        bool placed = true, right = true;
        outcome o = gathered_by(x, (manner){ .overlap = true });
        for (int64_t at = 0; at < tensor_elements(&o.whole); at++) {
            owner of = owner_of(x, at / x->k);
            placed = placed && tensor_value(&o.whole, at) == given(x->type, 1, of.rank, of.row * x->k + at % x->k);
        }
        for (int64_t at = 0; at < tensor_elements(&o.y); at++) {
            owner of = owner_of(x, at / x->n);
            right = right && is_product(x, tensor_value(&o.y, at), 1, of.rank, of.row, at % x->n);
        }
        assert_on_all(o.hazards == 0 && placed && right, "shape %d: hazards, the gathered whole, the product", i);
        outcome_free(&o);
    }
}

/* Returns whether the partial sums of all ranks, added in FP32 in rank order and rounded once, are bitwise equal. */
static bool sums_are_of(const shape *x, const outcome *o, const float *partial)
{
    int64_t all = tensor_elements(&o->whole), own = 0;
    bool right = true;
    for (int64_t at = 0; at < all; at++) {
        owner of = owner_of(x, at / x->n);
        float sum = 0.0f;
        if (of.rank != everybody.g.rank) continue;
        for (int r = 0; r < everybody.g.size; r++) sum = r ? sum + partial[r * all + at] : partial[at];
        float want = x->type == BF16 ? bf16_widen(bf16_round(sum)) : sum;
        right = right && (float)tensor_value(&o->y, of.row * x->n + at % x->n) == want;
        own++;
    }
    return right && own == tensor_elements(&o->y);
}

static void scatters_sums_in_rank_order(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        const shape *x = &shapes[i];
        outcome o = scattered_by(x, (manner){ .overlap = true });
        int64_t all = tensor_elements(&o.whole);
        bool right = true;
        float *partial = bytes_of((size_t)(all * everybody.g.size) * sizeof *partial),
              *own = partial + everybody.g.rank * all;
        for (int64_t at = 0; at < all; at++) {
            own[at] = (float)tensor_value(&o.whole, at);
            right = right && is_product(x, own[at], 3, everybody.g.rank, at / x->n, at % x->n);
        }
        for (int r = 0; r < everybody.g.size; r++) world_broadcast(partial + r * all, (size_t)all * sizeof *partial, r);
        assert_on_all(o.hazards == 0 && right && sums_are_of(x, &o, partial), "shape %d: hazards, partial sums, sums",
                      i);
        free(partial);
        outcome_free(&o);
    }
}

static void strips_have_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        manner on = { .overlap = true };
        outcome y = gathered_by(&shapes[i], on), z = scattered_by(&shapes[i], on);
        for (uint32_t seed = 0; seed <= SEEDS; seed++) {
            manner other = { .overlap = seed > 0, .hostile = seed > 0, .seed = 100 * seed + (uint32_t)world_rank() };
            outcome oy = gathered_by(&shapes[i], other), oz = scattered_by(&shapes[i], other);
            assert_on_all(oy.hazards + oz.hazards == 0, "hazards, shape %d", i);
            assert_on_all(same_bytes(y.y, oy.y) && same_bytes(y.whole, oy.whole) && same_bytes(z.y, oz.y),
                          "shape %d, %s %u", i, seed ? "hostile order" : "without overlap", seed);
            outcome_free(&oy);
            outcome_free(&oz);
        }
        outcome_free(&y);
        outcome_free(&z);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_in_order),
        cmocka_unit_test(scatters_sums_in_rank_order),
        cmocka_unit_test(strips_have_the_same_bits),
    };
    world_start(&argc, &argv);
    watch_limit(30.0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests_name("overlap", tests, open_group, close_group);
    world_stop();
    return failed;
}
