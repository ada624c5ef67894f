/* Freivalds' check. A matrix is read in slabs of whole lines, which run along its dimension without gaps; all threads
 * work on a slab. */
#include "machine/product_check.h"
#include "base/fail.h"
#include "base/random.h"
#include "machine/host/codes.h"
#include "machine/host/row.h"
#include "machine/watch/watch.h"
#include <math.h>
#include <stdlib.h>

/* A tile of A has ROWS rows and DEPTH columns; PANEL of its rows are multiplied at a time, in registers. */
enum { SLAB_BYTES = 1 << 26, ROWS = 64, DEPTH = 128, PANEL = 8, VECTOR = __BIGGEST_ALIGNMENT__ / 8 };
enum { C, A, B, BIAS, SIGNS = 128 };
typedef double lanes __attribute__((vector_size(VECTOR * sizeof(double)), aligned(sizeof(double)), may_alias));

/* One of the matrices, of 2 dimensions, and what reads it. */
typedef struct {
    tensor t;
    const checked_product *of;
} matrix;

/* A number for each row and block: [rows, width], where width is the number of blocks in whole vectors. */
typedef struct {
    int64_t rows, blocks, width;
    double *value;
} block_sums;

/* Half units in the last place of a block's row: their sum, that of their squares; and the row's largest magnitude. */
typedef struct {
    double half, square, largest;
} row_units;

static void *taken(int64_t n, size_t bytes)
{
    void *memory = calloc((size_t)n + 1, bytes);
    if (!memory) FAIL("no memory to check a product: %lld numbers", (long long)n);
    return memory;
}

static block_sums sums_of(int64_t rows, int64_t columns)
{
    block_sums s = { .rows = rows, .blocks = (columns + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK };
    s.width = (s.blocks + VECTOR - 1) / VECTOR * VECTOR;
    s.value = taken(rows * s.width, sizeof *s.value);
    return s;
}

/* ---- slabs ---- */

static bool by_columns(const tensor *t) { return t->stride[t->dims - 1] != 1 && t->dim[t->dims - 1] != 1; }

/* A copy of some lines of a matrix, and the number of the first. */
typedef struct {
    tensor lines;
    int64_t first;
} slab;
typedef void slab_work(const void *work, const slab *s);

static void each_slab(const matrix *m, slab_work *f, const void *work)
{
    tensor all = by_columns(&m->t) ? tensor_transposed(m->t) : m->t;
    int64_t bytes = all.stride[0] * (int64_t)dtype_bytes(all.type) + 1, most = SLAB_BYTES / bytes / ROWS * ROWS;
    if (most < ROWS) most = ROWS;
    tensor part = tensor_slice(all, 0, 0, smaller(most, all.dim[0]));
    void *buffer = taken((int64_t)tensor_span(&part), 1);
    for (int64_t first = 0; first < all.dim[0]; first += most) {
        part = tensor_slice(all, 0, first, smaller(most, all.dim[0] - first));
        m->of->read(m->of->from, buffer, part);
        part.data = buffer;
        f(work, &(slab){ part, first });
        watch_progress();
    }
    free(buffer);
}

/* Of FP8 the codes' values. */
static void load(float *to, const slab *s, int64_t line, int64_t at, int64_t n)
{
    const tensor *t = &s->lines;
    const void *from = row_at(t->data, t->type, line * t->stride[0] + at);
    if (dtype_bytes(t->type) == 1) codes_read_f32(t->type, to, from, 1.0f, n);
    else row_load(to, from, t->type, n);
}

/* ---- signed sums of columns ---- */

/* across: the matrix's lines are columns. units: NULL, or what is filled with those of its rows. */
typedef struct {
    const block_sums *sums;
    const double *sign;
    row_units *units;
    bool across;
} column_work;

static double signed_sum(const float *x, const double *sign, int64_t n)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * sign[i];
    return sum;
}

/* Half a unit in the last place is 2^-8 (BF16) or 2^-24 (FP32) of the power of two at which the element's binade
 * begins; numbers below the smallest normal one have its unit. */
static row_units units_of(const float *x, int64_t n, dtype type)
{
    const double share = type == BF16 ? 0x1p-8 : 0x1p-24;
    double half = 0.0, square = 0.0;
    int32_t most = 0;
#pragma omp simd reduction(+ : half, square) reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        int32_t bits = (int32_t)(float_bits(x[i]) & 0x7FFFFFFFu), binade = bits & 0x7F800000;
        double unit = (double)float_from_bits((uint32_t)(binade > 0x00800000 ? binade : 0x00800000)) * share;
        half += unit, square += unit * unit;
        most = bits > most ? bits : most;
    }
    return (row_units){ half, square, (double)float_from_bits((uint32_t)most) };
}

static void add_chunk(const column_work *w, const slab *s, int64_t line, int64_t chunk)
{
    float x[PRODUCT_BLOCK];
    int64_t at = chunk * PRODUCT_BLOCK, n = smaller(PRODUCT_BLOCK, s->lines.dim[1] - at), width = w->sums->width;
    int64_t row = w->across ? at : s->first + line, column = w->across ? s->first + line : at;
    double *value = w->sums->value + row * width + column / PRODUCT_BLOCK;
    load(x, s, line, at, n);
    if (!w->across) *value += signed_sum(x, w->sign + column, n);
    if (w->units) w->units[row * width + chunk] = units_of(x, n, s->lines.type);
    for (int64_t i = 0; w->across && i < n; i++) value[i * width] += w->sign[column] * (double)x[i];
}

/* A chunk of a row has a sum; columns add to the same sums, of which a thread has those of some rows. */
static void add_columns(const void *work, const slab *s)
{
    const column_work *w = work;
    int64_t lines = s->lines.dim[0], chunks = (s->lines.dim[1] + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
#pragma omp parallel for schedule(static)
    for (int64_t outer = 0; outer < (w->across ? chunks : lines); outer++)
        for (int64_t inner = 0; inner < (w->across ? lines : chunks); inner++)
            add_chunk(w, s, w->across ? inner : outer, w->across ? outer : inner);
}

/* sums[rows, blocks] += the columns of the matrix, each times its sign. */
static void signed_columns(const block_sums *sums, const matrix *m, const double *sign, row_units *units)
{
    each_slab(m, add_columns, &(column_work){ sums, sign, units, by_columns(&m->t) });
}

/* ---- a matrix times sums ---- */

typedef struct {
    const block_sums *z, *y;
    bool across;
} product_work;

/* So many rows and terms of A from `row` and `term` on; zero where there are none. */
typedef struct {
    int64_t row, term, rows, terms;
    double a[ROWS][DEPTH];
} tile;

static void load_tile(tile *t, const product_work *w, const slab *s)
{
    float x[DEPTH];
    int64_t lines = w->across ? t->terms : t->rows, along = w->across ? t->rows : t->terms;
    int64_t line = (w->across ? t->term : t->row) - s->first, at = w->across ? t->row : t->term;
    memset(t->a, 0, sizeof t->a);
    for (int64_t l = 0; l < lines; l++) {
        load(x, s, line + l, at, along);
        for (int64_t i = 0; i < along; i++) t->a[w->across ? i : l][w->across ? l : i] = (double)x[i];
    }
}

/* PANEL rows of the tile times the sums of VECTOR blocks. */
static inline void multiply_panel(const product_work *w, const tile *t, int64_t row, int64_t block)
{
    lanes sum[PANEL] = { { 0.0 } };
    const double *y = w->y->value + t->term * w->y->width + block;
    for (int64_t k = 0; k < t->terms; k++, y += w->y->width)
#pragma GCC unroll 8
        for (int r = 0; r < PANEL; r++) sum[r] += t->a[row + r][k] * *(const lanes *)y;
    for (int64_t r = 0; r < smaller(PANEL, t->rows - row); r++)
        *(lanes *)(w->z->value + (t->row + row + r) * w->z->width + block) += sum[r];
}

static void multiply(const void *work, const slab *s)
{
    const product_work *w = work;
    int64_t lines = s->first + s->lines.dim[0], along = s->lines.dim[1];
    int64_t first = w->across ? 0 : s->first, rows = w->across ? along : lines, terms = w->across ? lines : along;
#pragma omp parallel for schedule(static)
    for (int64_t row = first; row < rows; row += ROWS) {
        tile t = { .row = row, .rows = smaller(ROWS, rows - row), .term = w->across ? s->first : 0 };
        for (; t.term < terms; t.term += DEPTH) {
            t.terms = smaller(DEPTH, terms - t.term);
            load_tile(&t, w, s);
            for (int64_t block = 0; block < w->y->width; block += VECTOR)
                for (int64_t r = 0; r < t.rows; r += PANEL) multiply_panel(w, &t, r, block);
        }
    }
}

/* ---- comparison ---- */

/* A product without groups whose C has rows without gaps; of another, c' = b' a'. factor: what the product of codes is
 * multiplied by. bias: as the vector that it is, or absent. */
typedef struct {
    matrix c, before, a, b;
    double factor;
    const double *sign, *bias;
} one_product;

static double *signs(uint32_t draw, int64_t n)
{
    double *sign = taken(n, sizeof *sign);
    for (int64_t i = 0; i < n; i++) {
        philox_block drawn = philox4x32((philox_block){ { (uint32_t)(i / SIGNS), draw, 0, 7 } }, 0, 0);
        sign[i] = drawn.word[i % SIGNS / 32] >> i % 32 & 1u ? 1.0 : -1.0;
    }
    return sign;
}

static double *read_doubles(const checked_product *p, tensor t)
{
    double *value = taken(tensor_elements(&t), sizeof *value);
    void *data = taken((int64_t)tensor_span(&t), 1);
    p->read(p->from, data, t);
    t.data = data;
    for (int64_t i = 0; i < tensor_elements(&t); i++) value[i] = tensor_value(&t, tensor_place(&t, i));
    free(data);
    return value;
}

/* difference = (C - C before) x - factor A (B x) - bias x, and the units of C, of whole rows. */
static void take_difference(const block_sums *difference, row_units *units, const one_product *x)
{
    int64_t columns = x->c.t.dim[1], n = difference->rows * difference->width;
    block_sums y = sums_of(x->b.t.dim[0], columns), z = sums_of(difference->rows, columns);
    signed_columns(&y, &x->b, x->sign, NULL);
    each_slab(&x->a, multiply, &(product_work){ &z, &y, by_columns(&x->a.t) });
    if (x->before.t.data) signed_columns(difference, &x->before, x->sign, NULL);
    for (int64_t i = 0; i < n; i++) difference->value[i] = -difference->value[i] - x->factor * z.value[i];
    signed_columns(difference, &x->c, x->sign, units);
    for (int64_t j = 0; x->bias && j < columns; j++)
        for (int64_t i = j / PRODUCT_BLOCK; i < n; i += difference->width)
            difference->value[i] -= x->bias[j] * x->sign[j];
    free(y.value);
    free(z.value);
}

/* Largest difference in units of the root of the sum of (half a unit + off)^2; no number is infinitely far off. */
static double worst_of(const block_sums *difference, const row_units *units, int64_t columns, double share)
{
    double largest = 0.0, worst = 0.0;
    int64_t n = difference->rows * difference->width;
    for (int64_t i = 0; i < n; i++)
        if (!(units[i].largest <= largest)) largest = units[i].largest;
    for (int64_t i = 0; i < n; i++) {
        double apart = fabs(difference->value[i]), off = share * largest;
        double elements = fmin(PRODUCT_BLOCK, (double)(columns - i % difference->width * PRODUCT_BLOCK));
        double ratio = apart / sqrt(units[i].square + 2.0 * off * units[i].half + elements * off * off);
        if (apart != 0.0 && !(ratio <= worst)) worst = isnan(ratio) ? INFINITY : ratio;
    }
    return worst;
}

static product_finding compare_one(const one_product *x, double share)
{
    block_sums difference = sums_of(x->c.t.dim[0], x->c.t.dim[1]);
    row_units *units = taken(difference.rows * difference.width, sizeof *units);
    take_difference(&difference, units, x);
    product_finding f = { difference.rows * difference.blocks, worst_of(&difference, units, x->c.t.dim[1], share) };
    free(difference.value);
    free(units);
    return f;
}

/* The matrix of one group, turned over if C is. */
static matrix matrix_of(const checked_product *p, int which, int64_t group)
{
    const tensor *c = &p->o->operand[C].tensor;
    bool turned = by_columns(c);
    tensor t = p->o->operand[turned && which ? A + B - which : which].tensor;
    if (t.dims == 3) t.data = tensor_slice(t, 0, group, 1).data;
    for (int i = 0; t.dims == 3 && i < 2; i++) t.dim[i] = t.dim[i + 1], t.stride[i] = t.stride[i + 1];
    t.dims = 2;
    return (matrix){ turned ? tensor_transposed(t) : t, p };
}

/* What the product of codes is multiplied by: 1 over both scales. */
static double factor_of(const checked_product *p)
{
    double factor = 1.0;
    for (int i = p->o->operands - 2; i < p->o->operands && dtype_bytes(p->o->operand[A].tensor.type) == 1; i++) {
        double *scale = read_doubles(p, p->o->operand[i].tensor);
        factor /= scale[FP8_SCALE];
        free(scale);
    }
    return factor;
}

static void read_copy(void *from, void *to, tensor t) { memcpy(to, t.data, tensor_span(&t)); }

void *product_before(const op *o, tensor_reader *read, void *from)
{
    tensor c = o->operand[C].tensor;
    if (o->operand[C].access != UPDATE) return NULL;
    void *copy = taken((int64_t)tensor_span(&c), 1);
    read(from, copy, c);
    return copy;
}

product_finding product_compare(const checked_product *p)
{
    tensor c = p->o->operand[C].tensor, bias = p->o->kind == OP_MATMUL ? p->o->operand[BIAS].tensor : tensor_none();
    checked_product copied = { .read = read_copy };
    double share = limit_of_product(p->o, &p->home, C).absolute;
    double *sign = signs(p->draw, c.dim[c.dims - (by_columns(&c) ? 2 : 1)]);
    double *row = tensor_present(&bias) ? read_doubles(p, bias) : NULL;
    product_finding all = { 0 };
    for (int64_t g = 0; g < (c.dims == 3 ? c.dim[0] : 1); g++) {
        matrix result = matrix_of(p, C, g), before = { result.t, &copied };
        before.t.data = p->before ? (char *)p->before + ((char *)result.t.data - (char *)c.data) : NULL;
        one_product x = { result, before, matrix_of(p, A, g), matrix_of(p, B, g), factor_of(p), sign, row };
        product_finding f = compare_one(&x, share);
        all.comparisons += f.comparisons;
        all.worst = fmax(all.worst, f.worst);
    }
    free(sign);
    free(row);
    return all;
}

double product_limit(int64_t comparisons)
{
    static const double false_alarms = 1e-6;
    return sqrt(2.0 * log(2.0 * fmax((double)comparisons, 1.0) / false_alarms));
}
