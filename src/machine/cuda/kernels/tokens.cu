/* Tokens and labels as functions of seed, step, sample and position (src/DEFINITIONS.md). A block of 256 threads has
 * 1024 positions of a sample. The launch takes most of the time, because a position has only 8 bytes. */
#include "base/random.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { DOCUMENT = 4096, THREADS = 256, BLOCK_POSITIONS = 1024 };

/* The rule for column b of tokens and labels [s, b]. */
typedef struct {
    tokens_args args;
    uint32_t key;
    const double *scalar;
    int32_t *token, *label;
    int64_t length, samples;
} stream_rule;

static __device__ __forceinline__ philox_block draw(const stream_rule &s, uint32_t number, uint32_t stream)
{
    uint32_t sample = static_cast<uint32_t>(s.args.first_sample + blockIdx.y);
    philox_block counter = { { number, sample, static_cast<uint32_t>(s.scalar[SCALAR_STEP]), stream } };
    return philox4x32(counter, s.args.seed, s.key);
}

static __device__ __forceinline__ int32_t uniform_number(const stream_rule &s, int64_t position, int word)
{
    return static_cast<int32_t>(mulhi(draw(s, static_cast<uint32_t>(position), 0).word[word], s.args.vocabulary));
}

/* Calls body(p) for the block's local positions. */
template <typename body_type> static __device__ __forceinline__ void each_position(const stream_rule &s, body_type body)
{
    int64_t first = static_cast<int64_t>(blockIdx.x) * BLOCK_POSITIONS;
    for (int64_t p = first + threadIdx.x; p < first + BLOCK_POSITIONS && p < s.length; p += THREADS) body(p);
}

static KERNEL(THREADS) uniform_tokens(stream_rule s)
{
    each_position(s, [&](int64_t p) {
        int64_t position = position_of(s.args.place, p, s.length), at = p * s.samples + blockIdx.y;
        s.token[at] = uniform_number(s, position, 0);
        s.label[at] = s.args.labels_next ? uniform_number(s, position + 1, 0) : uniform_number(s, position, 1);
    });
}

static KERNEL(THREADS) zero_tokens(stream_rule s)
{
    each_position(s, [&](int64_t p) { s.token[p * s.samples + blockIdx.y] = s.label[p * s.samples + blockIdx.y] = 0; });
}

/* Consecutive documents: document i ends before position end[i]. */
typedef struct {
    int64_t end[2][THREADS];
} documents;

/* Adds up the lengths of documents first .. first + 255 from `begin` on, in log2(256) rounds. Returns the sums. */
static __device__ __forceinline__ const int64_t *place_documents(const stream_rule &s, documents &d, uint32_t first,
                                                                 int64_t begin)
{
    int current = 0, i = threadIdx.x;
    __syncthreads();
    d.end[0][i] =
        1 + static_cast<int64_t>(mulhi(draw(s, first + threadIdx.x, 1).word[0], DOCUMENT)) + (i == 0 ? begin : 0);
    __syncthreads();
    for (int distance = 1; distance < THREADS; distance *= 2, current = 1 - current) {
        d.end[1 - current][i] = d.end[current][i] + (i >= distance ? d.end[current][i - distance] : 0);
        __syncthreads();
    }
    return d.end[current];
}

/* Returns the token at a position between `begin` and the last end. Tokens of a document count up from 1. */
static __device__ __forceinline__ int32_t ramp_token(const stream_rule &s, const int64_t *end, int64_t begin,
                                                     int64_t position)
{
    int low = 0, high = THREADS - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (position < end[middle]) high = middle;
        else low = middle + 1;
    }
    uint32_t offset = static_cast<uint32_t>(position - (low > 0 ? end[low - 1] : begin));
    return static_cast<int32_t>(position == end[low] - 1 ? s.args.vocabulary - 1
                                                         : 1 + offset % (s.args.vocabulary - 2));
}

/* Each block places the sample's documents, 256 at a time, until it has passed its own positions. */
static KERNEL(THREADS) ramp_tokens(stream_rule s)
{
    SHARED(documents, d);
    int64_t begin = 0, block_end = static_cast<int64_t>(blockIdx.x + 1) * BLOCK_POSITIONS;
    int64_t last = position_of(s.args.place, (block_end < s.length ? block_end : s.length) - 1, s.length) + 1;
    for (uint32_t first = 0; begin <= last; first += THREADS) {
        const int64_t *end = place_documents(s, d, first, begin);
        int64_t limit = end[THREADS - 1];
        each_position(s, [&](int64_t p) {
            int64_t position = position_of(s.args.place, p, s.length), at = p * s.samples + blockIdx.y;
            if (position >= begin && position < limit) s.token[at] = ramp_token(s, end, begin, position);
            if (position + 1 >= begin && position + 1 < limit) s.label[at] = ramp_token(s, end, begin, position + 1);
        });
        begin = limit;
    }
}

XGSW_EXTERN void cuda_tokens(const cuda_call *c)
{
    const tensor &tokens = c->x[1];
    stream_rule s = { c->args.tokens,
                      fnv1a("tokens"),
                      static_cast<const double *>(c->x[0].data),
                      static_cast<int32_t *>(tokens.data),
                      static_cast<int32_t *>(c->x[2].data),
                      tokens.dim[0],
                      tokens.dim[1] };
    dim3 grid(static_cast<unsigned>(parts_of(s.length, BLOCK_POSITIONS)), static_cast<unsigned>(s.samples));
    switch (s.args.kind) {
    case TOKENS_UNIFORM: LAUNCH(uniform_tokens, grid, THREADS, 0, c->stream, s); break;
    case TOKENS_RAMP: LAUNCH(ramp_tokens, grid, THREADS, sizeof(documents), c->stream, s); break;
    case TOKENS_ZEROS: LAUNCH(zero_tokens, grid, THREADS, 0, c->stream, s); break;
    }
}
