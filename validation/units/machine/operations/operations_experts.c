/* Operations of a mixture of experts without its products: routing with a capacity against the rule in double, its
 * gradients against differences, and moving rows to experts and back, bitwise. Ties and row widths alternate; `long`
 * tests every combination. */
#include "operations.h"

enum { TWO = 2 };

typedef struct {
    int64_t tokens, sequences, experts, rows;
    int32_t local, groups;
} routing;
/* Includes more choices than the 512 that a block of a GPU places at once. */
static const routing routings[] = {
    { 8, 1, 2, 8, 2, 1 },     { 12, 3, 4, 3, 2, 1 },   { 64, 2, 8, 16, 8, 1 },
    { 96, 1, 5, 30, 5, 3 },   { 96, 2, 8, 24, 4, 2 },  { 600, 1, 8, 150, 2, 1 },
    { 600, 3, 8, 600, 1, 1 }, { 600, 1, 4, 80, 2, 4 }, { 768, 1, 16, 96, 8, 3 },
};
enum { ROUTINGS = sizeof routings / sizeof *routings };

/* Operands of routing and of its backward. */
typedef struct {
    const routing *by;
    sample logits, order, choices, weights, place, source, statistics, d_weights, d_logits, loss, load;
} routed;

static routed routed_open(const routing *by, dtype type)
{
    int64_t n = by->tokens, sequences = by->sequences, experts = by->experts;
    return (routed){ .by = by,
                     .logits = SAMPLE(type, 0, n, experts),
                     .order = SAMPLE(I32, 0, n),
                     .choices = SAMPLE(I32, 0, n, TWO),
                     .weights = SAMPLE(F32, 0, n, TWO),
                     .place = SAMPLE(I32, 0, n, TWO),
                     .source = SAMPLE(I32, 0, experts * by->rows),
                     .statistics = SAMPLE(F32, 0, sequences, 3, experts),
                     .d_weights = drawn(SAMPLE(F32, 0, n, TWO), 3, 1.0, 0.0),
                     .d_logits = SAMPLE(type, 0, n, experts),
                     .loss = drawn(SAMPLE(F64, 0, sequences), 4, 1.0, 0.0),
                     .load = drawn(SAMPLE(F64, 0, 2, experts), 5, 1.0, 0.0) };
}

/* With ties, logits are multiples of 1/4, so that many are equal. Tokens are interleaved over the groups. */
static void randomize_logits(routed *r, bool ties)
{
    for (int64_t i = 0; i < r->logits.elements; i++) {
        double x = 2.0 * random_value(1, i);
        element_set(&r->logits.t, i, ties ? floor(x * 4.0) / 4.0 : x);
    }
    sample_read(&r->logits);
    for (int64_t i = 0; i < r->by->tokens; i++) {
        int64_t of_group = r->by->tokens / r->by->groups;
        element_set(&r->order.t, i, (double)(i % of_group * r->by->groups + i / of_group));
    }
}

static void run_router(routed *r, bool given)
{
    router_forward_operands o = { .logits = r->logits.t,
                                  .order = r->by->groups > 1 ? r->order.t : tensor_none(),
                                  .choices = r->choices.t,
                                  .weights = r->weights.t,
                                  .place = r->place.t,
                                  .source = r->source.t,
                                  .statistics = r->statistics.t };
    router_args args = { .rows = r->by->rows, .local = r->by->local, .groups = r->by->groups, .given = given };
    RUN_OP(router_forward_op(o, args));
    sample *made[] = { &r->choices, &r->weights, &r->place, &r->source, &r->statistics };
    for (int i = 0; i < 5; i++) sample_read(made[i]);
}

static int expert_of(double choice) { return choice < 0 ? (int)(-1 - choice) : (int)choice; }

/* The largest logits are chosen; among equal logits the lower expert. */
static void check_choices(const routed *r)
{
    for (int64_t t = 0; t < r->by->tokens; t++) {
        const double *x = r->logits.value + t * r->by->experts;
        int first = 0, second = -1;
        for (int e = 1; e < r->by->experts; e++)
            if (x[e] > x[first]) first = e;
        for (int e = 0; e < r->by->experts; e++)
            if (e != first && (second < 0 || x[e] > x[second])) second = e;
        assert_int_equal(expert_of(r->choices.value[TWO * t]), first);
        assert_int_equal(expert_of(r->choices.value[TWO * t + 1]), second);
        double w = 1.0 / (1.0 + exp(x[second] - x[first]));
        assert_true(fabs(r->weights.value[TWO * t] - w) < 4 * F32_ROUND);
        assert_true(fabs(r->weights.value[TWO * t + 1] - (1.0 - w)) < 4 * F32_ROUND);
    }
}

/* Returns whether choice i precedes choice j of the same expert and group: larger weight, or equal and earlier. */
static bool before(const routed *r, int64_t i, int64_t j)
{
    double a = r->weights.value[i], b = r->weights.value[j];
    return a > b || (a == b && i < j);
}

/* A choice is dropped if its rank is beyond the rows of its expert and group. The others get their own rows of that
 * expert and group, in order. */
static void check_places(const routed *r)
{
    const routing *by = r->by;
    int64_t capacity = by->rows / by->groups, placed = 0;
    for (int64_t i = 0; i < TWO * by->tokens; i++) {
        int64_t g = i / TWO % by->groups, ahead = 0, kept_before = 0;
        int expert = expert_of(r->choices.value[i]);
        for (int64_t j = 0; j < TWO * by->tokens; j++) {
            if (j / TWO % by->groups != g || expert_of(r->choices.value[j]) != expert) continue;
            ahead += before(r, j, i);
            kept_before += j < i && r->choices.value[j] >= 0;
        }
        bool kept = ahead < capacity;
        int64_t row = g * capacity + kept_before;
        int64_t place = (expert / by->local * by->rows + row) * by->local + expert % by->local;
        assert_true((r->choices.value[i] >= 0) == kept);
        assert_true(r->place.value[i] == (kept ? (double)place : -1.0));
        if (kept) assert_true(r->source.value[place] == (double)i);
        placed += kept;
    }
    for (int64_t i = 0; i < r->source.elements; i++) placed -= r->source.value[i] >= 0;
    assert_int_equal(placed, 0);
}

/* Computes the softmax of a token's experts in double (statistic 0). */
static void probabilities(const double *x, int64_t experts, double *p)
{
    double sum = 0.0;
    for (int64_t e = 0; e < experts; e++) sum += p[e] = exp(x[e]);
    for (int64_t e = 0; e < experts; e++) p[e] /= sum;
}

static void check_statistics(const routed *r)
{
    const routing *by = r->by;
    double *expected = numbers(r->statistics.elements), p[64];
    for (int64_t t = 0; t < by->tokens; t++) {
        double *of = expected + t % by->sequences * 3 * by->experts;
        probabilities(r->logits.value + t * by->experts, by->experts, p);
        for (int64_t e = 0; e < by->experts; e++) of[e] += p[e];
        for (int k = 0; k < TWO; k++) {
            double choice = r->choices.value[TWO * t + k];
            of[by->experts + expert_of(choice)] += 1.0;
            of[2 * by->experts + expert_of(choice)] += choice < 0;
        }
    }
    /* a probability has some 8 roundings, a sum of n that grow alike sqrt(n) more at its end */
    for (int64_t i = 0; i < r->statistics.elements; i++)
        assert_true(fabs(r->statistics.value[i] - expected[i]) <=
                    (i / by->experts % 3 ? 0.0 : (sqrt((double)by->tokens) + 16) * F32_ROUND * (expected[i] + 1.0)));
}

/* Given choices give the same rows, whatever the logits are. */
static void check_given(routed *r)
{
    size_t bytes = (size_t)r->place.elements * sizeof(double);
    double *place = memcpy(numbers(r->place.elements), r->place.value, bytes),
           *choice = memcpy(numbers(r->place.elements), r->choices.value, bytes);
    sample_randomize(&r->logits, 77, 1.0, 0.0);
    run_router(r, true);
    for (int64_t i = 0; i < r->place.elements; i++) {
        assert_true(r->place.value[i] == place[i] && r->choices.value[i] == choice[i]);
        const double *x = r->logits.value + i / TWO * r->by->experts;
        double own = x[expert_of(choice[i])], other = x[expert_of(choice[i ^ 1])];
        assert_true(fabs(r->weights.value[i] - 1.0 / (1.0 + exp(other - own))) < 4 * F32_ROUND);
    }
    check_statistics(r);
}

/* ---- backward ---- */

static const double BALANCE = 0.03125;

/* A token's part of the function to differentiate: weights times their gradients, plus balance losses with constant
 * counts. */
static double objective(const routed *r, int64_t t)
{
    const routing *by = r->by;
    const double *x = r->logits.value + t * by->experts, *c = r->choices.value + TWO * t,
                 *d = r->d_weights.value + TWO * t;
    double p[64], w = 1.0 / (1.0 + exp(x[expert_of(c[1])] - x[expert_of(c[0])])), sum = w * d[0] + (1.0 - w) * d[1];
    probabilities(x, by->experts, p);
    for (int64_t e = 0; e < by->experts; e++)
        sum += BALANCE * p[e] * r->statistics.value[(t % by->sequences * 3 + 1) * by->experts + e];
    return sum;
}

static void run_router_backward(routed *r, bool reports)
{
    router_backward_operands o = { .logits = r->logits.t,
                                   .choices = r->choices.t,
                                   .d_weights = r->d_weights.t,
                                   .statistics = r->statistics.t,
                                   .d_logits = r->d_logits.t,
                                   .loss = reports ? r->loss.t : tensor_none(),
                                   .load = reports ? r->load.t : tensor_none() };
    RUN_OP(router_backward_op(o, (balance_args){ (float)BALANCE }));
}

/* A gradient has the terms balance x counts, twice, and those of the pair. 24 roundings of the largest cover 12 of the
 * softmax and 12 of the sum. */
static void check_router_gradient(routed *r)
{
    const double step = 1e-4, scale = 1.0 + BALANCE * largest(r->statistics.value, r->statistics.elements);
    for (int64_t i = 0; i < r->logits.elements; i += 1 + r->logits.elements / 60) {
        double kept = r->logits.value[i], *x = &r->logits.value[i];
        *x = kept + step;
        double above = objective(r, i / r->by->experts);
        *x = kept - step;
        double expected = (above - objective(r, i / r->by->experts)) / (2 * step);
        *x = kept;
        double got = element(&r->d_logits.t, i);
        assert_true(fabs(got - expected) <=
                    rounding(r->logits.t.type) * fabs(expected) + (24 * F32_ROUND + 1e-7) * scale);
    }
}

static void check_reports(const routed *r)
{
    const routing *by = r->by;
    for (int64_t s = 0; s < by->sequences; s++) {
        double sum = 0.0;
        for (int64_t e = 0; e < by->experts; e++)
            sum += r->statistics.value[s * 3 * by->experts + e] * r->statistics.value[(s * 3 + 1) * by->experts + e];
        assert_true(fabs(element(&r->loss.t, s) - r->loss.value[s] - BALANCE * sum) <= 1e-12 * sum);
    }
    for (int64_t i = 0; i < 2 * by->experts; i++) {
        double sum = r->load.value[i];
        for (int64_t s = 0; s < by->sequences; s++) sum += r->statistics.value[(s * 3 + 1) * by->experts + i];
        assert_true(fabs(element(&r->load.t, i) - sum) <= 1e-12);
    }
}

static void routes(void **state)
{
    for (int i = 0; i < 2 * ROUTINGS; i++)
        for (int ties = 0; ties < 2; ties++) {
            if (!test_is_long() && (i / 2 + i % 2) % 2 != ties) continue;
            routed r = routed_open(&routings[i / 2], i % 2 ? BF16 : F32);
            randomize_logits(&r, ties);
            run_router(&r, false);
            check_choices(&r);
            check_places(&r);
            check_statistics(&r);
            for (int reports = 1; reports >= 0; reports--) {
                run_router_backward(&r, reports);
                check_router_gradient(&r);
                if (reports) check_reports(&r);
            }
            check_given(&r);
            release();
        }
}

/* ---- rows ---- */

/* x, sum, d_out: [tokens, columns]; y, d_y: rows of experts. */
typedef struct {
    routed by;
    sample x, y, sum, d_out, d_y;
} moved;

static void check_permute(moved *m, int64_t columns)
{
    RUN_OP(permute_op(m->y.t, m->x.t, m->by.source.t));
    for (int64_t i = 0; i < m->y.elements; i++) {
        int64_t source = (int64_t)m->by.source.value[i / columns];
        m->y.value[i] = source < 0 ? 0.0 : m->x.value[source / TWO * columns + i % columns];
    }
    compare_exactly("permute", &m->y);
}

static void check_unpermute(moved *m, int64_t columns, bool weighted)
{
    RUN_OP(unpermute_forward_op(m->sum.t, m->y.t, weighted ? m->by.weights.t : tensor_none(), m->by.place.t));
    for (int64_t i = 0; i < m->sum.elements; i++) {
        float sum = 0.0f;
        for (int64_t at = i / columns * TWO, end = at + TWO; at < end; at++) {
            int64_t row = (int64_t)m->by.place.value[at];
            float weight = weighted ? (float)m->by.weights.value[at] : 1.0f;
            if (row >= 0) sum = fmaf(weight, (float)m->y.value[row * columns + i % columns], sum);
        }
        m->sum.value[i] = (double)rounded(m->y.t.type, sum);
    }
    compare_exactly("unpermute", &m->sum);
}

/* The weights' gradients are sums of `columns` products: each partial sum adds a random rounding. */
static void check_unpermute_backward(moved *m, int64_t columns)
{
    double root = sqrt((double)columns);
    RUN_OP(unpermute_backward_op((unpermute_backward_operands){ m->d_out.t, m->y.t, m->by.weights.t, m->by.place.t,
                                                                m->by.source.t, m->d_y.t, m->by.d_weights.t }));
    for (int64_t i = 0; i < m->d_y.elements; i++) {
        int64_t source = (int64_t)m->by.source.value[i / columns];
        float d = source < 0 ? 0.0f : (float)m->d_out.value[source / TWO * columns + i % columns];
        m->d_y.value[i] = source < 0 ? 0.0 : (double)rounded(m->d_y.t.type, (float)m->by.weights.value[source] * d);
    }
    compare_exactly("d_unpermute", &m->d_y);
    for (int64_t i = 0; i < m->by.place.elements; i++) {
        int64_t row = (int64_t)m->by.place.value[i];
        double *sum = &m->by.d_weights.value[i];
        *sum = 0.0;
        for (int64_t k = 0; row >= 0 && k < columns; k++)
            *sum += m->d_out.value[i / TWO * columns + k] * m->y.value[row * columns + k];
    }
    compare("d_weights", &m->by.d_weights, m->by.d_weights.value, 0.0, (4 * root + 4) * F32_ROUND * root);
}

static void rows_move(void **state)
{
    static const int64_t columns[] = { 5, 64, 2104 }, gaps[] = { 0, 5, 8 };
    for (int i = 0; i < 5; i++)
        for (dtype type = F32; type <= BF16; type++)
            for (int k = 0; k < 3; k++) {
                if (!test_is_long() && (i + (type == BF16)) % 3 != k) continue;
                const routing *by = &routings[i];
                int64_t tokens = by->tokens, rows = by->experts * by->rows, n = columns[k], gap = gaps[(i + k) % 3];
                moved m = { .by = routed_open(by, F32),
                            .x = drawn(SAMPLE(type, gap, tokens, n), 1, 1.0, 0.0),
                            .y = SAMPLE(type, gap, rows, n),
                            .sum = SAMPLE(type, gap, tokens, n),
                            .d_out = drawn(SAMPLE(type, gap, tokens, n), 2, 1.0, 0.0),
                            .d_y = SAMPLE(type, gap, rows, n) };
                randomize_logits(&m.by, false);
                run_router(&m.by, false);
                check_permute(&m, n);
                sample_randomize(&m.y, 3, 1.0, 0.0);
                check_unpermute(&m, n, true);
                check_unpermute(&m, n, false);
                check_unpermute_backward(&m, n);
                release();
            }
}

OPERATIONS_PROGRAM("operations_experts", false, routes, rows_move)
