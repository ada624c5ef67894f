/* Rows of the embedding table by token, plus rows of position embeddings, and the sums of their gradients. */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

/* Sets columns [at, at + n) of a token to its table row, plus its position's row if present, rounded once. */
static void forward_tile(const op *o, int64_t i, int64_t at, int64_t n)
{
    const tensor *tokens = &o->operand[0].tensor, *table = &o->operand[1].tensor, *out = &o->operand[2].tensor,
                 *positions = &o->operand[3].tensor;
    int64_t row = ((const int32_t *)tokens->data)[i] - o->args.embedding.first, length = tokens->dim[0];
    float tile[3][TILE];
    if (row < 0 || row >= table->dim[0]) {
        memset(tensor_row(out, i, at), 0, (size_t)n * dtype_bytes(out->type));
        return;
    }
    const float *x = row_read(tile[0], tensor_row(table, row, at), table->type, n);
    if (tensor_present(positions)) {
        int64_t place = position_of(o->args.embedding.place, i / (tensor_elements(tokens) / length), length);
        const float *y = row_read(tile[1], tensor_row(positions, place, at), positions->type, n);
        for (int64_t k = 0; k < n; k++) tile[2][k] = x[k] + y[k];
        x = tile[2];
    }
    row_store(tensor_row(out, i, at), out->type, x, n);
}

void host_embedding_forward(const op *o, void *scratch) { run_row_parts(o, &o->operand[2].tensor, forward_tile); }

/* Tokens sorted by row: those of row r are order[begin[r] .. begin[r + 1]), in position order. */
typedef struct {
    int32_t *begin, *order;
} tokens_by_row;

static tokens_by_row sort_tokens(const int32_t *token, int64_t count, int64_t first, int64_t rows, void *scratch)
{
    tokens_by_row s = { scratch, (int32_t *)scratch + rows + 2 };
    int32_t *next = s.begin + 1; /* next[r + 1] first counts the tokens of row r, then is its next place */
    memset(s.begin, 0, (size_t)(rows + 2) * sizeof *s.begin);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = token[i] - first;
        if (row >= 0 && row < rows) next[row + 1]++;
    }
    for (int64_t row = 1; row <= rows; row++) next[row] += next[row - 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t row = token[i] - first;
        if (row >= 0 && row < rows) s.order[next[row]++] = (int32_t)i;
    }
    return s;
}

/* Sets or updates one tile of a gradient row with the FP32 sum over its tokens. Rounds once. */
static void sum_tile(const operand *gradient, int64_t row, int64_t at, int64_t n, const tensor *d_out,
                     const int32_t *order, int64_t count)
{
    float tile[TILE], sum[TILE] = { 0 };
    void *place = tensor_row(&gradient->tensor, row, at);
    for (int64_t i = 0; i < count; i++) {
        const float *d = row_read(tile, tensor_row(d_out, order[i], at), d_out->type, n);
        for (int64_t j = 0; j < n; j++) sum[j] += d[j];
    }
    if (gradient->access == UPDATE) {
        const float *old = row_read(tile, place, gradient->tensor.type, n);
        for (int64_t j = 0; j < n; j++) sum[j] += old[j];
    }
    row_store(place, gradient->tensor.type, sum, n);
}

size_t host_embedding_backward_scratch(const op *o)
{
    return (size_t)(tensor_elements(&o->operand[0].tensor) + o->operand[2].tensor.dim[0] + 2) * sizeof(int32_t);
}

void host_embedding_backward(const op *o, void *scratch)
{
    const tensor *tokens = &o->operand[0].tensor, *d_out = &o->operand[1].tensor;
    const operand *gradient = &o->operand[2];
    int64_t rows = gradient->tensor.dim[0], n = tensor_columns(&gradient->tensor);
    tokens_by_row s = sort_tokens(tokens->data, tensor_elements(tokens), o->args.embedding.first, rows, scratch);
#pragma omp parallel for schedule(static, 16)
    for (int64_t row = 0; row < rows; row++) {
        int64_t count = s.begin[row + 1] - s.begin[row];
        if (count == 0 && gradient->access == UPDATE) continue;
        for (int64_t at = 0; at < n; at += TILE)
            sum_tile(gradient, row, at, smaller(TILE, n - at), d_out, s.order + s.begin[row], count);
    }
}
