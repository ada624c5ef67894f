/* Parts of an attention call, and BF16 staging tensors of operands in scratch. */
#include "machine/cuda/attention/attention_staging.h"
#include "machine/cuda/kernels/kernels.h"

enum { ALIGNMENT = 256 };

size_t attention_align(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
void *attention_scratch_at(const cuda_call *c, size_t offset)
{
    return (void *)(attention_align((uintptr_t)c->scratch) + offset);
}

bool attention_is_staged(const cuda_call *c, int which) { return which >= DK && c->x[which].type == F32; }

static tensor staging_tensor(const cuda_call *c, int which, size_t *end)
{
    const int64_t *dim = c->x[which].dim;
    tensor t = tensor_4d(attention_scratch_at(c, *end), BF16, dim[0], dim[1], dim[2], dim[3]);
    *end += attention_align(tensor_span(&t));
    return t;
}

static cuda_call with_keys(const cuda_call *c, int64_t first, int64_t count)
{
    static const int by_key[] = { K, V, DK, DV };
    cuda_call part = *c;
    for (int i = 0; i < 4; i++) part.x[by_key[i]] = tensor_slice(part.x[by_key[i]], 0, first, count);
    return part;
}

attention_parts attention_parts_of(const cuda_call *c, bool backward, size_t first)
{
    int64_t queries = c->x[Q].dim[0], key_offset = c->x[K].dim[0] - queries;
    attention_parts p = { .staged = *c, .parts = 1, .end = first };
    for (int i = DK; backward && i <= DV; i++) {
        if (!attention_is_staged(c, i)) continue;
        p.staged.x[i] = staging_tensor(c, i, &p.end);
        p.staged.update[i] = false;
    }
    p.part[0] = p.staged;
    if (!backward || !c->args.attention.causal || key_offset == 0) return p;
    p.parts = 2;
    p.part[0] = with_keys(&p.staged, key_offset, queries);
    p.part[1] = with_keys(&p.staged, 0, key_offset);
    p.part[1].args.attention.causal = false;
    p.part[1].x[DQ] = staging_tensor(c, DQ, &p.end);
    return p;
}

static void copy(const cuda_call *c, int which, tensor from, bool adds)
{
    const cuda_call copy = { .x = { c->x[which], from }, .update = { adds }, .name = c->name, .stream = c->stream };
    cuda_copy(&copy);
}

void attention_unstage(const cuda_call *c, const attention_parts *p)
{
    for (int i = DK; i <= DV; i++)
        if (attention_is_staged(c, i)) copy(c, i, p->staged.x[i], c->update[i]);
    if (p->parts == 2) copy(c, DQ, p->part[1].x[DQ], true);
}
