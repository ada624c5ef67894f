/* Shared by the operations' tests: random tensors with twins in double, a machine that proves access lists, and
 * comparison. Every operation runs through its filler, first on paper, then with exactly the measured scratch. With
 * XGSW_TEST_MACHINE=cuda on the CUDA machine (mirror.h). */
#pragma once
#include "base/fp8.h"
#include "machine/prove/prove.h"
#include "machine/queue/submit.h"
#include "machine/world.h"
#include "mirror.h"
#include "units/test_length.h"
#include "units/tests.h"
#include <omp.h>

/* Half a unit in the last place, relative. */
static const double F32_ROUND = 0x1p-24, BF16_ROUND = 0x1p-8;
static inline double rounding(dtype type) { return type == BF16 ? BF16_ROUND : F32_ROUND; }
static inline float rounded(dtype type, float x) { return type == BF16 ? bf16_widen(bf16_round(x)) : x; }
static inline double as_type(dtype type, double x) { return type == F64 ? x : (double)rounded(type, (float)x); }

enum { GAP_VALUE = 0x4B }; /* bytes between rows, which no operation may change */

/* Memory of the samples of one check. `taken` returns it filled with zeros; `release` frees all of it. */
static struct {
    void **block;
    size_t count;
} pool;

static inline void *taken(size_t count, size_t bytes)
{
    size_t whole = (count * bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT;
    pool.block = realloc(pool.block, (pool.count + 1) * sizeof *pool.block);
    return memset(pool.block[pool.count++] = aligned_alloc(ARENA_ALIGNMENT, whole), 0, whole);
}

static inline double *numbers(int64_t count) { return taken((size_t)count, sizeof(double)); }

static inline void release(void)
{
    while (pool.count) free(pool.block[--pool.count]);
    free(pool.block);
    pool.block = NULL;
}

/* A tensor, its memory, and its elements in double; dimensions from slow to fast. */
typedef struct {
    tensor t;
    char *memory;
    size_t bytes;
    double *value;
    int64_t elements;
} sample;

/* As tensor_place, but inline: tests spend much of their time here. */
static inline int64_t place_of(const tensor *t, int64_t i)
{
    int64_t place = 0;
    for (int d = t->dims - 1; d > 0; i /= t->dim[d--]) place += i % t->dim[d] * t->stride[d];
    return place + i * t->stride[0];
}

static inline double element(const tensor *t, int64_t i) { return tensor_value(t, place_of(t, i)); }

static inline void element_set(const tensor *t, int64_t i, double value)
{
    int64_t at = place_of(t, i);
    switch (t->type) {
    case F32: ((float *)t->data)[at] = (float)value; break;
    case BF16: ((uint16_t *)t->data)[at] = bf16_round((float)value); break;
    case F64: ((double *)t->data)[at] = value; break;
    case I32: ((int32_t *)t->data)[at] = (int32_t)value; break;
    case E4M3:
    case E5M2: ((uint8_t *)t->data)[at] = fp8_round(t->type, (float)value); break;
    default: ((uint64_t *)t->data)[at] = (uint64_t)value; break;
    }
}

/* Returns a number in [-1, 1), determined by tensor and element. */
static inline double random_value(uint32_t tensor_number, int64_t i)
{
    philox_block counter = { { (uint32_t)i, tensor_number, 0, 0 } };
    return (double)philox4x32(counter, 7, 11).word[0] * 0x1p-31 - 1.0;
}

/* dims: number of dimensions. gap: elements between rows of the last dimension, or of the last two if there are four:
 * [s, b, heads, d] is then a slice of fused rows. 0: no gaps. */
static inline sample sample_open(dtype type, int64_t gap, int dims, const int64_t *dim)
{
    sample x = { .t = { .type = type, .dims = dims }, .elements = 1 };
    int64_t stride = 1;
    for (int d = dims - 1; d >= 0; d--) {
        x.t.dim[d] = dim[d];
        x.t.stride[d] = stride;
        x.elements *= dim[d];
        stride = stride * dim[d] + (d == (dims == 4 ? 2 : dims - 1) ? gap : 0);
    }
    x.bytes = (size_t)stride * dtype_bytes(type);
    x.t.data = x.memory = taken(x.bytes, 1);
    memset(x.memory, GAP_VALUE, x.bytes);
    x.value = numbers(x.elements);
    return x;
}

/* SAMPLE(type, gap, dimensions...) */
#define SAMPLE(type, gap, ...)                                                                                         \
    sample_open(type, gap, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })

/* Updates the doubles from the tensor, so that they hold the rounded values. */
static inline sample *sample_read(sample *x)
{
    for (int64_t i = 0; i < x->elements; i++) x->value[i] = element(&x->t, i);
    return x;
}

/* Sets all elements to `value`. */
static inline void sample_fill(sample *x, double value)
{
    for (int64_t i = 0; i < x->elements; i++) element_set(&x->t, i, value);
    sample_read(x);
}

static inline void sample_randomize(sample *x, uint32_t number, double scale, double offset)
{
    for (int64_t i = 0; i < x->elements; i++) element_set(&x->t, i, offset + scale * random_value(number, i));
    sample_read(x);
}

/* Returns a sample with random elements. */
static inline sample drawn(sample x, uint32_t number, double scale, double offset)
{
    sample_randomize(&x, number, scale, offset);
    return x;
}

/* Checks that the bytes between rows are unchanged. */
static inline void sample_check_gaps(const sample *x, const char *name)
{
    size_t bytes = dtype_bytes(x->t.type);
    if (bytes * (size_t)x->elements == x->bytes) return;
    char *owned = taken(x->bytes, 1), *first = owned + ((char *)x->t.data - x->memory);
    for (int64_t i = 0; i < x->elements; i++) memset(first + (size_t)place_of(&x->t, i) * bytes, 1, bytes);
    for (size_t i = 0; i < x->bytes; i++)
        if (!owned[i] && x->memory[i] != GAP_VALUE) fail_msg("%s wrote between the rows", name);
}

static inline double largest(const double *x, int64_t n)
{
    double m = 0.0;
    for (int64_t i = 0; i < n; i++) m = fabs(x[i]) > m ? fabs(x[i]) : m;
    return m;
}

/* Asserts |got - expected| <= relative |expected| + absolute for all elements, and that the gaps are unchanged. */
static inline void compare(const char *name, const sample *got, const double *expected, double relative,
                           double absolute)
{
    for (int64_t i = 0; i < got->elements; i++) {
        double x = element(&got->t, i), limit = relative * fabs(expected[i]) + absolute;
        if (!(fabs(x - expected[i]) <= limit))
            fail_msg("%s, element %lld: %.9g, expected %.9g, error %.3g above %.3g", name, (long long)i, x, expected[i],
                     fabs(x - expected[i]), limit);
    }
    sample_check_gaps(got, name);
}

/* As compare with the sample's own values, which the caller has replaced by the expected ones. */
static inline void compare_exactly(const char *name, const sample *got) { compare(name, got, got->value, 0, 0); }

/* Set by tests whose operations give the host's bits, or nearly: on an emulated GPU the shadow then compares every
 * result with the host's result for the same bytes. */
static bool beside_host;

/* The machine of one pass. The first pass is on paper, the second is prepared with what the first measured. */
typedef struct {
    machine *machine;
    queue *queue;
    void *scratch;
    bool on_paper;
} pass;

static inline size_t scratch_taken(size_t bytes) { return (bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT; }

static inline pass pass_open(int number, const preparation *noted)
{
    machine_options options = { .kind = tested_machine(), .on_paper = number == 0, .prove_access = true };
    pass p = { .machine = machine_open(&options), .on_paper = options.on_paper };
    if (number && beside_host && emulator_seed) prove_shadow(p.machine, SHADOW_FULL);
    size_t bytes = noted->scratch[0];
    p.queue = machine_queue(p.machine, "compute");
    p.scratch = machine_memory_take(options.kind, scratch_taken(bytes));
    machine_tune(p.machine, noted, p.scratch, scratch_taken(bytes));
    machine_memory_clear(options.kind, p.scratch, GAP_VALUE, scratch_taken(bytes));
    queue_set_scratch(p.queue, p.scratch, bytes);
    mirror_through(options.on_paper ? NULL : p.machine);
    return p;
}

static inline void pass_close(pass *p, preparation *noted)
{
    machine_sync(p->machine);
    if (p->on_paper) *noted = machine_prepared(p->machine);
    else preparation_free(noted);
    assert_int_equal(machine_hazards(p->machine)->count, 0);
    const shadow_report *shadowed = p->on_paper ? NULL : prove_shadowed(p->machine);
    if (shadowed && shadowed->failed) fail_msg("not as on the host: %s", shadowed->sentence);
    machine_close(p->machine);
    machine_memory_give_back(tested_machine(), p->scratch);
}

/* RUN(q, statement): the statement submits to queue *q, once to measure and once to run. */
#define RUN(q, ...)                                                                                                    \
    do {                                                                                                               \
        preparation noted_ = { .notes = 0 };                                                                           \
        for (int pass_ = 0; pass_ < 2; pass_++) {                                                                      \
            pass p_ = pass_open(pass_, &noted_);                                                                       \
            queue *q = p_.queue;                                                                                       \
            __VA_ARGS__;                                                                                               \
            pass_close(&p_, &noted_);                                                                                  \
        }                                                                                                              \
    } while (0)

/* RUN_OP(an operation): submits it under its kind's name. */
#define RUN_OP(...) RUN(q_, submit_op(q_, __VA_ARGS__))
static inline void submit_op(queue *q, op o) { submit(q, op_kind_name(o.kind), o); }

/* OPERATIONS_PROGRAM(name, beside, functions...): the program's main. beside: beside_host of all tests. */
#define OPERATIONS_PROGRAM(name, beside, ...)                                                                          \
    static int set_beside(void **state)                                                                                \
    {                                                                                                                  \
        beside_host = beside;                                                                                          \
        return 0;                                                                                                      \
    }                                                                                                                  \
    WORLD_PROGRAM(name, set_beside, NULL, __VA_ARGS__)
