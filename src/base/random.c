/* Counter-based random numbers. */
#include "base/random.h"

uint32_t fnv1a(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

float normal_scale(double std) { return (float)(std / sqrt(8.0 * (65536.0 * 65536.0 - 1.0) / 12.0)); }
