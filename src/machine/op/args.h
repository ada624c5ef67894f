/* The arguments of each kind of operation. C and C++ both include this file, and so do kernels of a GPU. */
#pragma once
#include "base/fp8.h"
#include "base/op_kinds.h"

/* The scalars of a step, one F64 tensor. Only these numbers vary from step to step. */
enum {
    SCALAR_STEP,
    SCALAR_LEARNING_RATE,
    SCALAR_CORRECTION1,
    SCALAR_CORRECTION2,
    SCALAR_CLIP,
    SCALAR_LOSS,
    SCALAR_NORM,
    STEP_SCALARS
};
/* An exact sum of squares in U64 words: a 128-bit integer in units of 2^-80, 32 bits in each word, then two flags: a
 * value was not finite; a value was 2^24 or larger. */
enum { EXACT_SUM_NOT_FINITE = 4, EXACT_SUM_OUTGROWN, EXACT_SUM_WORDS };

typedef struct {
    float scale;
    bool causal;
} attention_args; /* causal: query i of s sees keys 0 .. i + t - s of t; else all keys */
typedef struct {
    float epsilon;
} norm_args;
/* Positions of a rank: local position p is position first + p of the sequence, plus skip in the second half. */
typedef struct {
    int64_t first, skip;
} position_args;
XGSW_SHARED int64_t position_of(position_args at, int64_t p, int64_t length)
{
    return at.first + p + (p >= length / 2 ? at.skip : 0);
}
typedef struct {
    int64_t first; /* first vocabulary row of the table on this rank */
    position_args place;
} embedding_args;
typedef enum { CROSS_ENTROPY_PARTIAL, CROSS_ENTROPY_FINISH } cross_entropy_part;
typedef struct {
    cross_entropy_part part;
    int64_t first, valid;
    float gradient_scale;
} cross_entropy_args;
/* rows, columns: of the unpadded logical tensor. */
typedef struct {
    uint32_t seed, key;
    float scale;
    int64_t first_row, first_column, rows, columns;
} initialize_args;
typedef struct {
    tokens_kind kind;
    bool labels_next;
    uint32_t seed, vocabulary;
    int64_t first_sample;
    position_args place;
} tokens_args;
typedef struct {
    double maximum, minimum;
    int64_t warmup, total;
    bool constant, from_zero;
    float beta1, beta2;
} step_begin_args;
typedef struct {
    double clip, tokens;
} step_clip_args; /* clip: 0 for none; tokens: of the global batch */
/* rows: of an expert's buffer. groups: choices compete in each. local: experts of a rank (buffers interleaved). */
enum { CHOICES = 2 };
typedef struct {
    int64_t rows;
    int32_t local, groups;
    bool given; /* choices, dropped ones included, are an input */
} router_args;
/* Returns the index of row `row` of an expert's buffer among the rows of all experts. */
XGSW_SHARED int64_t expert_row(router_args a, int64_t expert, int64_t row)
{
    return (expert / a.local * a.rows + row) * a.local + expert % a.local;
}
/* Encode the choice of an expert as a number: the expert, or -1 - expert if the choice is dropped. */
XGSW_SHARED int32_t choice_dropped(int32_t expert) { return -1 - expert; }
XGSW_SHARED int32_t choice_expert(int32_t choice) { return choice < 0 ? -1 - choice : choice; }
typedef struct {
    float balance;
} balance_args; /* the balance loss is `balance` times the sum over experts of statistic 0 times statistic 1 */
/* Statistics of an expert in a sequence: sum of its probabilities; tokens that chose it; tokens that it dropped. */
enum { ROUTED_PROBABILITY, ROUTED_CHOSEN, ROUTED_DROPPED, ROUTED_STATISTICS };
/* Number of steps whose amaxes are kept; the initial one counts as a step. */
enum { FP8_HISTORY = 1024 };
/* The factors of an FP8 tensor: the scale that values are multiplied by, and its inverse, which a product applies. Each
 * is stored four times, because cuBLASLt reads a factor only at a multiple of 16 bytes (13.1 on an H100). */
enum { FP8_SCALE = 0, FP8_INVERSE = 4, FP8_FACTORS = 8 };
XGSW_SHARED void fp8_set_factors(float to[FP8_FACTORS], float scale)
{
    for (int i = 0; i < FP8_FACTORS; i++) to[i] = i < FP8_INVERSE ? scale : 1.0f / scale;
}
/* Counts of FP8 encoding: nonzero values rounded to zero; saturated values; all values. */
enum { FP8_UNDERFLOWS, FP8_SATURATIONS, FP8_VALUES, FP8_COUNTS };
typedef struct {
    int64_t heads, width;
} rope_args; /* if all heads are encoded: number of rotated heads, and of rotated elements of each */
typedef struct {
    bool exact;
    fp8_kind first; /* kind of the first tensor */
} fp8_scales_args;
/* key: of the digest. place: index of the tensor's first element in the whole that is digested. */
typedef struct {
    uint64_t key;
    int64_t place;
} digest_args;
/* Sums with random signs. The tensor holds the parts of `owners` ranks, one after another; place: index of its first
 * element. Each part has SUM_SLICES slices of whole SIGN_RUNs; slices of a small part can be empty. */
enum { SUM_SLICES = 16 };
enum { SLICE_SIGNED, SLICE_SQUARES, SLICE_TOTALS };
typedef struct {
    double of[SLICE_TOTALS];
} slice_totals;
typedef struct {
    uint64_t key;
    int64_t place;
    int owners;
} signed_sums_args;
XGSW_SHARED int64_t slice_begin(int64_t part, int slice) { return part / SIGN_RUN * slice / SUM_SLICES * SIGN_RUN; }
typedef struct {
    double value;
} fill_args;
typedef struct {
    double factor;
} scale_args;
typedef struct {
    int64_t index;
} flip_args;
enum { OP_OPERANDS = 14 };
struct group;
typedef struct {
    struct group *group;
    uint64_t sequence, era; /* era: activity_era at submission */
    int16_t peer[OP_OPERANDS];
} fabric_args; /* peer: exchange only */

typedef union {
    attention_args attention;
    fp8_scales_args fp8_scales;
    rope_args rope;
    norm_args norm;
    embedding_args embedding;
    cross_entropy_args cross_entropy;
    initialize_args initialize;
    tokens_args tokens;
    adamw_rule adamw;
    step_begin_args step_begin;
    step_clip_args step_clip;
    router_args router;
    balance_args balance;
    digest_args digest;
    signed_sums_args signed_sums;
    fill_args fill;
    scale_args scale;
    flip_args flip;
    fabric_args fabric;
} op_args;
