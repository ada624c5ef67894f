/* Routing of tokens to two experts each, with a capacity, and its backward. Bit-equal to the host, except the sums of
 * probabilities over positions. 2048 tokens and 8 experts: choosing and the gradient take 8 blocks of 256 threads, a
 * thread per token. For each expert, a block of 512 threads finds the smallest weight to keep in up to 31 counts, then
 * places the choices. For each sequence and expert, a block of 256 threads counts. Data, 100 kB, is in the cache. */
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/kernels.h"

enum { THREADS = 256, PLACE_THREADS = 512 };

typedef struct {
    router_args args;
    int64_t tokens, experts, sequences, group_tokens;
    line logits; /* [tokens, experts] */
    const int32_t *order;
    int32_t *choice, *place, *source;
    float *weight, *statistics;
} router;

static router router_of(const cuda_call *c)
{
    int64_t tokens = rows_of(c->x[0]);
    return { .args = c->args.router,
             .tokens = tokens,
             .experts = columns_of(c->x[0]),
             .sequences = c->x[6].dim[0],
             .group_tokens = tokens / c->args.router.groups,
             .logits = { c->x[0].data, c->x[0].type },
             .order = static_cast<const int32_t *>(c->x[1].data),
             .choice = static_cast<int32_t *>(c->x[2].data),
             .place = static_cast<int32_t *>(c->x[4].data),
             .source = static_cast<int32_t *>(c->x[5].data),
             .weight = static_cast<float *>(c->x[3].data),
             .statistics = static_cast<float *>(c->x[6].data) };
}

static __device__ __forceinline__ int64_t thread_number()
{
    return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ top_two two_largest(const line &logits, int64_t token, int64_t experts)
{
    top_two t = top_two_none();
    for (int64_t e = 0; e < experts; e++) t = top_two_with(t, (int)e, get(logits, token * experts + e));
    return t;
}

/* Reads the logit of an existing expert: a faulty choice is replaced by the last expert. */
static __device__ __forceinline__ float chosen_logit(const line &logits, int64_t token, int64_t experts, int64_t expert)
{
    return get(logits, token * experts + (expert < experts ? expert : experts - 1));
}

/* Dropped ones among given choices get place -1. */
static KERNEL(THREADS) choose(router r)
{
    int64_t token = thread_number();
    if (token >= r.tokens) return;
    int32_t *choice = r.choice + CHOICES * token;
    top_two t = two_largest(r.logits, token, r.experts);
    if (!r.args.given) choice[0] = t.expert[0], choice[1] = t.expert[1];
    pair_weights w = pair_softmax(chosen_logit(r.logits, token, r.experts, choice_expert(choice[0])),
                                  chosen_logit(r.logits, token, r.experts, choice_expert(choice[1])));
    for (int k = 0; k < CHOICES; k++) {
        r.weight[CHOICES * token + k] = w.of[k];
        if (choice[k] < 0) r.place[CHOICES * token + k] = -1;
    }
}

/* ---- which choices are kept: one block per expert ---- */

struct placing {
    float partial[PLACE_THREADS / WARP];
    int32_t count[PLACE_THREADS];
};

/* A thread's range of a group's tokens. */
typedef struct {
    int64_t group, begin, end;
} range;
static __device__ __forceinline__ range range_of(const router &r, int64_t group)
{
    int64_t each = parts_of(r.group_tokens, PLACE_THREADS), begin = threadIdx.x * each, end = begin + each;
    return { group, begin < r.group_tokens ? begin : r.group_tokens, end < r.group_tokens ? end : r.group_tokens };
}

/* Calls body(index of the choice, bits of its weight) for the expert's choices among the tokens. */
template <typename body_type>
static __device__ __forceinline__ void each_choice(const router &r, const range &tokens, int32_t expert, body_type body)
{
    for (int64_t i = tokens.begin; i < tokens.end; i++) {
        int64_t token = r.order ? r.order[tokens.group * r.group_tokens + i] : i, at = CHOICES * token;
        for (int k = 0; k < CHOICES; k++)
            if (r.choice[at + k] == expert) body(at + k, float_bits(r.weight[at + k]));
    }
}

static __device__ __forceinline__ int64_t count_reaching(const router &r, const range &tokens, int32_t expert,
                                                         uint32_t least, placing &shared)
{
    int count = 0;
    each_choice(r, tokens, expert, [&](int64_t at, uint32_t bits) { count += bits >= least; });
    return static_cast<int64_t>(block_sum(static_cast<float>(count), shared.partial));
}

/* Returns the sum of `count` over the threads before this one. */
static __device__ __forceinline__ int64_t count_before(int count, placing &shared)
{
    int64_t before = 0;
    __syncthreads();
    shared.count[threadIdx.x] = count;
    __syncthreads();
    for (unsigned i = 0; i < threadIdx.x; i++) before += shared.count[i];
    return before;
}

/* Returns the bits of the largest value that `capacity` weights reach, or 0 if all weights fit. Finds it bit by bit,
 * because positive floats are ordered like their bits. */
static __device__ __forceinline__ uint32_t threshold(const router &r, const range &tokens, int32_t expert,
                                                     int64_t capacity, placing &shared)
{
    uint32_t least = 0;
    if (count_reaching(r, tokens, expert, 0, shared) <= capacity) return 0;
    for (uint32_t bit = 1u << 30; bit; bit >>= 1)
        if (count_reaching(r, tokens, expert, least | bit, shared) >= capacity) least |= bit;
    return least;
}

static __device__ __forceinline__ void place_group(const router &r, int32_t expert, int64_t group, placing &shared)
{
    int64_t capacity = r.args.rows / r.args.groups, first = group * capacity;
    range tokens = range_of(r, group);
    uint32_t least = threshold(r, tokens, expert, capacity, shared);
    int64_t at_least = capacity - count_reaching(r, tokens, expert, least + 1, shared);
    int above = 0, equal = 0;
    each_choice(r, tokens, expert, [&](int64_t at, uint32_t bits) { above += bits > least, equal += bits == least; });
    int64_t left = at_least - count_before(equal, shared), kept = left < 0 ? 0 : left < equal ? left : equal;
    int64_t used = count_before(above + (int)kept, shared);
    each_choice(r, tokens, expert, [&](int64_t at, uint32_t bits) {
        bool keep = used < capacity && (bits > least || (bits == least && left-- > 0));
        r.place[at] = keep ? (int32_t)expert_row(r.args, expert, first + used) : -1;
        if (keep) r.source[expert_row(r.args, expert, first + used++)] = (int32_t)at;
    });
    int64_t all = count_before(0, shared) + static_cast<int64_t>(block_sum((float)(above + kept), shared.partial));
    for (int64_t row = all + threadIdx.x; row < capacity; row += PLACE_THREADS)
        r.source[expert_row(r.args, expert, first + row)] = -1;
}

static KERNEL(PLACE_THREADS) place_expert(router r)
{
    SHARED(placing, shared);
    for (int64_t g = 0; g < r.args.groups; g++) place_group(r, static_cast<int32_t>(blockIdx.x), g, shared);
}

static KERNEL(THREADS) mark_dropped(router r)
{
    int64_t i = thread_number();
    if (i < CHOICES * r.tokens && r.choice[i] >= 0 && r.place[i] < 0) r.choice[i] = choice_dropped(r.choice[i]);
}

/* ---- statistics: one block per sequence and expert ---- */

typedef struct {
    float largest, sum;
} soft_maximum;

static __device__ __forceinline__ soft_maximum soft_maximum_of(const line &logits, int64_t token, int64_t experts)
{
    soft_maximum m = { get(logits, token * experts), 0.0f };
    for (int64_t e = 1; e < experts; e++) m.largest = fmaxf(m.largest, get(logits, token * experts + e));
    for (int64_t e = 0; e < experts; e++) m.sum += exp_shared(get(logits, token * experts + e) - m.largest);
    return m;
}

static __device__ __forceinline__ float probability(float logit, soft_maximum m)
{
    return exp_shared(logit - m.largest) / m.sum;
}

struct count_parts {
    float of[THREADS / WARP];
};

static KERNEL(THREADS) count_choices(router r)
{
    SHARED(count_parts, shared);
    int64_t sequence = blockIdx.y;
    int32_t e = static_cast<int32_t>(blockIdx.x);
    float counts[ROUTED_STATISTICS] = {};
    for (int64_t token = sequence + threadIdx.x * r.sequences; token < r.tokens; token += THREADS * r.sequences) {
        counts[ROUTED_PROBABILITY] +=
            probability(get(r.logits, token * r.experts + e), soft_maximum_of(r.logits, token, r.experts));
        for (int k = 0; k < CHOICES; k++) {
            int32_t choice = r.choice[CHOICES * token + k];
            counts[ROUTED_CHOSEN] += choice_expert(choice) == e;
            counts[ROUTED_DROPPED] += choice == choice_dropped(e);
        }
    }
    for (int i = 0; i < ROUTED_STATISTICS; i++) {
        float sum = block_sum(counts[i], shared.of);
        if (threadIdx.x == 0) r.statistics[(sequence * ROUTED_STATISTICS + i) * r.experts + e] = sum;
    }
}

static unsigned blocks_for(int64_t threads) { return static_cast<unsigned>(parts_of(threads, THREADS)); }

XGSW_EXTERN void cuda_router_forward(const cuda_call *c)
{
    router r = router_of(c);
    dim3 each(static_cast<unsigned>(r.experts), static_cast<unsigned>(r.sequences));
    LAUNCH(choose, blocks_for(r.tokens), THREADS, 0, c->stream, r);
    LAUNCH(place_expert, static_cast<unsigned>(r.experts), PLACE_THREADS, sizeof(placing), c->stream, r);
    if (!r.args.given) LAUNCH(mark_dropped, blocks_for(CHOICES * r.tokens), THREADS, 0, c->stream, r);
    LAUNCH(count_choices, each, THREADS, sizeof(count_parts), c->stream, r);
}

/* ---- backward ---- */

typedef struct {
    line logits, d_logits;
    const int32_t *choice;
    const float *d_weight, *statistics;
    double *loss, *load;
    int64_t tokens, experts, sequences;
    float balance;
} router_gradient;

static KERNEL(THREADS) token_gradients(router_gradient r)
{
    int64_t token = thread_number(), first = token * r.experts;
    if (token >= r.tokens) return;
    const float *chosen = r.statistics + (token % r.sequences * ROUTED_STATISTICS + ROUTED_CHOSEN) * r.experts,
                *d = r.d_weight + CHOICES * token;
    int32_t one = choice_expert(r.choice[CHOICES * token]), other = choice_expert(r.choice[CHOICES * token + 1]);
    pair_weights w =
        pair_softmax(chosen_logit(r.logits, token, r.experts, one), chosen_logit(r.logits, token, r.experts, other));
    float pair_gradient = w.of[0] * w.of[1] * (d[0] - d[1]), mean = 0.0f;
    soft_maximum m = soft_maximum_of(r.logits, token, r.experts);
    for (int64_t e = 0; e < r.experts; e++)
        mean = fmaf(probability(get(r.logits, first + e), m), r.balance * chosen[e], mean);
    for (int64_t e = 0; e < r.experts; e++) {
        float g = probability(get(r.logits, first + e), m) * (r.balance * chosen[e] - mean);
        put(r.d_logits, first + e, g + (e == one ? pair_gradient : e == other ? -pair_gradient : 0.0f));
    }
}

/* Uses one thread. Adds the sequences' balance losses, and their choices to the load. */
static KERNEL(WARP) report_sequences(router_gradient r)
{
    if (threadIdx.x > 0) return;
    for (int64_t s = 0; s < r.sequences; s++) {
        const float *statistics = r.statistics + s * ROUTED_STATISTICS * r.experts;
        double sum = 0.0;
        for (int64_t e = 0; e < r.experts; e++)
            sum += static_cast<double>(statistics[ROUTED_PROBABILITY * r.experts + e]) *
                   static_cast<double>(statistics[ROUTED_CHOSEN * r.experts + e]);
        if (r.loss) r.loss[s] += static_cast<double>(r.balance) * sum;
        for (int64_t e = 0; r.load && e < 2 * r.experts; e++)
            r.load[e] += static_cast<double>(statistics[ROUTED_CHOSEN * r.experts + e]);
    }
}

XGSW_EXTERN void cuda_router_backward(const cuda_call *c)
{
    router_gradient r = { .logits = { c->x[0].data, c->x[0].type },
                          .d_logits = { c->x[4].data, c->x[4].type },
                          .choice = static_cast<const int32_t *>(c->x[1].data),
                          .d_weight = static_cast<const float *>(c->x[2].data),
                          .statistics = static_cast<const float *>(c->x[3].data),
                          .loss = static_cast<double *>(c->x[5].data),
                          .load = static_cast<double *>(c->x[6].data),
                          .tokens = rows_of(c->x[0]),
                          .experts = columns_of(c->x[0]),
                          .sequences = c->x[3].dim[0],
                          .balance = c->args.balance.balance };
    LAUNCH(token_gradients, blocks_for(r.tokens), THREADS, 0, c->stream, r);
    LAUNCH(report_sequences, 1, WARP, 0, c->stream, r);
}
