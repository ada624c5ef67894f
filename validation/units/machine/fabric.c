/* Transfers with known exact results, one at a time on one queue. Any number of ranks, on the host or on GPUs. */
#include "fabric_ranks.h"
#include "machine/watch/watch.h"
#include "units/test_length.h"

enum {
    ROUNDS = 3,
    ROUNDS_ON_GPUS = 1,
    GUARD = 64,
    LARGEST = 70001,
    MANY = 20000,
    MANY_ON_GPUS = 1000,
    MANY_BRIEFLY = 100
};

static test_group all;
static test_floor paper, real;

static const int64_t sizes[] = { 0, 1, 17, 1000, 3, 4096, 4097, 8193, LARGEST };
enum { ALL_SIZES = sizeof sizes / sizeof *sizes, FEW_SIZES = 4 };
static int used_sizes = ALL_SIZES; /* the first of them */
static const dtype sum_types[] = { F32, BF16, F64, U64 };

static int rounds(void) { return real.kind == MACHINE_HOST ? ROUNDS : ROUNDS_ON_GPUS; }

static int open_floor(void **state)
{
    if (test_is_brief_emulation()) used_sizes = FEW_SIZES;
    group_of_all(&all);
    paper = floor_open((machine_options){ .on_paper = true }, 0);
    real = floor_open((machine_options){ .prove_access = true }, (size_t)LARGEST * 8 * (size_t)world_ranks() + 1024);
    return 0;
}

static int close_floor(void **state)
{
    floor_close(&paper);
    floor_close(&real);
    group_close(&all);
    return 0;
}

/* A transfer of this kind on the first queue. */
typedef struct {
    op_kind kind;
    tensor to, from;
} asked;

static mark submit_asked(const test_floor *f, group *g, const asked *x)
{
    switch (x->kind) {
    case OP_ALL_GATHER: return submit(f->q[0], "x", all_gather_op(g, x->to, x->from));
    case OP_REDUCE_SCATTER: return submit(f->q[0], "x", reduce_scatter_op(g, x->to));
    case OP_ALL_TO_ALL: return submit(f->q[0], "x", all_to_all_op(g, x->to, x->from));
    default: return submit(f->q[0], "x", all_reduce_op(g, x->to));
    }
}

static size_t scratch_needed(group *g, const asked *x)
{
    test_floor once = paper;
    machine_options options = { .kind = tested_machine(), .on_paper = true };
    once.m = machine_open(&options);
    once.q[0] = machine_queue(once.m, "paper");
    submit_asked(&once, g, x);
    preparation needed = machine_prepared(once.m);
    size_t bytes = needed.scratch[0];
    preparation_free(&needed);
    machine_close(once.m);
    return bytes;
}

/* Runs it with exactly the scratch measured on paper. Returns false if it writes beyond. */
static bool run(group *g, const asked *x)
{
    size_t needed = scratch_needed(g, x);
    char after[GUARD], untouched[GUARD];
    tensor guard = tensor_1d(real.scratch[0] + needed, U64, GUARD / 8);
    asked there = { x->kind, placed(&real, x->to), placed(&real, x->from) };
    memset(untouched, 0x5A, GUARD);
    machine_upload(real.m, guard, untouched);
    queue_set_scratch(real.q[0], real.scratch[0], needed);
    mark_sync(submit_asked(&real, g, &there));
    fetched(&real, x->to, there.to);
    fetched(&real, x->from, there.from);
    machine_sync(real.m);
    machine_read(real.m, after, guard);
    return memcmp(after, untouched, GUARD) == 0;
}

static void run_exchange(const char *name, group *g, const transfer *list, int count)
{
    transfer there[OP_OPERANDS] = { { .send = false } };
    memcpy(there, list, (size_t)count * sizeof *list);
    for (int i = 0; i < count; i++) there[i].tensor = placed(&real, list[i].tensor);
    mark_sync(submit(real.q[0], name, exchange_op(g, there, count)));
    for (int i = 0; i < count; i++) fetched(&real, list[i].tensor, there[i].tensor);
}

static double sum_over_ranks(dtype type, const group *g, int64_t i, int round)
{
    double sum = 0.0;
    for (int r = 0; r < g->size; r++) sum += small_value(type, r, i, round);
    return sum;
}

/* Sets x[i] to this rank's value of element first + i. */
static void set_values(dtype type, void *x, int64_t first, int64_t n, int rank, int round)
{
    for (int64_t i = 0; i < n; i++) value_set(type, x, i, small_value(type, rank, first + i, round));
}

static bool gather_is_exact(group *g, dtype type, int64_t n, bool in_place, int round)
{
    size_t element = dtype_bytes(type);
    char *whole = bytes_of((size_t)(n * g->size) * element), *part = bytes_of((size_t)n * element);
    char *own = in_place ? whole + (size_t)(n * g->rank) * element : part;
    set_values(type, own, n * g->rank, n, 0, round);
    asked x = { OP_ALL_GATHER, tensor_1d(whole, type, n * g->size),
                in_place ? tensor_none() : tensor_1d(part, type, n) };
    bool right = run(g, &x);
    for (int64_t i = 0; i < n * g->size; i++)
        right = right && value_at(type, whole, i) == small_value(type, 0, i, round);
    free(whole);
    free(part);
    return right;
}

/* Only this rank's part changes. */
static bool scatter_is_exact(group *g, dtype type, int64_t n, int round)
{
    int64_t first = n * g->rank;
    char *whole = bytes_of((size_t)(n * g->size) * dtype_bytes(type));
    set_values(type, whole, 0, n * g->size, g->rank, round);
    bool right = run(g, &(asked){ OP_REDUCE_SCATTER, tensor_1d(whole, type, n * g->size), tensor_none() });
    for (int64_t i = 0; i < n * g->size; i++) {
        bool own = i >= first && i < first + n;
        double want = own ? sum_over_ranks(type, g, i, round) : small_value(type, g->rank, i, round);
        right = right && value_at(type, whole, i) == want;
    }
    free(whole);
    return right;
}

static bool all_to_all_of(group *g, dtype type, int64_t n, int round)
{
    size_t bytes = (size_t)(n * g->size) * dtype_bytes(type);
    char *from = bytes_of(bytes), *to = bytes_of(bytes);
    set_values(type, from, 0, n * g->size, g->rank, round);
    bool right =
        run(g, &(asked){ OP_ALL_TO_ALL, tensor_1d(to, type, n * g->size), tensor_1d(from, type, n * g->size) });
    for (int64_t i = 0; i < n * g->size; i++)
        right = right && value_at(type, to, i) == small_value(type, (int)(i / n), n * g->rank + i % n, round);
    free(from);
    free(to);
    return right;
}

/* Returns values of both signs, including the smallest and the largest I32. */
static int32_t largest_candidate(int rank, int64_t i, int round)
{
    philox_block drawn = philox4x32((philox_block){ { (uint32_t)i, (uint32_t)rank, (uint32_t)round, 0 } }, 8, 9);
    return drawn.word[1] % 16 == 0 ? INT32_MAX : drawn.word[1] % 2 ? INT32_MIN : (int32_t)drawn.word[0];
}

static bool reduce_is_exact(group *g, dtype type, int64_t n, int round)
{
    char *x = bytes_of((size_t)n * dtype_bytes(type));
    set_values(type, x, 0, n, g->rank, round);
    bool right = run(g, &(asked){ OP_ALL_REDUCE, tensor_1d(x, type, n), tensor_none() });
    for (int64_t i = 0; i < n; i++) right = right && value_at(type, x, i) == sum_over_ranks(type, g, i, round);
    free(x);
    return right;
}

/* The reduction of I32 is the maximum. */
static bool largest_is_found(group *g, int64_t n, int round)
{
    int32_t *x = bytes_of((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = largest_candidate(g->rank, i, round);
    bool right = run(g, &(asked){ OP_ALL_REDUCE, tensor_1d(x, I32, n), tensor_none() });
    for (int64_t i = 0; i < n; i++) {
        int32_t most = INT32_MIN;
        for (int r = 0; r < g->size; r++)
            if (largest_candidate(r, i, round) > most) most = largest_candidate(r, i, round);
        right = right && x[i] == most;
    }
    free(x);
    return right;
}

static void all_gather_is_exact(void **state)
{
    for (int t = 0; t < DTYPES; t++)
        for (int i = 0; i < used_sizes; i++)
            for (int round = 0; round < rounds(); round++)
                for (int in_place = 0; in_place < 2; in_place++)
                    assert_on_all(gather_is_exact(&all.g, (dtype)t, sizes[i], in_place, round), "all_gather %s %lld %s",
                                  dtype_name((dtype)t), (long long)sizes[i], in_place ? "in place" : "");
}

static void reduce_scatter_is_exact(void **state)
{
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < used_sizes; i++)
            for (int round = 0; round < rounds(); round++)
                assert_on_all(scatter_is_exact(&all.g, sum_types[t], sizes[i], round), "reduce_scatter %s %lld",
                              dtype_name(sum_types[t]), (long long)sizes[i]);
}

static void all_to_all_is_exact(void **state)
{
    group back = group_reversed(&all.g);
    for (int t = 0; t < DTYPES; t++)
        for (int i = 0; i < used_sizes; i++)
            for (int round = 0; round < rounds(); round++)
                assert_on_all(all_to_all_of(&all.g, (dtype)t, sizes[i], round), "all_to_all %s %lld",
                              dtype_name((dtype)t), (long long)sizes[i]);
    for (int i = 0; i < used_sizes && real.kind == MACHINE_HOST; i++)
        assert_on_all(all_to_all_of(&back, F32, sizes[i], 0) && gather_is_exact(&back, F32, sizes[i], true, 0),
                      "reversed, %lld", (long long)sizes[i]);
}

static void all_reduce_is_exact(void **state)
{
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < used_sizes; i++)
            for (int round = 0; round < rounds(); round++)
                assert_on_all(reduce_is_exact(&all.g, sum_types[t], sizes[i], round), "all_reduce %s %lld",
                              dtype_name(sum_types[t]), (long long)sizes[i]);
    for (int i = 0; i < used_sizes; i++)
        for (int round = 0; round < rounds(); round++)
            assert_on_all(largest_is_found(&all.g, sizes[i], round), "all_reduce i32 %lld", (long long)sizes[i]);
}

/* A group of one has no communicator. */
static void a_group_of_one_needs_no_communicator(void **state)
{
    group one = group_line("one", world_rank(), 1, 1, 0);
    for (int i = 0; i < used_sizes; i++)
        for (int t = 0; t < 4; t++) {
            dtype type = sum_types[t];
            bool right = gather_is_exact(&one, type, sizes[i], false, 0) &&
                         gather_is_exact(&one, type, sizes[i], true, 0) && scatter_is_exact(&one, type, sizes[i], 0) &&
                         all_to_all_of(&one, type, sizes[i], 0) && reduce_is_exact(&one, type, sizes[i], 0);
            right = right && largest_is_found(&one, sizes[i], 0);
            assert_on_all(right, "%s %lld", dtype_name(type), (long long)sizes[i]);
        }
    submit(real.q[0], "nothing", exchange_op(&one, NULL, 0));
    machine_sync(real.m);
}

/* Returns values of very different magnitudes, so that every order of addition gives other bits. */
static float rough_value(int rank, int64_t i)
{
    philox_block draw = philox4x32((philox_block){ { (uint32_t)i, (uint32_t)rank, 0, 0 } }, 3, 5);
    return ldexpf((float)(int32_t)draw.word[0], (int)(draw.word[1] % 12) - 30);
}

static void set_rough(dtype type, void *x, int64_t n, int rank)
{
    for (int64_t i = 0; i < n; i++) value_set(type, x, i, (double)rough_value(rank, i));
}

static double rounded(dtype type, double value)
{
    uint64_t x;
    value_set(type, &x, 0, value);
    return value_at(type, &x, 0);
}

/* Returns the sum of a serial loop in rank order from `first` in steps of `step`. F32 and BF16 are added in FP32. */
static double serial_sum(dtype from, dtype to, int64_t i, int first, int step)
{
    float total = (float)rounded(from, (double)rough_value(first, i));
    double wide = rounded(from, (double)rough_value(first, i));
    for (int k = 1; k < all.g.size; k++) {
        double next = rounded(from, (double)rough_value(first + k * step, i));
        total += (float)next;
        wide += next;
    }
    return from == F64 ? wide : rounded(to, (double)total);
}

static bool in_rank_order(dtype from, dtype to, const void *sums, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (value_at(to, sums, i) != serial_sum(from, to, first + i, 0, 1)) return false;
    return true;
}

static double unit_roundoff(dtype type) { return type == BF16 ? 0x1p-8 : type == F32 ? 0x1p-24 : 0x1p-53; }

/* NCCL chooses the order of addition. R - 1 additions of R numbers with magnitudes S in total, each rounded with unit
 * u, have an error of at most ((1 + u)^(R - 1) - 1) S in any order. u is that of the format; between two formats it is
 * FP32's, and the sum is rounded once more. The reference is summed in double: its error is at most the same with u of
 * F64. */
static double farthest(dtype from, dtype to, double magnitudes)
{
    double hop = unit_roundoff(from == to ? from : F32), once = from == to ? 0.0 : unit_roundoff(to);
    double hops = pow(1.0 + hop, all.g.size - 1), exact = pow(1.0 + unit_roundoff(F64), all.g.size - 1);
    return magnitudes * (hops * (1.0 + once) - 1.0 + exact - 1.0);
}

static bool in_any_order(dtype from, dtype to, const void *sums, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0, magnitudes = 0.0;
        for (int r = 0; r < all.g.size; r++) {
            double x = rounded(from, (double)rough_value(r, first + i));
            sum += x;
            magnitudes += fabs(x);
        }
        if (!(fabs(value_at(to, sums, i) - sum) <= farthest(from, to, magnitudes))) return false;
    }
    return true;
}

/* On the host the order is rank order, so the sums are bitwise equal. */
static bool sums_are_right(dtype from, dtype to, const void *sums, int64_t first, int64_t n)
{
    return real.kind == MACHINE_HOST ? in_rank_order(from, to, sums, first, n) : in_any_order(from, to, sums, first, n);
}

static void sums_are_made_in_rank_order_and_rounded_once(void **state)
{
    static const dtype row[] = { F32, BF16, F64 };
    int64_t n = test_is_brief_emulation() ? 1000 : 5000, whole = n * all.g.size;
    void *x = bytes_of((size_t)whole * 8);
    for (int i = 0; i < 3; i++) {
        set_rough(row[i], x, whole, all.g.rank);
        run(&all.g, &(asked){ OP_REDUCE_SCATTER, tensor_1d(x, row[i], whole), tensor_none() });
        void *own = (char *)x + (size_t)(n * all.g.rank) * dtype_bytes(row[i]);
        assert_on_all(sums_are_right(row[i], row[i], own, n * all.g.rank, n), "reduce_scatter %s", dtype_name(row[i]));
        for (int64_t size = 100; size <= n; size += n - 100) {
            set_rough(row[i], x, size, all.g.rank);
            run(&all.g, &(asked){ OP_ALL_REDUCE, tensor_1d(x, row[i], size), tensor_none() });
            assert_on_all(sums_are_right(row[i], row[i], x, 0, size), "all_reduce %s %lld", dtype_name(row[i]),
                          (long long)size);
        }
    }
    int64_t sensitive = 0;
    for (int64_t i = 0; i < n; i++)
        sensitive += serial_sum(F32, F32, i, 0, 1) != serial_sum(F32, F32, i, all.g.size - 1, -1);
    if (all.g.size > 2) assert_true(sensitive > n / 4);
    free(x);
}

/* Exchanges with the right and the left neighbour, in pieces of different sizes that must not be confused. */
static void exchange_is_exact(void **state)
{
    int ranks = all.g.size, right = (all.g.rank + 1) % ranks, left = (all.g.rank + ranks - 1) % ranks;
    static const int64_t n[] = { 1, 5000, 7 };
    float *out[3], *in[3];
    transfer list[6];
    for (int i = 0; i < 3; i++) {
        out[i] = bytes_of((size_t)n[i] * 4);
        in[i] = bytes_of((size_t)n[i] * 4);
        set_values(F32, out[i], 0, n[i], all.g.rank, i);
        list[i] = (transfer){ true, right, tensor_1d(out[i], F32, n[i]) };
        list[3 + i] = (transfer){ false, left, tensor_1d(in[i], F32, n[i]) };
    }
    run_exchange("ring", &all.g, list, 6);
    for (int i = 0; i < 3; i++) {
        bool same = true;
        for (int64_t k = 0; k < n[i]; k++)
            same = same && in[i][k] == (float)small_value(F32, left, k, i) &&
                   out[i][k] == (float)small_value(F32, all.g.rank, k, i);
        assert_on_all(same, "piece %d", i);
        free(in[i]);
        free(out[i]);
    }
}

/* Exchanges with every rank including itself, as mixtures of experts do; if there are many ranks, with the nearest. */
static void exchange_of_all_with_all(void **state)
{
    int ranks = all.g.size, own = all.g.rank, peers = ranks < OP_OPERANDS / 2 ? ranks : OP_OPERANDS / 2;
    int32_t out[OP_OPERANDS / 2], in[OP_OPERANDS / 2];
    transfer list[OP_OPERANDS] = { 0 };
    for (int i = 0; i < peers; i++) {
        out[i] = 100 * own + (own + i) % ranks;
        list[2 * i] = (transfer){ true, (own + i) % ranks, tensor_1d(&out[i], I32, 1) };
        list[2 * i + 1] = (transfer){ false, (own + ranks - i) % ranks, tensor_1d(&in[i], I32, 1) };
    }
    run_exchange("all to all", &all.g, list, 2 * peers);
    bool right = true;
    for (int i = 0; i < peers; i++) right = right && in[i] == 100 * ((own + ranks - i) % ranks) + own;
    assert_on_all(right, "all to all");
}

/* Sends a token round with more transfers than there are tags or places in a queue. */
static void many_transfers(void **state)
{
    int ranks = all.g.size, right = (all.g.rank + 1) % ranks, left = (all.g.rank + ranks - 1) % ranks;
    int many = real.kind == MACHINE_HOST ? MANY : test_is_brief_emulation() ? MANY_BRIEFLY : MANY_ON_GPUS;
    uint64_t token[2] = { (uint64_t)all.g.rank, 0 };
    tensor tokens = tensor_1d(token, U64, 2), there = placed(&real, tokens);
    for (int i = 0; i < many; i++) {
        transfer list[] = { { true, right, tensor_slice(there, 0, i % 2, 1) },
                            { false, left, tensor_slice(there, 0, (i + 1) % 2, 1) } };
        submit(real.q[0], "round", exchange_op(&all.g, list, 2));
    }
    machine_sync(real.m);
    fetched(&real, tokens, there);
    assert_on_all(token[many % 2] == (uint64_t)((all.g.rank + many * (ranks - 1)) % ranks), "token");
}

int main(int argc, char **argv)
{
    TESTS(tests, all_gather_is_exact, reduce_scatter_is_exact, all_to_all_is_exact, all_reduce_is_exact,
          a_group_of_one_needs_no_communicator, sums_are_made_in_rank_order_and_rounded_once, exchange_is_exact,
          exchange_of_all_with_all, many_transfers);
    world_start(&argc, &argv);
    watch_limit(WATCH_SECONDS);
    size_t alone = 5,
           count = world_ranks() > 1 ? sizeof tests / sizeof *tests : alone; /* the other tests need a neighbour */
    int failures = _cmocka_run_group_tests("fabric", tests, count, open_floor, close_floor);
    world_stop();
    return failures;
}
