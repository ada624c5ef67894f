/* Digests of tensors of any format. */
#include "machine/host/host.h"
#include "machine/host/row.h"

/* The terms of n elements of an unsigned type, the first one at `place`. */
#define DIGEST_TILE(type)                                                                                              \
    static uint64_t digest_##type(digest_args a, const type *x, int64_t n)                                             \
    {                                                                                                                  \
        uint64_t sum = 0;                                                                                              \
        for (int64_t i = 0; i < n; i++) sum += digest_element(a.key, a.place + i, x[i]);                               \
        return sum;                                                                                                    \
    }
DIGEST_TILE(uint8_t)
DIGEST_TILE(uint16_t)
DIGEST_TILE(uint32_t)
DIGEST_TILE(uint64_t)

static uint64_t digest_tile(digest_args a, size_t bytes, const void *x, int64_t n)
{
    switch (bytes) {
    case 1: return digest_uint8_t(a, x, n);
    case 2: return digest_uint16_t(a, x, n);
    case 4: return digest_uint32_t(a, x, n);
    default: return digest_uint64_t(a, x, n);
    }
}

void host_digest(const op *o, void *scratch)
{
    const tensor *x = &o->operand[0].tensor;
    digest_args a = o->args.digest;
    uint64_t *to = o->operand[1].tensor.data, sum = 0;
    int64_t n = tensor_elements(x);
#pragma omp parallel for schedule(static) reduction(+ : sum) if (n > 4 * TILE)
    for (int64_t at = 0; at < n; at += TILE)
        sum += digest_tile((digest_args){ a.key, a.place + at }, dtype_bytes(x->type), row_at(x->data, x->type, at),
                           smaller(TILE, n - at));
    *to += sum;
}
