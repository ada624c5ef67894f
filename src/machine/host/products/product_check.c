/* Freivalds' check of products. A matrix is read in slabs of whole lines. Threads divide a slab into panels of rows. */
#include "base/memory.h"
#include "base/random.h"
#include "machine/host/rows/fp8_rows.h"
#include "machine/host/rows/row.h"
#include "machine/op/activity.h"
#include "machine/op/limits.h"
#include "machine/prove/shadow.h"
#include <math.h>

/* REGISTER_ROWS rows of a panel are multiplied at a time, in registers. */
enum { SLAB_BYTES = 1 << 26, PANEL_ROWS = 64, REGISTER_ROWS = 8, VECTOR = __BIGGEST_ALIGNMENT__ / 8 };
enum { C, A, B };
typedef double lanes __attribute__((vector_size(VECTOR * sizeof(double)), aligned(sizeof(double)), may_alias));

/* A matrix of two dims, and the function that reads it. */
typedef struct {
    tensor t;
    tensor_reader *read;
    void *from;
} matrix;

/* A sum per row and block of columns: [rows, width]. width: blocks, rounded up to whole vectors. */
typedef struct {
    int64_t rows, blocks, width;
    double *value;
} block_sums;

/* Over a row of a block: sum and sum of squares of half units in the last place; largest magnitude of the elements. */
typedef struct {
    double half, square, largest;
} row_units;

static void *new_array(int64_t n, size_t bytes) { return allocate(n, bytes, "checking a product"); }

static block_sums new_sums(int64_t rows, int64_t columns)
{
    block_sums s = { .rows = rows, .blocks = (columns + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK };
    s.width = (s.blocks + VECTOR - 1) / VECTOR * VECTOR;
    s.value = new_array(rows * s.width, sizeof *s.value);
    return s;
}

/* ---- panels ---- */

/* Elements from (row, column) on, as doubles. FP8 values are not scaled. */
typedef struct {
    int64_t row, column, rows, columns;
    dtype type;
    double x[PANEL_ROWS][PRODUCT_BLOCK];
} panel;

/* Adds factor * panel * sign, or factor * panel * y if y is present, to the sums. Fills units unless NULL. */
typedef struct {
    block_sums sums;
    double factor;
    const double *sign;
    const block_sums *y;
    row_units *units;
} panel_work;

static bool by_columns(const tensor *t) { return t->stride[t->dims - 1] != 1 && t->dim[t->dims - 1] != 1; }

/* Reads a panel from a slab whose first element is (row, column) of the matrix. */
static void load(panel *p, const tensor *lines, int64_t row, int64_t column, bool transposed)
{
    float x[PRODUCT_BLOCK];
    int64_t count = transposed ? p->columns : p->rows, line_length = transposed ? p->rows : p->columns;
    int64_t line = transposed ? p->column - column : p->row - row, at = transposed ? p->row - row : p->column - column;
    for (int64_t l = 0; l < count; l++) {
        const void *from = row_at(lines->data, lines->type, (line + l) * lines->stride[0] + at);
        if (dtype_bytes(lines->type) == 1) fp8_dequantize_f32(lines->type, x, from, 1.0f, line_length);
        else row_load(x, from, lines->type, line_length);
        for (int64_t i = 0; i < line_length; i++) p->x[transposed ? i : l][transposed ? l : i] = (double)x[i];
    }
}

/* Half a unit in the last place is 2^-8 (BF16) or 2^-24 (FP32) times the largest power of two that is not above the
 * element. Subnormal numbers have the unit of the smallest normal one. */
static row_units units_of(const double *x, int64_t n, dtype type)
{
    const double half_unit = type == BF16 ? 0x1p-8 : 0x1p-24;
    double half = 0.0, square = 0.0;
    int32_t largest = 0;
#pragma omp simd reduction(+ : half, square) reduction(max : largest)
    for (int64_t i = 0; i < n; i++) {
        int32_t bits = (int32_t)(float_bits((float)x[i]) & 0x7FFFFFFFu), binade = bits & 0x7F800000;
        double unit = (double)float_from_bits((uint32_t)(binade > 0x00800000 ? binade : 0x00800000)) * half_unit;
        half += unit, square += unit * unit;
        largest = bits > largest ? bits : largest;
    }
    return (row_units){ half, square, (double)float_from_bits((uint32_t)largest) };
}

static void add_signed(const panel_work *w, const panel *p)
{
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t place = (p->row + r) * w->sums.width + p->column / PRODUCT_BLOCK;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < p->columns; i++) sum += p->x[r][i] * w->sign[p->column + i];
        w->sums.value[place] += w->factor * sum;
        if (w->units) w->units[place] = units_of(p->x[r], p->columns, p->type);
    }
}

static inline void add_product(const panel_work *w, const panel *p, int64_t row, int64_t block)
{
    lanes sum[REGISTER_ROWS] = { { 0.0 } };
    const double *y = w->y->value + p->column * w->y->width + block;
    for (int64_t k = 0; k < p->columns; k++, y += w->y->width)
#pragma GCC unroll 8
        for (int r = 0; r < REGISTER_ROWS; r++) sum[r] += p->x[row + r][k] * *(const lanes *)y;
    for (int64_t r = 0; r < smaller(REGISTER_ROWS, p->rows - row); r++)
        *(lanes *)(w->sums.value + (p->row + row + r) * w->sums.width + block) += w->factor * sum[r];
}

static void run_panel(const panel_work *w, const panel *p)
{
    if (!w->y) add_signed(w, p);
    for (int64_t block = 0; w->y && block < w->y->width; block += VECTOR)
        for (int64_t row = 0; row < p->rows; row += REGISTER_ROWS) add_product(w, p, row, block);
}

static void run_slab(const panel_work *w, const tensor *lines, int64_t row, int64_t column, bool transposed)
{
    int64_t rows = row + lines->dim[transposed], columns = column + lines->dim[!transposed];
#pragma omp parallel for schedule(static)
    for (int64_t first = row; first < rows; first += PANEL_ROWS) {
        panel p = { .row = first, .rows = smaller(PANEL_ROWS, rows - first), .type = lines->type };
        for (p.column = column; p.column < columns; p.column += PRODUCT_BLOCK) {
            p.columns = smaller(PRODUCT_BLOCK, columns - p.column);
            load(&p, lines, row, column, transposed);
            run_panel(w, &p);
        }
    }
}

static void run_matrix(const panel_work *w, const matrix *m)
{
    bool transposed = by_columns(&m->t);
    tensor all = transposed ? tensor_transposed(m->t) : m->t;
    int64_t bytes = all.stride[0] * (int64_t)dtype_bytes(all.type) + 1;
    int64_t slab_lines = (SLAB_BYTES / bytes + PRODUCT_BLOCK) / PRODUCT_BLOCK * PRODUCT_BLOCK;
    tensor part = tensor_slice(all, 0, 0, smaller(slab_lines, all.dim[0]));
    void *buffer = new_array((int64_t)tensor_span(&part), 1);
    for (int64_t first = 0; first < all.dim[0]; first += slab_lines) {
        part = tensor_slice(all, 0, first, smaller(slab_lines, all.dim[0] - first));
        m->read(m->from, buffer, part);
        part.data = buffer;
        run_slab(w, &part, transposed ? 0 : first, transposed ? first : 0, transposed);
        activity_progress();
    }
    free(buffer);
}

/* ---- comparison ---- */

/* The product of one group, transposed unless C has contiguous rows. before: C before an UPDATE, otherwise no data.
 * bias: no data, or a matrix of one row. factor: multiplies a product of FP8 values. rounded: the product may be
 * rounded before C or a bias is added. */
typedef struct {
    matrix c, before, a, b, bias;
    double factor;
    const double *sign;
    bool rounded;
} one_product;

/* Adds the half units of a product that was rounded before the addition. Each is at most twice the larger of the units
 * of the sum and of the addend. Roots of square sums add (Cauchy). */
static void add_rounded(row_units *sum, const row_units *added)
{
    sum->half = 3.0 * sum->half + 2.0 * added->half;
    sum->square = pow(3.0 * sqrt(sum->square) + 2.0 * sqrt(added->square), 2.0);
}

/* Returns (C - C before) x - factor A (B x) - bias x, and fills the units of C. */
static block_sums difference_of(const one_product *x, row_units **units)
{
    int64_t columns = x->c.t.dim[1];
    block_sums d = new_sums(x->c.t.dim[0], columns), y = new_sums(x->b.t.dim[0], columns), bias = new_sums(1, columns);
    row_units *added = new_array(d.rows * d.width, sizeof *added),
              *bias_units = new_array(bias.width, sizeof *bias_units);
    *units = new_array(d.rows * d.width, sizeof **units);
    run_matrix(&(panel_work){ .sums = y, .factor = 1.0, .sign = x->sign }, &x->b);
    run_matrix(&(panel_work){ .sums = d, .factor = -x->factor, .y = &y }, &x->a);
    if (x->before.t.data)
        run_matrix(&(panel_work){ .sums = d, .factor = -1.0, .sign = x->sign, .units = added }, &x->before);
    if (x->bias.t.data)
        run_matrix(&(panel_work){ .sums = bias, .factor = 1.0, .sign = x->sign, .units = bias_units }, &x->bias);
    for (int64_t i = 0; i < d.rows * d.width; i++) d.value[i] -= bias.value[i % d.width];
    run_matrix(&(panel_work){ .sums = d, .factor = 1.0, .sign = x->sign, .units = *units }, &x->c);
    for (int64_t i = 0; x->rounded && i < d.rows * d.width; i++)
        add_rounded(&(*units)[i], x->bias.t.data ? &bias_units[i % d.width] : &added[i]);
    free(added);
    free(bias_units);
    free(y.value);
    free(bias.value);
    return d;
}

/* tolerance: of sums, relative to C's largest value. NaN counts as an infinite deviation. */
static product_finding compare_one(const one_product *x, double tolerance)
{
    row_units *units;
    block_sums d = difference_of(x, &units);
    product_finding f = { .comparisons = d.rows * d.blocks };
    double largest = 0.0;
    for (int64_t i = 0; i < d.rows * d.width; i++)
        if (!(units[i].largest <= largest)) largest = units[i].largest;
    for (int64_t i = 0; i < d.rows * d.width; i++) {
        double sums = tolerance * largest, elements = (double)(x->c.t.dim[1] - i % d.width * PRODUCT_BLOCK);
        double squares = units[i].square + 2.0 * sums * units[i].half + fmin(PRODUCT_BLOCK, elements) * sums * sums;
        double ratio = fabs(d.value[i]) / sqrt(squares);
        if (d.value[i] != 0.0 && !(ratio <= f.worst)) f.worst = isnan(ratio) ? INFINITY : ratio;
    }
    free(d.value);
    free(units);
    return f;
}

static double *signs(uint32_t draw, int64_t n)
{
    double *sign = new_array(n, sizeof *sign);
    for (int64_t i = 0; i < n; i++) {
        philox_block drawn = philox4x32((philox_block){ { (uint32_t)(i / 128), draw, 0, 7 } }, 0, 0);
        sign[i] = drawn.word[i % 128 / 32] >> i % 32 & 1u ? 1.0 : -1.0;
    }
    return sign;
}

/* Returns the matrix of one group, transposed if C is stored by columns. */
static matrix matrix_of(const checked_product *p, int which, int64_t group)
{
    bool transposed = by_columns(&p->o->operand[C].tensor);
    tensor t = p->o->operand[transposed && which ? A + B - which : which].tensor;
    if (t.dims == 3) t.data = tensor_slice(t, 0, group, 1).data;
    for (int i = 0; t.dims == 3 && i < 2; i++) t.dim[i] = t.dim[i + 1], t.stride[i] = t.stride[i + 1];
    t.dims = 2;
    return (matrix){ transposed ? tensor_transposed(t) : t, p->read, p->from };
}

/* Returns the factor of a product of FP8 values: 1 over both scales. */
static double factor_of(const checked_product *p)
{
    double factor = 1.0;
    for (int i = p->o->operands - 2; dtype_bytes(p->o->operand[A].tensor.type) == 1 && i < p->o->operands; i++) {
        float scale[FP8_FACTORS];
        p->read(p->from, scale, p->o->operand[i].tensor);
        factor /= (double)scale[FP8_SCALE];
    }
    return factor;
}

static void read_copy(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

void *product_before(const op *o, tensor_reader *read, void *from)
{
    tensor c = o->operand[C].tensor;
    if (o->operand[C].access != UPDATE) return NULL;
    void *copy = new_array((int64_t)tensor_span(&c), 1);
    read(from, copy, c);
    return copy;
}

product_finding product_compare(const checked_product *p)
{
    tensor c = p->o->operand[C].tensor, bias = *product_bias(p->o);
    shadow_limit limit = limit_of_product(p->o, &p->home, C);
    double *sign = signs(p->draw, c.dim[c.dims - (by_columns(&c) ? 2 : 1)]);
    one_product x = { .factor = factor_of(p), .sign = sign, .rounded = limit.product > 0.0 };
    product_finding all = { 0 };
    if (tensor_present(&bias)) x.bias = (matrix){ tensor_2d(bias.data, bias.type, 1, bias.dim[0]), p->read, p->from };
    for (int64_t g = 0; g < (c.dims == 3 ? c.dim[0] : 1); g++) {
        x.a = matrix_of(p, A, g), x.b = matrix_of(p, B, g), x.c = matrix_of(p, C, g);
        x.before = (matrix){ x.c.t, read_copy, NULL };
        x.before.t.data = p->before ? (char *)p->before + ((char *)x.c.t.data - (char *)c.data) : NULL;
        product_finding f = compare_one(&x, limit.absolute);
        all.comparisons += f.comparisons;
        all.worst = fmax(all.worst, f.worst);
    }
    free(sign);
    return all;
}
