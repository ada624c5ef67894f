/* Sums of columns over rows: gradients of biases and of position embeddings. */
#include "machine/cuda/kernels/column_sums.cuh"

static sum_cut cut_of(const cuda_call *c)
{
    const tensor all[] = { merged(c->x[0]), c->x[1] };
    int64_t groups = rows_of(all[1]);
    return sum_cut_of(groups, rows_of(all[0]) / groups, columns_of(all[0]), sum_length(all, 2));
}

size_t cuda_column_sums_scratch(const cuda_call *c) { return part_bytes(cut_of(c)); }

void cuda_column_sums(const cuda_call *c)
{
    sum_cut cut = cut_of(c);
    bool once = cut.parts == 1;
    float *to = static_cast<float *>(c->x[1].data), *first = once ? to : static_cast<float *>(c->scratch);
    with_type(c->x[0].type, [&](auto zero) {
        sum_rows<decltype(zero)>(merged(c->x[0]), first, cut, once && c->update[1], c->stream);
    });
    sum_parts_of(c, cut, to, c->update[1]);
}
