/* The zig-zag split. */
#include "parallel/zigzag.h"

zigzag zigzag_of(const group *context, int64_t sequence)
{
    int64_t ranks = context->size, piece = sequence / (2 * ranks);
    return (zigzag){ .length = sequence / ranks,
                     .first = context->rank * piece,
                     .skip = 2 * (ranks - 1 - context->rank) * piece };
}

int64_t zigzag_position(const zigzag *z, int64_t p) { return z->first + p + (p >= z->length / 2 ? z->skip : 0); }
