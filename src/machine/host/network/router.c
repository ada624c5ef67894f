/* Routing of tokens to two experts each (Shazeer et al. 2017; balance loss: Fedus et al. 2022, section 2.2). */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

enum { LOGITS, ORDER, CHOSEN, CHOSEN_WEIGHTS, PLACE, SOURCE, STATISTICS };

typedef struct {
    router_args args;
    int64_t tokens, experts, sequences, group_tokens;
    const tensor *logits;
    const int32_t *order; /* [tokens]; NULL: the order of tokens */
    int32_t *choice, *place, *source;
    float *weight, *statistics;
} router;

static router router_of(const op *o)
{
    const tensor *logits = &o->operand[LOGITS].tensor;
    int64_t tokens = tensor_row_count(logits);
    return (router){ .args = o->args.router,
                     .tokens = tokens,
                     .experts = tensor_columns(logits),
                     .sequences = o->operand[STATISTICS].tensor.dim[0],
                     .group_tokens = tokens / o->args.router.groups,
                     .logits = logits,
                     .order = o->operand[ORDER].tensor.data,
                     .choice = o->operand[CHOSEN].tensor.data,
                     .place = o->operand[PLACE].tensor.data,
                     .source = o->operand[SOURCE].tensor.data,
                     .weight = o->operand[CHOSEN_WEIGHTS].tensor.data,
                     .statistics = o->operand[STATISTICS].tensor.data };
}

/* Returns the logit of an existing expert: a faulty choice is replaced by the last expert. */
static float logit(const tensor *logits, int64_t token, int64_t expert)
{
    expert = smaller(expert, tensor_columns(logits) - 1);
    const char *at = tensor_row(logits, token, expert);
    return logits->type == F32 ? *(const float *)at : bf16_widen(*(const uint16_t *)at);
}

static top_two two_largest(const tensor *logits, int64_t token)
{
    top_two t = top_two_none();
    for (int64_t e = 0; e < tensor_columns(logits); e++) t = top_two_with(t, (int)e, logit(logits, token, e));
    return t;
}

static void choose(const router *r, int64_t token)
{
    top_two t = two_largest(r->logits, token);
    for (int k = 0; k < CHOICES; k++) r->choice[CHOICES * token + k] = t.expert[k];
}

static void set_weights(const router *r, int64_t token)
{
    const int32_t *choice = r->choice + CHOICES * token;
    pair_weights w = pair_softmax(logit(r->logits, token, choice_expert(choice[0])),
                                  logit(r->logits, token, choice_expert(choice[1])));
    for (int k = 0; k < CHOICES; k++) r->weight[CHOICES * token + k] = w.of[k];
}

/* ---- which choices are kept ---- */

static int64_t token_of(const router *r, int64_t g, int64_t i)
{
    return r->order ? r->order[g * r->group_tokens + i] : i;
}

/* Returns the index of the token's choice that is this expert and not dropped, or -1. */
static int choice_of(const router *r, int64_t token, int64_t expert)
{
    for (int k = 0; k < CHOICES; k++)
        if (r->choice[CHOICES * token + k] == expert) return k;
    return -1;
}

/* Counts the choices whose weight has at least these bits. Positive floats are ordered like their bits. */
static int64_t count_reaching(const router *r, int64_t g, int64_t expert, uint32_t least)
{
    int64_t count = 0;
    for (int64_t i = 0; i < r->group_tokens; i++) {
        int64_t token = token_of(r, g, i);
        int k = choice_of(r, token, expert);
        count += k >= 0 && float_bits(r->weight[CHOICES * token + k]) >= least;
    }
    return count;
}

/* Returns the bits of the largest value that at least `capacity` weights reach, or 0 if all choices fit. */
static uint32_t threshold(const router *r, int64_t g, int64_t expert, int64_t capacity)
{
    uint32_t least = 0;
    if (count_reaching(r, g, expert, 0) <= capacity) return 0;
    for (uint32_t bit = 1u << 30; bit; bit >>= 1)
        if (count_reaching(r, g, expert, least | bit) >= capacity) least |= bit;
    return least;
}

/* Fills the expert's rows: with all choices above the threshold, and the first that are equal to it. */
static void place_group(const router *r, int64_t g, int64_t expert)
{
    int64_t capacity = r->args.rows / r->args.groups, used = g * capacity, end = used + capacity;
    uint32_t least = threshold(r, g, expert, capacity);
    int64_t ties = capacity - count_reaching(r, g, expert, least + 1);
    for (int64_t i = 0; i < r->group_tokens; i++) {
        int64_t token = token_of(r, g, i);
        int k = choice_of(r, token, expert);
        if (k < 0) continue;
        int64_t at = CHOICES * token + k;
        uint32_t bits = float_bits(r->weight[at]);
        bool kept = used < end && (bits > least || (bits == least && ties-- > 0));
        r->place[at] = kept ? (int32_t)expert_row(r->args, expert, used) : -1;
        if (kept) r->source[expert_row(r->args, expert, used++)] = (int32_t)at;
    }
    for (; used < end; used++) r->source[expert_row(r->args, expert, used)] = -1;
}

static void place_expert(const router *r, int64_t expert)
{
    for (int64_t g = 0; g < r->args.groups; g++) place_group(r, g, expert);
}

/* Choices that are given as dropped get no place. If none are given, choices without a place are marked as dropped. */
static void mark_dropped(const router *r)
{
    for (int64_t i = 0; i < CHOICES * r->tokens; i++) {
        if (r->choice[i] < 0) r->place[i] = -1;
        else if (r->place[i] < 0 && !r->args.given) r->choice[i] = choice_dropped(r->choice[i]);
    }
}

/* ---- statistics ---- */

/* The largest logit of a row, and the sum of e^(x - largest). */
typedef struct {
    float largest, sum;
} softmax_sum;

static softmax_sum softmax_sum_of(const tensor *logits, int64_t token)
{
    softmax_sum m = { logit(logits, token, 0), 0.0f };
    for (int64_t e = 1; e < tensor_columns(logits); e++) m.largest = fmaxf(m.largest, logit(logits, token, e));
    for (int64_t e = 0; e < tensor_columns(logits); e++) m.sum += exp_shared(logit(logits, token, e) - m.largest);
    return m;
}

static float probability(const tensor *logits, int64_t token, int64_t e, softmax_sum m)
{
    return exp_shared(logit(logits, token, e) - m.largest) / m.sum;
}

static void count_token(const router *r, int64_t token, float *statistics)
{
    softmax_sum m = softmax_sum_of(r->logits, token);
    for (int64_t e = 0; e < r->experts; e++)
        statistics[ROUTED_PROBABILITY * r->experts + e] += probability(r->logits, token, e, m);
    for (int k = 0; k < CHOICES; k++) {
        int32_t choice = r->choice[CHOICES * token + k];
        int64_t e = smaller(choice_expert(choice), r->experts - 1);
        statistics[ROUTED_CHOSEN * r->experts + e] += 1.0f;
        if (choice < 0) statistics[ROUTED_DROPPED * r->experts + e] += 1.0f;
    }
}

static void count_sequence(const router *r, int64_t sequence)
{
    int64_t length = ROUTED_STATISTICS * r->experts;
    float *statistics = r->statistics + sequence * length;
    memset(statistics, 0, (size_t)length * sizeof *statistics);
    for (int64_t token = sequence; token < r->tokens; token += r->sequences) count_token(r, token, statistics);
}

void host_router_forward(const op *o, void *scratch)
{
    router r = router_of(o);
#pragma omp parallel for schedule(static)
    for (int64_t token = 0; token < r.tokens; token++) {
        if (!r.args.given) choose(&r, token);
        set_weights(&r, token);
    }
#pragma omp parallel for schedule(static)
    for (int64_t e = 0; e < r.experts; e++) place_expert(&r, e);
    mark_dropped(&r);
#pragma omp parallel for schedule(static)
    for (int64_t s = 0; s < r.sequences; s++) count_sequence(&r, s);
}

/* ---- backward ---- */

enum { B_LOGITS, B_CHOICES, B_D_WEIGHTS, B_STATISTICS, B_D_LOGITS, B_LOSS, B_LOAD };

static const float *chosen_of(const op *o, int64_t token)
{
    const tensor *s = &o->operand[B_STATISTICS].tensor;
    return (const float *)s->data + (token % s->dim[0] * ROUTED_STATISTICS + ROUTED_CHOSEN) * s->dim[2];
}

/* Gradient of the balance loss: p_e (c_e - sum of p c), c = balance * tokens of e. Of weights: +- w0 w1 (d0 - d1). */
static void backward_token(const op *o, int64_t token)
{
    const tensor *logits = &o->operand[B_LOGITS].tensor, *d_logits = &o->operand[B_D_LOGITS].tensor;
    const int32_t *choice = (const int32_t *)o->operand[B_CHOICES].tensor.data + CHOICES * token;
    const float *d = (const float *)o->operand[B_D_WEIGHTS].tensor.data + CHOICES * token,
                *chosen = chosen_of(o, token);
    float balance = o->args.balance.balance, mean = 0.0f;
    int first = choice_expert(choice[0]), second = choice_expert(choice[1]);
    pair_weights w = pair_softmax(logit(logits, token, first), logit(logits, token, second));
    float d_logit = w.of[0] * w.of[1] * (d[0] - d[1]);
    softmax_sum m = softmax_sum_of(logits, token);
    for (int64_t e = 0; e < tensor_columns(logits); e++)
        mean = fmaf(probability(logits, token, e, m), balance * chosen[e], mean);
    for (int64_t e = 0; e < tensor_columns(logits); e++) {
        float g = probability(logits, token, e, m) * (balance * chosen[e] - mean);
        g += e == first ? d_logit : e == second ? -d_logit : 0.0f;
        row_store(tensor_row(d_logits, token, e), d_logits->type, &g, 1);
    }
}

/* Adds one sequence's balance loss, and its choices to the load. */
static void report_sequence(const op *o, int64_t sequence)
{
    const tensor *s = &o->operand[B_STATISTICS].tensor;
    const float *statistics = (const float *)s->data + sequence * ROUTED_STATISTICS * s->dim[2];
    double *loss = o->operand[B_LOSS].tensor.data, *load = o->operand[B_LOAD].tensor.data, sum = 0.0;
    for (int64_t e = 0; e < s->dim[2]; e++)
        sum +=
            (double)statistics[ROUTED_PROBABILITY * s->dim[2] + e] * (double)statistics[ROUTED_CHOSEN * s->dim[2] + e];
    if (loss) loss[sequence] += (double)o->args.balance.balance * sum;
    for (int64_t e = 0; load && e < 2 * s->dim[2]; e++) load[e] += (double)statistics[ROUTED_CHOSEN * s->dim[2] + e];
}

void host_router_backward(const op *o, void *scratch)
{
    int64_t tokens = tensor_row_count(&o->operand[B_LOGITS].tensor);
#pragma omp parallel for schedule(static)
    for (int64_t token = 0; token < tokens; token++) backward_token(o, token);
    for (int64_t s = 0; s < o->operand[B_STATISTICS].tensor.dim[0]; s++) report_sequence(o, s);
}
