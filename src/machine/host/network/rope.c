/* Rotary positions: pairs (x[i], x[i + d/2]) are rotated by the angles of their position (Su et al. 2021). */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

enum { LARGEST_HALF = LARGEST_HEAD_DIM / 2 };

/* Reads the cosines and sines of one position. sign -1 rotates back. */
static void angles_of(const tensor *table, int64_t position, float sign, float *cosine, float *sine)
{
    int64_t half = table->dim[1];
    const float *pair = (const float *)table->data + position * 2 * half;
    for (int64_t i = 0; i < half; i++) {
        cosine[i] = pair[2 * i];
        sine[i] = sign * pair[2 * i + 1];
    }
}

static void rotate_row(void *row, dtype type, int64_t half, const float *cosine, const float *sine)
{
    float tile[2 * LARGEST_HALF], *x = row_update(tile, row, type, 2 * half);
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = fmaf(a, cosine[i], -(b * sine[i]));
        x[i + half] = fmaf(b, cosine[i], a * sine[i]);
    }
    row_close(row, type, x, 2 * half);
}

static void rotate(const op *o, float sign)
{
    const tensor *x = &o->operand[0].tensor, *table = &o->operand[1].tensor;
    int64_t rows = x->dim[1] * x->dim[2], half = x->dim[3] / 2;
#pragma omp parallel for schedule(static)
    for (int64_t position = 0; position < x->dim[0]; position++) {
        float cosine[LARGEST_HALF], sine[LARGEST_HALF];
        angles_of(table, position, sign, cosine, sine);
        for (int64_t row = 0; row < rows; row++)
            rotate_row(tensor_row(x, position * rows + row, 0), x->type, half, cosine, sine);
    }
}

void host_rope_forward(const op *o, void *scratch) { rotate(o, 1.0f); }

void host_rope_backward(const op *o, void *scratch) { rotate(o, -1.0f); }
