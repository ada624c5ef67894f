/* Trials of algorithms for products. They run alone on the device, on normal random numbers: with constant numbers a
 * GPU draws less power and is faster. Runs use several sets of operands in turn, so that the L2 cache helps little more
 * than in a step. Trials begin after a second of load, when clocks are as in a step. The time of an algorithm is the
 * median of a few rounds, which are long compared with the resolution of an event (half a microsecond). */
#include "machine/cuda/products/algorithms.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/random.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/op/activity.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FILLED_SCALE = 3 }; /* operand of quantize_op that receives the scale */
enum { SETS = 4, SET_ALIGNMENT = 4096, ROUNDS = 5, FIRST_RUNS = 4, LARGEST_RUNS = 100 };
static const double ROUND_MICROSECONDS = 1000.0, TOO_SLOW_RATIO = 1.5;

/* A trial also loads a kernel. Below smallest_tried flops, it costs more than it gains. */
static double smallest_tried = 1e10, warm_seconds = 1.0;

void algorithms_try_from(double flops, double warm) { smallest_tried = flops, warm_seconds = warm; }

/* Memory [workspace][scale][operand set 0][operand set 1] ..., stream, events and deadline of all trials. */
typedef struct {
    char *workspace, *scale, *sets;
    size_t workspace_bytes;
    size_t bytes;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    double deadline;
    bool warm;
} trials;

static size_t padded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* Returns the bytes of one operand set: all matrices, each with space to misalign it as the key states. */
static size_t set_bytes(const product_key *key)
{
    size_t bytes = 0;
    for (int i = 0; i < MATRICES; i++) bytes += padded(product_span(key, i) + PRODUCT_ALIGNMENT, WORKSPACE_ALIGNMENT);
    return padded(bytes, SET_ALIGNMENT);
}

static size_t sets_of(const trials *t, const product_key *key)
{
    size_t fitting = t->bytes / set_bytes(key);
    return fitting < SETS ? fitting : SETS;
}

static void set_addresses(const trials *t, const product_key *key, int64_t number, void *x[ADDRESSES])
{
    char *at = t->sets + (size_t)number % sets_of(t, key) * set_bytes(key);
    for (int i = 0; i < MATRICES; i++) {
        x[i] = at + key->alignment[i] % PRODUCT_ALIGNMENT;
        at += padded(product_span(key, i) + PRODUCT_ALIGNMENT, WORKSPACE_ALIGNMENT);
    }
    x[BIAS] = x[DESTINATION]; /* its matrix holds more numbers than a bias */
    x[LEFT_SCALE] = x[RIGHT_SCALE] = t->scale;
}

/* Fills memory with normal random numbers in BF16. */
static void fill_bf16(const trials *t, void *to, size_t bytes)
{
    enum { COLUMNS = SET_ALIGNMENT / 2 };
    int64_t rows = (int64_t)(bytes / SET_ALIGNMENT);
    cuda_call c = { .x = { tensor_2d(to, BF16, rows, COLUMNS) }, .name = "trials", .stream = t->stream };
    c.args.initialize =
        (initialize_args){ .seed = 1, .key = 1, .scale = normal_scale(1.0), .rows = rows, .columns = COLUMNS };
    cuda_initialize(&c);
}

/* Fills memory with FP8 values, in portions whose BF16 source fits the workspace. E4M3 bits are finite in E5M2, too. */
static void fill_fp8(const trials *t, char *to, size_t bytes)
{
    enum { COLUMNS = SET_ALIGNMENT };
    size_t portion = t->workspace_bytes / 2 / SET_ALIGNMENT * SET_ALIGNMENT;
    cuda_call one = { .x = { tensor_1d(t->scale, F32, FP8_FACTORS) }, .name = "trials", .stream = t->stream };
    one.args.fill.value = 1.0;
    cuda_fill(&one);
    fill_bf16(t, t->workspace, 2 * portion);
    for (size_t at = 0; at < bytes; at += portion) {
        int64_t rows = (int64_t)((bytes - at < portion ? bytes - at : portion) / COLUMNS);
        cuda_call c = { .x = { tensor_2d(t->workspace, BF16, rows, COLUMNS), tensor_2d(to + at, E4M3, rows, COLUMNS) },
                        .name = "trials",
                        .stream = t->stream };
        c.x[FILLED_SCALE] = tensor_1d(t->scale, F32, FP8_FACTORS);
        cuda_quantize(&c);
    }
}

/* Fills all operand sets: FP8 values, or normal numbers in BF16. F32 matrices read two of them as one number. */
static void fill(const trials *t, const product_key *key)
{
    size_t bytes = sets_of(t, key) * set_bytes(key);
    if (product_is_fp8(key)) fill_fp8(t, t->sets, bytes);
    else fill_bf16(t, t->sets, bytes);
}

static trials trials_open(product *const *list, size_t count, void *memory, size_t bytes)
{
    size_t workspace = 0, skipped = -(uintptr_t)memory & (SET_ALIGNMENT - 1);
    for (size_t i = 0; i < count; i++) {
        size_t wanted = padded(product_workspace(&list[i]->key), SET_ALIGNMENT);
        if (wanted > workspace) workspace = wanted;
    }
    trials t = { .workspace = (char *)memory + skipped, .deadline = clock_seconds() + TUNE_SECONDS };
    t.workspace_bytes = workspace;
    t.scale = t.workspace + workspace;
    t.sets = t.scale + SET_ALIGNMENT;
    skipped += workspace + SET_ALIGNMENT;
    t.bytes = skipped < bytes ? (bytes - skipped) / SET_ALIGNMENT * SET_ALIGNMENT : 0;
    CUDA_CHECK(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&t.begin));
    CUDA_CHECK(cudaEventCreate(&t.end));
    return t;
}

static void trials_close(trials *t)
{
    CUDA_CHECK(cudaStreamSynchronize(t->stream));
    CUDA_CHECK(cudaEventDestroy(t->begin));
    CUDA_CHECK(cudaEventDestroy(t->end));
    CUDA_CHECK(cudaStreamDestroy(t->stream));
}

/* Returns the mean microseconds of a run, or INFINITY if cuBLASLt cannot run the algorithm. */
static double time_runs(trials *t, const product *p, const candidate *c, int64_t from, int64_t runs)
{
    float milliseconds;
    CUDA_CHECK(cudaEventRecord(t->begin, t->stream));
    for (int64_t i = 0; i < runs; i++) {
        void *x[ADDRESSES];
        set_addresses(t, &p->key, from + i, x);
        if (product_run(p, c, x, t->workspace, t->stream) != CUBLAS_STATUS_SUCCESS) return (double)INFINITY;
    }
    CUDA_CHECK(cudaEventRecord(t->end, t->stream));
    CUDA_CHECK(cudaEventSynchronize(t->end));
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, t->begin, t->end));
    return 1e3 * (double)milliseconds / (double)runs;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median of the rounds, after a run that loads the kernel. Stops early if that is clearly slower. */
static double trial_time(trials *t, const product *p, const candidate *c, double best)
{
    time_runs(t, p, c, 0, 1);
    double microseconds = time_runs(t, p, c, 1, FIRST_RUNS), round[ROUNDS];
    if (!(microseconds < TOO_SLOW_RATIO * best)) return microseconds;
    double fitting = ceil(ROUND_MICROSECONDS / (microseconds + 1.0));
    int64_t runs = fitting > LARGEST_RUNS ? LARGEST_RUNS : (int64_t)fitting;
    for (int i = 0; i < ROUNDS; i++) round[i] = time_runs(t, p, c, 1 + FIRST_RUNS + i * runs, runs);
    qsort(round, ROUNDS, sizeof *round, ascending);
    return round[ROUNDS / 2];
}

static int proposed(const product *p, candidate list[PRODUCT_CANDIDATES])
{
    char text[PRODUCT_TEXT];
    int count = product_candidates(p, list);
    if (count == 0) FAIL("cuBLASLt has no algorithm for %s", product_text(&p->key, text, sizeof text));
    return count;
}

void algorithm_first(product *p, int multiprocessors_left)
{
    candidate list[PRODUCT_CANDIDATES];
    product_close(p);
    product_open(p, multiprocessors_left);
    proposed(p, list);
    p->chosen = list[0];
    p->source = ALGORITHM_FIRST;
    p->microseconds = 0.0;
}

/* Keeps the device busy once before the first trial, so that its clocks are those of a step. */
static void warm_up(trials *t, const product *p)
{
    double deadline = clock_seconds() + warm_seconds;
    while (!t->warm && clock_seconds() < deadline) time_runs(t, p, &p->chosen, 0, FIRST_RUNS);
    t->warm = true;
}

static void choose_by_trials(trials *t, product *p)
{
    candidate list[PRODUCT_CANDIDATES];
    double best = (double)INFINITY;
    int count = proposed(p, list);
    fill(t, &p->key);
    warm_up(t, p);
    for (int i = 0; i < count && (i == 0 || clock_seconds() < t->deadline); i++) {
        double microseconds = trial_time(t, p, &list[i], best);
        if (!(microseconds < best)) continue;
        best = microseconds;
        p->chosen = list[i];
        p->source = ALGORITHM_TRIED;
        p->microseconds = best;
    }
}

/* Loads the kernel, so that the first step does not have to. */
static void run_once(const trials *t, const product *p)
{
    void *x[ADDRESSES];
    set_addresses(t, &p->key, 0, x);
    CUBLAS_CHECK(&p->key, product_run(p, &p->chosen, x, t->workspace, t->stream));
}

static void choose(trials *t, product *p, const machine_tuning *tuning)
{
    bool fits = t->bytes >= set_bytes(&p->key);
    algorithm_first(p, tuning->transfer_multiprocessors);
    p->deterministic = tuning->deterministic;
    bool large = product_flops(&p->key) >= smallest_tried;
    if (!tuning->deterministic && fits && large && clock_seconds() < t->deadline) choose_by_trials(t, p);
    if (fits) run_once(t, p);
}

void algorithms_choose(product *const *list, size_t count, const machine_tuning *tuning, void *memory, size_t bytes)
{
    if (count == 0) return;
    trials t = trials_open(list, count, memory, bytes);
    for (size_t i = 0; i < count; i++) {
        choose(&t, list[i], tuning);
        activity_progress();
    }
    trials_close(&t);
}

size_t algorithm_describe(const product *p, char *text, size_t length)
{
    static const char *const sources[] = { "no algorithm", "the library's first answer", "the fastest tried" };
    char shape[PRODUCT_TEXT], configuration[PRODUCT_TEXT], time[64] = "";
    if (p->microseconds > 0.0)
        snprintf(time, sizeof time, ", %.1f us, %.1f TFLOP/s", p->microseconds,
                 product_flops(&p->key) / p->microseconds * 1e-6);
    return (size_t)snprintf(text, length, "%s: %s: %s, workspace %zu%s, %s\n", p->name,
                            product_text(&p->key, shape, sizeof shape),
                            algorithm_text(&p->chosen.algorithm, configuration, sizeof configuration),
                            p->chosen.workspace, time, sources[p->source]);
}
