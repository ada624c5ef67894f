/* FP8 of a stage: what the products of its layers multiply as codes, the amaxes of the values, and the scales that
 * follow from them: those of the next step (delayed scaling, Micikevicius et al. 2022), or, of current scaling, of the
 * microbatch's own tensor, over tensor and context ranks, before it becomes codes. Of each product three tensors: its
 * input and weight, E4M3, and the gradient of its output, E5M2. A product sums over contiguous codes, so all three also
 * lie transposed: the input and the gradient for the weight's gradient, the weight for the input's. A gradient and an
 * input that tensor ranks hold in parts are gathered as codes and transposed then; the others are when they become
 * codes. */
#pragma once
#include "model/family.h"

/* Of one product of a layer; its buffers are shared by all layers. */
typedef struct {
    const layer_step *step;
    int64_t inputs, outputs;       /* k, n: columns of the input, of what is made of it */
    int64_t groups;                /* of rows that lie interleaved: own experts; 0: rows of one matrix */
    int64_t parts;                 /* of the rows, one after the other, with scales of their own: expert_parts, or 1 */
    int64_t own, made, whole;      /* rows: of the input, of what is made of it, of the longer of the two */
    bool by_rows;                  /* the tape keeps the input's codes as rows, else transposed */
    tensor rows;                   /* [own, k]: the input's, where the tape does not keep them */
    tensor transposed;             /* [k, whole]: the input's, where the tape keeps rows */
    tensor gradient, d_transposed; /* [made, n], [n, whole] */
} fp8_product;

/* OBSERVES: multiplies BF16, for the amaxes alone. */
typedef enum { FP8_OFF, FP8_OBSERVES, FP8_ENCODES } fp8_mode;
enum { FP8_PRODUCTS = 4 };
typedef struct {
    fp8_mode mode;
    int64_t in_flight; /* microbatches of a chunk between forward and backward, at most; given before */
    int products;
    fp8_product product[FP8_PRODUCTS];
    tensor weight; /* a product's, as rows or transposed */
    /* Of all tensors of the model: number (layer FP8_PRODUCTS + product) FP8_KINDS + kind (base/fp8.h). */
    tensor amax;    /* [tensors] I32: of the step so far */
    tensor counts;  /* [tensors, FP8_COUNTS] U64 */
    tensor history; /* [FP8_HISTORY, tensors] I32; of delayed scaling */
    tensor latest;  /* [1] I32: amax of what becomes codes next; of current scaling */
    tensor scales;  /* [tensors, FP8_FACTORS] F32; of current scaling so many for each microbatch in flight */
} fp8_state;

static inline int64_t fp8_number(int64_t layer, int64_t product, fp8_kind kind)
{
    return (layer * FP8_PRODUCTS + product) * FP8_KINDS + kind;
}

const char *fp8_kind_name(fp8_kind kind);
fp8_mode fp8_mode_of(const bench_case *c);
/* Do the scales of its steps follow from the steps before? */
bool fp8_delays(const bench_case *c);
int64_t fp8_tensors(const bench_case *c);
/* Takes what the case needs; kept as rows: `rows` of recomputing_of. */
void fp8_open(fp8_state *f, const bench_case *c, const family *of, const rank_extents *n, slot_set rows, arena *a);
/* What the tape has of the codes of a slot; absent where nothing multiplies with it. */
tensor fp8_kept_shape(const fp8_state *f, int slot);
