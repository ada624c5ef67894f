/* The constants of each kind of operation. C and C++ both take this file: kernels of a GPU read it too. */
#pragma once
#include "base/fp8.h"
#include "base/op_kinds.h"

/* The step's scalars, one F64 tensor: the only numbers that vary from step to step. */
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
/* An exact sum of squares, in words of U64: an integer of 128 bits in units of 2^-80, 32 bits to a word, and two flags:
 * something was no number or infinite; a value of 2^24 or more had no room. */
enum { EXACT_SUM_NOT_FINITE = 4, EXACT_SUM_OUTGROWN, EXACT_SUM_WORDS };

typedef struct {
    float scale;
    bool causal;
} attention_args; /* causal: of t keys query i of s sees 0 .. i + t - s; else all */
typedef struct {
    float epsilon;
} norm_args;
/* Local position p is position first + p of the sequence; in the second half of the local positions, skip more. */
typedef struct {
    int64_t first, skip;
} position_args;
XGSW_SHARED int64_t position_of(position_args at, int64_t p, int64_t length)
{
    return at.first + p + (p >= length / 2 ? at.skip : 0);
}
typedef struct {
    int64_t first; /* row of the table held here */
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
} step_clip_args; /* clip 0: none; tokens of the global batch */
/* Rows of an expert's buffer, and groups in which its choices compete; a rank's `local` buffers are interleaved. */
enum { CHOICES = 2 };
typedef struct {
    int64_t rows;
    int32_t local, groups;
    bool given; /* the choices are, and which of them are dropped */
} router_args;
/* Row `row` of an expert's buffer, among those of all experts. */
XGSW_SHARED int64_t expert_row(router_args a, int64_t expert, int64_t row)
{
    return (expert / a.local * a.rows + row) * a.local + expert % a.local;
}
/* A token's choice of an expert, as a number: the expert, or -1 - expert if it is dropped. */
XGSW_SHARED int32_t choice_dropped(int32_t expert) { return -1 - expert; }
XGSW_SHARED int32_t choice_expert(int32_t choice) { return choice < 0 ? -1 - choice : choice; }
typedef struct {
    float balance;
} balance_args; /* the balance loss is so many times the sum over experts of statistics 0 and 1 */
/* Statistics of an expert in a sequence: the sum of its probabilities, the tokens that chose it, those it dropped. */
enum { ROUTED_PROBABILITY, ROUTED_CHOSEN, ROUTED_DROPPED, ROUTED_STATISTICS };
/* FP8: amaxes of so many steps, the one before the first step included. */
enum { FP8_HISTORY = 1024 };
/* The factors of a tensor of codes: what values are multiplied by to become codes, and 1 over it, by which a product
 * multiplies. cuBLASLt reads a factor only at a multiple of 16 bytes (13.1 on an H100), so each is there four times. */
enum { FP8_SCALE = 0, FP8_INVERSE = 4, FP8_FACTORS = 8 };
XGSW_SHARED void fp8_set_factors(float to[FP8_FACTORS], float scale)
{
    for (int i = 0; i < FP8_FACTORS; i++) to[i] = i < FP8_INVERSE ? scale : 1.0f / scale;
}
/* Counts of FP8 encoding: nonzero values rounded to zero; saturated values; all values. */
enum { FP8_UNDERFLOWS, FP8_SATURATIONS, FP8_VALUES, FP8_COUNTS };
typedef struct {
    int64_t heads, width;
} rope_args; /* where codes are made of all heads: those that are rotated, and how much of each */
typedef struct {
    bool exact;
    fp8_kind first; /* kind of number 0 */
} fp8_scales_args;
/* A digest's key, and the place of the first element in the whole that is digested. */
typedef struct {
    uint64_t key;
    int64_t place;
} digest_args;
/* The tensor is the parts of `owners` ranks, one after another; its first element lies at `place`. Each part is cut
 * into SUM_SLICES slices of whole SIGN_RUNs, of which some are empty where the part is small. */
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
    uint64_t sequence, era; /* era: operations of the whole world before it was submitted */
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
