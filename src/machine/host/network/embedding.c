/* Rows of the embedding table by token, with those of positions, and the sums of their gradients. */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

static void copy_row(const tensor *to, int64_t to_row, const tensor *from, int64_t from_row, int64_t n)
{
    float tile[TILE];
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        const float *x = row_read(tile, tensor_row(from, from_row, at), from->type, part);
        row_store(tensor_row(to, to_row, at), to->type, x, part);
    }
}

typedef struct {
    const tensor *of;
    int64_t row;
} table_row;

/* The sum of a row of the table and of one of positions, rounded once. */
static void add_row(table_row to, table_row a, table_row b)
{
    float tile[3][TILE];
    int64_t n = tensor_columns(to.of);
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        const float *x = row_read(tile[0], tensor_row(a.of, a.row, at), a.of->type, part);
        const float *y = row_read(tile[1], tensor_row(b.of, b.row, at), b.of->type, part);
        for (int64_t i = 0; i < part; i++) tile[2][i] = x[i] + y[i];
        row_store(tensor_row(to.of, to.row, at), to.of->type, tile[2], part);
    }
}

void host_embedding_forward(const op *o, void *scratch)
{
    const tensor *tokens = &o->operand[0].tensor, *table = &o->operand[1].tensor, *out = &o->operand[2].tensor,
                 *positions = &o->operand[3].tensor;
    const int32_t *token = tokens->data;
    int64_t count = tensor_elements(tokens), n = tensor_columns(table), length = tokens->dim[0];
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) {
        int64_t row = token[i] - o->args.embedding.first, place = i / (count / length);
        bool held = row >= 0 && row < table->dim[0];
        if (held && tensor_present(positions))
            add_row((table_row){ out, i }, (table_row){ table, row },
                    (table_row){ positions, position_of(o->args.embedding.place, place, length) });
        else if (held) copy_row(out, i, table, row, n);
        else memset(tensor_row(out, i, 0), 0, (size_t)n * dtype_bytes(out->type));
    }
}

/* Tokens sorted by row: those of row r stand in order[begin[r] .. begin[r + 1]), in position order. */
typedef struct {
    int32_t *begin, *order;
} by_row;

static by_row sort_tokens(const int32_t *token, int64_t count, int64_t first, int64_t rows, void *scratch)
{
    by_row s = { scratch, (int32_t *)scratch + rows + 2 };
    int32_t *next = s.begin + 1; /* next[r + 1] counts, then places, row r */
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

/* One tile of gradient row (+)= the FP32 sum of its tokens' rows, rounded once. */
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
    by_row s = sort_tokens(tokens->data, tensor_elements(tokens), o->args.embedding.first, rows, scratch);
#pragma omp parallel for schedule(static, 16)
    for (int64_t row = 0; row < rows; row++) {
        int64_t count = s.begin[row + 1] - s.begin[row];
        if (count == 0 && gradient->access == UPDATE) continue;
        for (int64_t at = 0; at < n; at += TILE)
            sum_tile(gradient, row, at, smaller(TILE, n - at), d_out, s.order + s.begin[row], count);
    }
}
