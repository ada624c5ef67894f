/* Rotary position embedding (Su et al. 2021), with the scaling of Llama 3.1. */
#include "model/rope.h"
#include <math.h>

enum { SCALING_FACTOR = 8, SCALING_LOW = 1, SCALING_HIGH = 4, SCALING_CONTEXT = 8192 };

static double scaled(double f)
{
    double turns = SCALING_CONTEXT * f / (2.0 * 3.14159265358979323846); /* over the old context */
    double t = (turns - SCALING_LOW) / (SCALING_HIGH - SCALING_LOW);
    if (turns < SCALING_LOW) return f / SCALING_FACTOR;
    return turns > SCALING_HIGH ? f : (1.0 - t) * f / SCALING_FACTOR + t * f;
}

void rope_table(const model_shape *m, zigzag positions, float *table)
{
    int64_t half = m->head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double f = pow(m->rope_base, -2.0 * (double)i / (double)m->head_dim);
        if (m->rope_scaling) f = scaled(f);
        for (int64_t p = 0; p < positions.length; p++) {
            float *pair = table + (p * half + i) * 2;
            double angle = (double)zigzag_position(&positions, p) * f;
            pair[0] = (float)cos(angle);
            pair[1] = (float)sin(angle);
        }
    }
}
