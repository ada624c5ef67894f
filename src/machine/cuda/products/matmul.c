/* Turns an operation into cuBLASLt's column-major product: c = a b is computed as c' = b' a'. */
#include "machine/cuda/products/matmul.h"
#include "base/fail.h"
#include "base/key_table.h"
#include "base/memory.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/products/algorithms.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All products noted so far. */
static key_table table = { .key_bytes = sizeof(product_key) };
static int open_machines;

/* A single column counts as stored by columns if it is contiguous. */
static bool has_contiguous_rows(const tensor *t)
{
    return (t->stride[1] == 1 || t->dim[1] == 1) && !(t->dim[1] == 1 && t->dim[0] > 1 && t->stride[0] == 1);
}

/* Returns the first matrix of a grouped operand. */
static tensor first_matrix(tensor t)
{
    for (int i = 0; t.dims == 3 && i < 2; i++) t.dim[i] = t.dim[i + 1], t.stride[i] = t.stride[i + 1];
    t.dims = 2;
    return t;
}

/* Returns whether a and b are swapped, because the library needs a destination with contiguous columns. */
static bool swaps(const tensor given[MATRICES])
{
    tensor d = first_matrix(given[DESTINATION]);
    return has_contiguous_rows(&d);
}
static int source_of(bool swap, int i) { return swap && i != DESTINATION ? LEFT + RIGHT - i : i; }

/* Sorts operands into the order of addresses. A grouped product has no bias. */
static void operands_of(const tensor x[OP_OPERANDS], tensor given[ADDRESSES])
{
    bool grouped = x[DESTINATION].dims == 3;
    for (int i = 0; i < ADDRESSES; i++)
        given[i] = grouped && i == BIAS ? tensor_none() : x[grouped && i > BIAS ? i - 1 : i];
}

static void to_column_major(const tensor given[MATRICES], tensor x[MATRICES])
{
    bool swap = swaps(given);
    for (int i = 0; i < MATRICES; i++) {
        tensor t = first_matrix(given[source_of(swap, i)]);
        x[i] = swap ? tensor_transposed(t) : t;
    }
}

static int64_t alignment_of(uintptr_t address)
{
    uintptr_t bits = address | PRODUCT_ALIGNMENT;
    return (int64_t)(bits & -bits);
}

static void limit_alignment(product_key *key, int i, uintptr_t address)
{
    int64_t alignment = alignment_of(address);
    if (alignment < key->alignment[i]) key->alignment[i] = alignment;
}

static void note_groups(product_key *key, const tensor given[MATRICES])
{
    bool swap = swaps(given), grouped = given[DESTINATION].dims == 3;
    key->groups = grouped ? given[DESTINATION].dim[0] : 1;
    for (int i = 0; grouped && i < MATRICES; i++) {
        const tensor *x = &given[source_of(swap, i)];
        key->group_stride[i] = x->stride[0];
        limit_alignment(key, i, (uintptr_t)x->stride[0] * dtype_bytes(x->type));
    }
}

/* The stride of a dimension of size 1 is arbitrary. */
static int64_t leading_of(const tensor *t, bool transposed)
{
    int64_t contiguous = t->dim[transposed], lines = t->dim[!transposed];
    return lines == 1 ? contiguous : t->stride[!transposed];
}

static product_key key_of(const tensor given[ADDRESSES], const tensor x[MATRICES], bool update)
{
    product_key key = { .m = x[DESTINATION].dim[0],
                        .n = x[DESTINATION].dim[1],
                        .k = x[LEFT].dim[1],
                        .update = update,
                        .bias = tensor_present(&given[BIAS]) };
    for (int i = 0; i < MATRICES; i++) {
        tensor across = tensor_transposed(x[i]);
        key.format[i] = x[i].type;
        key.transposed[i] = !has_contiguous_rows(&across);
        key.leading[i] = leading_of(&x[i], key.transposed[i]);
        key.alignment[i] = alignment_of((uintptr_t)x[i].data);
    }
    if (key.bias) limit_alignment(&key, DESTINATION, (uintptr_t)given[BIAS].data);
    note_groups(&key, given);
    return key;
}

/* cuBLASLt refuses matrices whose rows or columns overlap. */
static bool can_multiply(const tensor x[MATRICES], const product_key *key)
{
    bool fits = !key->transposed[DESTINATION];
    for (int i = 0; i < MATRICES; i++) {
        bool t = key->transposed[i] != 0;
        fits = fits && key->leading[i] >= x[i].dim[t] && (x[i].dim[t] == 1 || x[i].stride[t] == 1);
    }
    return fits;
}

static product *add_product(const op *o, const product_key *key)
{
    product *p = allocate(1, sizeof *p, "a matrix product");
    p->key = *key;
    snprintf(p->name, sizeof p->name, "%s", o->origin.name ? o->origin.name : "");
    key_table_add(&table, p);
    return p;
}

static void note(const op *o, const product_key *key)
{
    product *p = key_table_find(&table, key);
    if (!p) p = add_product(o, key);
    p->wanted = true;
}

static bool is_empty(const tensor *t) { return t->dim[0] == 0 || t->dim[1] == 0 || (t->dims > 2 && t->dim[2] == 0); }
/* Tensor cores load FP8 values in packs of 16 bytes. Returns true for other formats. */
static bool fp8_is_aligned(const product_key *key)
{
    bool all = true;
    for (int i = 0; i < MATRICES; i++) all = all && key->alignment[i] == PRODUCT_ALIGNMENT;
    return all || !product_is_fp8(key);
}

/* Returns whether the result is empty, or its sums have no terms. */
static bool is_trivial(const cuda_call *c) { return is_empty(&c->x[DESTINATION]) || is_empty(&c->x[LEFT]); }

size_t cuda_matmul_scratch(const cuda_call *c)
{
    tensor x[MATRICES], given[ADDRESSES];
    operands_of(c->x, given);
    to_column_major(given, x);
    product_key key = key_of(given, x, c->update[DESTINATION]);
    return is_trivial(c) ? 0 : product_workspace(&key) + WORKSPACE_ALIGNMENT;
}

void cuda_matmul_prepare(const op *o)
{
    char what[OP_TEXT];
    tensor x[MATRICES], given[ADDRESSES];
    cuda_call c = { .update = { o->operand[DESTINATION].access == UPDATE } };
    for (int i = 0; i < o->operands; i++) c.x[i] = o->operand[i].tensor;
    operands_of(c.x, given);
    to_column_major(given, x);
    product_key key = key_of(given, x, c.update[DESTINATION]);
    if (is_trivial(&c)) return;
    if (!fp8_is_aligned(&key)) FAIL("%s: FP8 operands are not aligned to 16 bytes", op_describe(o, what, sizeof what));
    if (!can_multiply(x, &key)) FAIL("%s: rows or columns of a matrix overlap", op_describe(o, what, sizeof what));
    note(o, &key);
}

static int longest_first(const void *a, const void *b)
{
    const product *x = *(product *const *)a, *y = *(product *const *)b;
    double p = product_flops(&x->key), q = product_flops(&y->key);
    return p != q ? (p < q) - (p > q) : memcmp(&x->key, &y->key, sizeof x->key);
}

static bool is_unplanned(const product *p, const machine_tuning *t)
{
    bool same = p->multiprocessors_left == t->transfer_multiprocessors && p->deterministic == t->deterministic;
    bool best = t->deterministic ? p->source == ALGORITHM_FIRST : p->source > ALGORITHM_FIRST;
    return p->wanted && !(same && best);
}

static bool has_run(const product *p, const machine_tuning *unused) { return p->ran; }

/* Returns the products that match, in an order that depends on their shapes only. The caller frees the list. */
static product **selected(bool (*test)(const product *, const machine_tuning *), const machine_tuning *t, size_t *count)
{
    product **list = allocate((int64_t)table.used, sizeof *list, "a list of matrix products");
    *count = 0;
    for (size_t i = 0; i < table.slots; i++)
        if (table.slot[i] && test(table.slot[i], t)) list[(*count)++] = table.slot[i];
    qsort(list, *count, sizeof *list, longest_first);
    return list;
}

static void for_each(void (*act)(product *))
{
    for (size_t i = 0; i < table.slots; i++)
        if (table.slot[i]) act(table.slot[i]);
}

static void make_ready(product *p)
{
    if (p->wanted) product_ready(p);
    p->wanted = false;
}

static void forget_run(product *p) { p->ran = false; }

void cuda_matmul_tune(const machine_tuning *t, void *memory, size_t bytes)
{
    size_t count;
    product **list = selected(is_unplanned, t, &count);
    algorithms_choose(list, count, t, memory, bytes);
    free(list);
    for_each(make_ready);
}

int cuda_matmul_multiprocessors_left(void)
{
    int most = 0;
    for (size_t i = 0; i < table.slots; i++) {
        const product *p = table.slot[i];
        if (p && p->ran && p->multiprocessors_left > most) most = p->multiprocessors_left;
    }
    return most;
}

/* After every line but the last, LAST_LINE bytes stay free for the words "and N more". */
void cuda_matmul_algorithms(char *text, size_t length)
{
    enum { LAST_LINE = 32 };
    size_t count, used = 0, i = 0;
    product **list = selected(has_run, NULL, &count);
    for (; i < count; i++) {
        size_t bytes = algorithm_describe(list[i], text + used, length - used);
        if (used + bytes + (i + 1 < count ? LAST_LINE : 1) > length) break;
        used += bytes;
    }
    text[used] = '\0';
    if (i < count) snprintf(text + used, length - used, "and %zu more\n", count - i);
    free(list);
}

void cuda_matmul_open(void)
{
    char why[200];
    if (!cublaslt_load(why, sizeof why)) FAIL("cuBLASLt does not load: %s", why);
    for_each(forget_run);
    open_machines++;
}

void cuda_matmul_close(void)
{
    if (--open_machines > 0) return;
    for_each(product_close);
}

static void zero(const cuda_call *c)
{
    cuda_call fill = { .x = { c->x[DESTINATION] }, .name = c->name, .stream = c->stream };
    if (!is_empty(&c->x[DESTINATION]) && !c->update[DESTINATION]) cuda_fill(&fill);
}

/* Returns a noted product. If it was not tuned, it gets cuBLASLt's first proposal. */
static const product *planned(const cuda_call *c, const product_key *key)
{
    char text[PRODUCT_TEXT];
    product *p = key_table_find(&table, key);
    if (!p) FAIL("matmul %s: not prepared: %s", c->name, product_text(key, text, sizeof text));
    if (p->source == ALGORITHM_NONE) algorithm_first(p, 0);
    product_ready(p);
    p->ran = true;
    return p;
}

static void *workspace_of(const cuda_call *c, const product *p)
{
    size_t skipped = -(uintptr_t)c->scratch & (WORKSPACE_ALIGNMENT - 1);
    if (skipped + p->chosen.workspace > c->scratch_bytes)
        FAIL("matmul %s: its scratch is only %zu bytes", c->name, c->scratch_bytes);
    return (char *)c->scratch + skipped;
}

void cuda_matmul(const cuda_call *c)
{
    tensor x[MATRICES], given[ADDRESSES];
    if (is_trivial(c)) {
        zero(c);
        return;
    }
    operands_of(c->x, given);
    to_column_major(given, x);
    bool swap = swaps(given);
    product_key key = key_of(given, x, c->update[DESTINATION]);
    const product *p = planned(c, &key);
    void *address[ADDRESSES] = { x[DESTINATION].data,
                                 x[LEFT].data,
                                 x[RIGHT].data,
                                 given[BIAS].data,
                                 given[swap ? RIGHT_SCALE : LEFT_SCALE].data,
                                 given[swap ? LEFT_SCALE : RIGHT_SCALE].data };
    CUBLAS_CHECK(&key, product_run(p, &p->chosen, address, workspace_of(c, p), c->stream));
}

void cuda_grouped_matmul(const cuda_call *c) { cuda_matmul(c); }
