/* Twins of operands, in scratch. */
#include "machine/cuda/attention/attention_staging.h"
#include "machine/cuda/kernels/kernels.h"

enum { PIECE = 256 };

size_t attention_piece(size_t bytes) { return (bytes + PIECE - 1) / PIECE * PIECE; }
void *attention_piece_at(const cuda_call *c, size_t offset)
{
    return (void *)(attention_piece((uintptr_t)c->scratch) + offset);
}

static bool is_written(bool backward, int which) { return backward ? which >= DQ : which == OUT || which == LSE; }

bool attention_is_staged(const cuda_call *c, bool backward, int which)
{
    if (which == LSE) return !tensor_contiguous(&c->x[LSE]);
    return is_written(backward, which) && c->x[which].type == F32;
}

static tensor twin_of(const tensor *t, int which, void *memory)
{
    if (which == LSE) return tensor_3d(memory, F32, t->dim[0], t->dim[1], t->dim[2]);
    return tensor_4d(memory, BF16, t->dim[0], t->dim[1], t->dim[2], t->dim[3]);
}

size_t attention_staged(const cuda_call *c, bool backward, size_t first, cuda_call *staged)
{
    *staged = *c;
    for (int i = OUT; i <= (backward ? DV : LSE); i++) {
        if (!attention_is_staged(c, backward, i)) continue;
        staged->x[i] = twin_of(&c->x[i], i, attention_piece_at(c, first));
        staged->update[i] = false;
        first += attention_piece(tensor_span(&staged->x[i]));
    }
    return first;
}

static void copy_operand(const cuda_call *c, tensor to, bool adds, tensor from)
{
    const cuda_call copy = { .x = { to, from }, .update = { adds }, .name = c->name, .stream = c->stream };
    cuda_copy(&copy);
}

void attention_stage(const cuda_call *c, bool backward, const cuda_call *staged)
{
    if (backward && attention_is_staged(c, backward, LSE)) copy_operand(c, staged->x[LSE], false, c->x[LSE]);
}

void attention_unstage(const cuda_call *c, bool backward, const cuda_call *staged)
{
    for (int i = OUT; i <= (backward ? DV : LSE); i++)
        if (is_written(backward, i) && attention_is_staged(c, backward, i))
            copy_operand(c, c->x[i], c->update[i], staged->x[i]);
}
