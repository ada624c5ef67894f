/* FP8 of a stage: the FP8 values that products multiply, their amaxes, and the scales that follow. Scales are for the
 * next step (delayed scaling, Micikevicius et al. 2022), or for the microbatch's tensor before it is rounded, with
 * amaxes over tensor and context ranks (current scaling). Each product has three tensors: its input and weight, E4M3,
 * and the gradient of its output, E5M2. A product sums over contiguous values, so all three also exist transposed:
 * input and gradient for the weight's gradient, the weight for the input's gradient. Inputs and gradients that tensor
 * ranks hold in parts are gathered as FP8 values and then transposed; the others are transposed when they are
 * rounded. */
#pragma once
#include "model/family.h"

/* FP8 of one product of a layer; all layers share its buffers. */
typedef struct {
    const layer_step *step;
    int64_t k, n;   /* columns of the input, of the output */
    int64_t groups; /* groups of interleaved rows: own experts; 0: rows of one matrix */
    int64_t parts;  /* consecutive parts of the rows with separate scales: expert_parts, or 1 */
    int64_t input_rows, output_rows, gathered_rows; /* gathered: of all tensor ranks, the larger of the other two */
    bool keeps_rows;                      /* whether the tape keeps the input's FP8 values as rows, else transposed */
    tensor input;                         /* [input_rows, k], if the tape keeps the transposed input */
    tensor input_transposed;              /* [k, gathered_rows], if the tape keeps rows */
    tensor gradient, gradient_transposed; /* of the output: [output_rows, n], [n, gathered_rows] */
} fp8_product;

/* OBSERVES: multiplies BF16 and only finds amaxes. */
typedef enum { FP8_OFF, FP8_OBSERVES, FP8_ENCODES } fp8_mode;
enum { FP8_PRODUCTS = 4 };
typedef struct {
    fp8_mode mode;
    int64_t in_flight; /* most microbatches of a chunk between forward and backward; set before open */
    int products;
    fp8_product product[FP8_PRODUCTS];
    tensor weight; /* of a product, as rows or transposed */
    /* For all tensors of the model, by number: (layer FP8_PRODUCTS + product) FP8_KINDS + kind (base/fp8.h). */
    tensor amax;         /* [tensors] I32: largest magnitudes of the step so far */
    tensor counts;       /* [tensors, FP8_COUNTS] U64 */
    tensor history;      /* [FP8_HISTORY, tensors] I32; delayed scaling */
    tensor current_amax; /* [1] I32: amax of what is rounded next; current scaling */
    tensor scales;       /* [tensors, FP8_FACTORS] F32; current scaling: for each microbatch in flight */
} fp8_state;

static inline int64_t fp8_number(int64_t layer, int64_t product, fp8_kind kind)
{
    return (layer * FP8_PRODUCTS + product) * FP8_KINDS + kind;
}

const char *fp8_kind_name(fp8_kind kind);
fp8_mode fp8_mode_of(const bench_case *c);
/* Returns whether the scales of a step follow from earlier steps. */
bool fp8_delays(const bench_case *c);
int64_t fp8_tensors(const bench_case *c);
/* Takes the memory that the case needs. as_rows: kept_as_rows of recomputing_of. */
void fp8_open(fp8_state *f, const bench_case *c, const family *net, const rank_extents *n, slot_set as_rows, arena *a);
/* Returns the shape of the FP8 values that the tape keeps of a slot; absent if no product multiplies it. */
tensor fp8_kept_shape(const fp8_state *f, int slot);
