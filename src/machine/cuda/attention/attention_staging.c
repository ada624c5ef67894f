/* Twins of operands, in scratch. */
#include "machine/cuda/attention/attention_staging.h"
#include "machine/cuda/kernels/kernels.h"

enum { PIECE = 256 };

size_t attention_piece(size_t bytes) { return (bytes + PIECE - 1) / PIECE * PIECE; }
void *attention_piece_at(const cuda_call *c, size_t offset)
{
    return (void *)(attention_piece((uintptr_t)c->scratch) + offset);
}

bool attention_is_staged(const cuda_call *c, int which) { return which >= DK && c->x[which].type == F32; }

size_t attention_staged(const cuda_call *c, bool backward, size_t first, cuda_call *staged)
{
    *staged = *c;
    for (int i = DK; backward && i <= DV; i++) {
        const int64_t *dim = c->x[i].dim;
        if (!attention_is_staged(c, i)) continue;
        staged->x[i] = tensor_4d(attention_piece_at(c, first), BF16, dim[0], dim[1], dim[2], dim[3]);
        staged->update[i] = false;
        first += attention_piece(tensor_span(&staged->x[i]));
    }
    return first;
}

void attention_unstage(const cuda_call *c, const cuda_call *staged)
{
    for (int i = DK; i <= DV; i++) {
        const cuda_call copy = {
            .x = { c->x[i], staged->x[i] }, .update = { c->update[i] }, .name = c->name, .stream = c->stream
        };
        if (attention_is_staged(c, i)) cuda_copy(&copy);
    }
}
