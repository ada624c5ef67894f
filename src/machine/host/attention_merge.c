/* Two parts of one attention become one (Milakov & Gimelshein 2018): outputs weighted by what their keys hold of the
 * sum. */
#include "machine/host/host.h"
#include "machine/host/row.h"

enum { OUT, LSE, PART, PART_LSE };

/* One position, batch row and head. */
static void weigh(float *restrict out, const float *restrict part, float share, float part_share, int64_t d)
{
#pragma omp simd
    for (int64_t i = 0; i < d; i++) out[i] = out[i] * share + part[i] * part_share;
}

/* lse = log(e^lse + e^part); the shares of both in the sum. */
static void join(float *lse, float part, float *share, float *part_share)
{
    float largest = *lse > part ? *lse : part, x = exp_shared(*lse - largest), y = exp_shared(part - largest);
    *share = x / (x + y);
    *part_share = y / (x + y);
    *lse = largest + logf(x + y);
}

void host_attention_merge(const op *o, void *scratch)
{
    const tensor *out = &o->operand[OUT].tensor, *part = &o->operand[PART].tensor;
    int64_t rows = out->dim[1] * out->dim[2]; /* batch rows x heads, in which lse's rows run too */
#pragma omp parallel for schedule(static)
    for (int64_t position = 0; position < out->dim[0]; position++)
        for (int64_t row = 0; row < rows; row++) {
            float share, part_share, *added = tensor_row(&o->operand[PART_LSE].tensor, row, position);
            join(tensor_row(&o->operand[LSE].tensor, row, position), *added, &share, &part_share);
            weigh(tensor_row(out, position * rows + row, 0), tensor_row(part, position * rows + row, 0), share,
                  part_share, out->dim[3]);
        }
}
