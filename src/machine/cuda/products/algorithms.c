/* Trials of algorithms for products. They run alone on the device, on normal random numbers: with constant numbers a
 * GPU draws less power and is faster. Each run uses another place in memory, so that the L2 cache helps little more
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
enum { PLACES = 4, PLACE_ALIGNMENT = 4096, ROUNDS = 5, FIRST_RUNS = 4, MOST_RUNS = 100 };
static const double ROUND_MICROSECONDS = 1000.0, HOPELESS = 1.5;

/* A trial also loads a kernel. For products with fewer flops than smallest_tried, it costs more than it gains. */
static double smallest_tried = 1e10, warm_seconds = 1.0;

void algorithms_try_from(double flops, double warm) { smallest_tried = flops, warm_seconds = warm; }

/* The memory for trials: [workspace][scale][place 0][place 1] ... */
typedef struct {
    char *workspace, *scale, *places;
    size_t workspace_bytes;
    size_t bytes;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    double until;
    bool warm;
} room;

static size_t padded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* Returns the bytes of one place: all matrices, each with space to misalign it as the key states. */
static size_t bytes_of(const product_key *key)
{
    size_t bytes = 0;
    for (int i = 0; i < MATRICES; i++) bytes += padded(product_span(key, i) + PRODUCT_ALIGNMENT, WORKSPACE_ALIGNMENT);
    return padded(bytes, PLACE_ALIGNMENT);
}

static size_t places_of(const room *r, const product_key *key)
{
    size_t fitting = r->bytes / bytes_of(key);
    return fitting < PLACES ? fitting : PLACES;
}

static void place(const room *r, const product_key *key, int64_t number, void *x[ADDRESSES])
{
    char *at = r->places + (size_t)number % places_of(r, key) * bytes_of(key);
    for (int i = 0; i < MATRICES; i++) {
        x[i] = at + key->alignment[i] % PRODUCT_ALIGNMENT;
        at += padded(product_span(key, i) + PRODUCT_ALIGNMENT, WORKSPACE_ALIGNMENT);
    }
    x[BIAS] = x[DESTINATION]; /* its matrix holds more numbers than a bias */
    x[LEFT_SCALE] = x[RIGHT_SCALE] = r->scale;
}

/* Fills memory with normal random numbers in BF16. */
static void fill_bf16(const room *r, void *to, size_t bytes)
{
    enum { COLUMNS = PLACE_ALIGNMENT / 2 };
    int64_t rows = (int64_t)(bytes / PLACE_ALIGNMENT);
    cuda_call c = { .x = { tensor_2d(to, BF16, rows, COLUMNS) }, .name = "trials", .stream = r->stream };
    c.args.initialize =
        (initialize_args){ .seed = 1, .key = 1, .scale = normal_scale(1.0), .rows = rows, .columns = COLUMNS };
    cuda_initialize(&c);
}

/* Fills memory with FP8 values, in portions that fit the workspace in BF16. E4M3 bits are finite in E5M2, too. */
static void fill_codes(const room *r, char *to, size_t bytes)
{
    enum { COLUMNS = PLACE_ALIGNMENT };
    size_t codes = r->workspace_bytes / 2 / PLACE_ALIGNMENT * PLACE_ALIGNMENT;
    cuda_call one = { .x = { tensor_1d(r->scale, F32, FP8_FACTORS) }, .name = "trials", .stream = r->stream };
    one.args.fill.value = 1.0;
    cuda_fill(&one);
    fill_bf16(r, r->workspace, 2 * codes);
    for (size_t at = 0; at < bytes; at += codes) {
        int64_t rows = (int64_t)((bytes - at < codes ? bytes - at : codes) / COLUMNS);
        cuda_call c = { .x = { tensor_2d(r->workspace, BF16, rows, COLUMNS), tensor_2d(to + at, E4M3, rows, COLUMNS) },
                        .name = "trials",
                        .stream = r->stream };
        c.x[FILLED_SCALE] = tensor_1d(r->scale, F32, FP8_FACTORS);
        cuda_quantize(&c);
    }
}

/* Fills all places of the product: FP8 values, or normal numbers in BF16, two of which are read as one in F32. */
static void fill(const room *r, const product_key *key)
{
    size_t bytes = places_of(r, key) * bytes_of(key);
    if (product_is_fp8(key)) fill_codes(r, r->places, bytes);
    else fill_bf16(r, r->places, bytes);
}

/* Divides the memory: the largest workspace first, then a scale, then places for matrices. */
static room room_open(product *const *list, size_t count, void *memory, size_t bytes)
{
    size_t workspace = 0, skipped = -(uintptr_t)memory & (PLACE_ALIGNMENT - 1);
    for (size_t i = 0; i < count; i++) {
        size_t wanted = padded(product_workspace(&list[i]->key), PLACE_ALIGNMENT);
        if (wanted > workspace) workspace = wanted;
    }
    room r = { .workspace = (char *)memory + skipped, .until = clock_seconds() + TUNE_SECONDS };
    r.workspace_bytes = workspace;
    r.scale = r.workspace + workspace;
    r.places = r.scale + PLACE_ALIGNMENT;
    skipped += workspace + PLACE_ALIGNMENT;
    r.bytes = skipped < bytes ? (bytes - skipped) / PLACE_ALIGNMENT * PLACE_ALIGNMENT : 0;
    CUDA_CHECK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&r.begin));
    CUDA_CHECK(cudaEventCreate(&r.end));
    return r;
}

static void room_close(room *r)
{
    CUDA_CHECK(cudaStreamSynchronize(r->stream));
    CUDA_CHECK(cudaEventDestroy(r->begin));
    CUDA_CHECK(cudaEventDestroy(r->end));
    CUDA_CHECK(cudaStreamDestroy(r->stream));
}

/* Returns the microseconds of one of `runs` runs, or INFINITY if cuBLASLt cannot run the algorithm. */
static double time_runs(room *r, const product *p, const candidate *c, int64_t from, int64_t runs)
{
    float milliseconds;
    CUDA_CHECK(cudaEventRecord(r->begin, r->stream));
    for (int64_t i = 0; i < runs; i++) {
        void *x[ADDRESSES];
        place(r, &p->key, from + i, x);
        if (product_run(p, c, x, r->workspace, r->stream) != CUBLAS_STATUS_SUCCESS) return (double)INFINITY;
    }
    CUDA_CHECK(cudaEventRecord(r->end, r->stream));
    CUDA_CHECK(cudaEventSynchronize(r->end));
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, r->begin, r->end));
    return 1e3 * (double)milliseconds / (double)runs;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median of the rounds. One run before them loads the kernel. Stops early if it is clearly slower. */
static double try_out(room *r, const product *p, const candidate *c, double best)
{
    time_runs(r, p, c, 0, 1);
    double microseconds = time_runs(r, p, c, 1, FIRST_RUNS), round[ROUNDS];
    if (!(microseconds < HOPELESS * best)) return microseconds;
    double fitting = ceil(ROUND_MICROSECONDS / (microseconds + 1.0));
    int64_t runs = fitting > MOST_RUNS ? MOST_RUNS : (int64_t)fitting;
    for (int i = 0; i < ROUNDS; i++) round[i] = time_runs(r, p, c, 1 + FIRST_RUNS + i * runs, runs);
    qsort(round, ROUNDS, sizeof *round, by_size);
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

/* Loads the device once before the first trial: an idle device is slower, a loaded one soon lowers its clocks. */
static void warm_up(room *r, const product *p)
{
    double until = clock_seconds() + warm_seconds;
    while (!r->warm && clock_seconds() < until) time_runs(r, p, &p->chosen, 0, FIRST_RUNS);
    r->warm = true;
}

static void choose_by_trials(room *r, product *p)
{
    candidate list[PRODUCT_CANDIDATES];
    double best = (double)INFINITY;
    int count = proposed(p, list);
    fill(r, &p->key);
    warm_up(r, p);
    for (int i = 0; i < count && (i == 0 || clock_seconds() < r->until); i++) {
        double microseconds = try_out(r, p, &list[i], best);
        if (!(microseconds < best)) continue;
        best = microseconds;
        p->chosen = list[i];
        p->source = ALGORITHM_TRIED;
        p->microseconds = best;
    }
}

/* Loads the kernel, so that the first step does not have to. */
static void run_once(const room *r, const product *p)
{
    void *x[ADDRESSES];
    place(r, &p->key, 0, x);
    CUBLAS_CHECK(&p->key, product_run(p, &p->chosen, x, r->workspace, r->stream));
}

static void choose(room *r, product *p, const machine_tuning *t)
{
    bool fits = r->bytes >= bytes_of(&p->key);
    algorithm_first(p, t->transfer_multiprocessors);
    p->deterministic = t->deterministic;
    bool large = product_flops(&p->key) >= smallest_tried;
    if (!t->deterministic && fits && large && clock_seconds() < r->until) choose_by_trials(r, p);
    if (fits) run_once(r, p);
}

void algorithms_choose(product *const *list, size_t count, const machine_tuning *t, void *memory, size_t bytes)
{
    if (count == 0) return;
    room r = room_open(list, count, memory, bytes);
    for (size_t i = 0; i < count; i++) {
        choose(&r, list[i], t);
        activity_progress();
    }
    room_close(&r);
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
