/* Sums of columns over rows: gradients of biases and of positions. */
#include "machine/cuda/kernels/column_sums.cuh"

typedef struct {
    tensor x, sums;
    int64_t groups, length;
    sum_cut cut;
} sums_call;
static sums_call call_of(const cuda_call *c)
{
    sums_call s = { merged(c->x[0]), c->x[1], rows_of(c->x[1]), 0, {} };
    const tensor all[] = { s.x, s.sums };
    s.length = sum_length(all, 2);
    s.cut = sum_cut_of(s.groups, rows_of(s.x) / s.groups, columns_of(s.x), s.length);
    return s;
}

size_t cuda_column_sums_scratch(const cuda_call *c)
{
    sums_call s = call_of(c);
    return part_bytes(s.groups, s.cut);
}

void cuda_column_sums(const cuda_call *c)
{
    sums_call s = call_of(c);
    bool once = s.cut.parts == 1;
    float *to = static_cast<float *>(s.sums.data), *first = once ? to : static_cast<float *>(c->scratch);
    with_type(s.x.type, [&](auto zero) {
        sum_rows<decltype(zero)>(s.x, first, s.cut, s.length, once && c->update[1], c->stream);
    });
    sum_parts_of(c, s.groups, s.cut, to, c->update[1], s.length);
}
