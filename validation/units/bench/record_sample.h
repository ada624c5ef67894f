/* Invented results whose numbers fit together, and the record they make. For the tests of the record. */
#pragma once
/* machine/op.h has its own access. */
#define access access_of_unistd
#include <unistd.h>
#undef access

#include "bench/record/place.h"
#include "bench/record/provenance.h"
#include "bench/record/record.h"
#include "plan/catalogue/flops.h"
#include "plan/model/params.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SAMPLE_HOST,
    SAMPLE_RECIPE,
    SAMPLE_PROXY,
    SAMPLE_NOT_VALID,
    SAMPLE_SKIPPED,
    SAMPLE_EXPERTS,
    SAMPLE_FP8,
    SAMPLE_FAILED,
    SAMPLES
};

static const char sample_deck[] =
    "A deck of the tests\nby nobody\nrecord = sample.h5   # \xc3\xbc\n[llama3.1-8b]\nsteps = 7\n";

/* Between 0 and 1, the same every time. */
static inline double sample_noise(int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a * 0x9E3779B97F4A7C15u + (uint64_t)b * 0xC2B2AE3D27D4EB4Fu + 1;
    x ^= x >> 29, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 32;
    return (double)(x >> 11) / 9007199254740992.0;
}

static inline void sample_layout(bench_case *c, int shards, int context, int data, int64_t micro_batch,
                                 int64_t microbatches)
{
    mesh_layout *l = &c->layout;
    for (int a = 0; a < AXES; a++) l->degree[a] = 1;
    l->degree[AXIS_TENSOR] = shards, l->degree[AXIS_CONTEXT] = context, l->degree[AXIS_DATA] = data;
    l->expert = l->chunks_per_stage = 1;
    l->ranks = shards * context * data;
    c->world_ranks = l->ranks;
    c->micro_batch = micro_batch, c->microbatches = microbatches, c->global_batch = data * micro_batch * microbatches;
    c->model.padded_vocabulary = (c->model.vocabulary + 128 * shards - 1) / (128 * shards) * (128 * shards);
}

static inline model_shape sample_model(int64_t layers, int64_t hidden, int64_t ffn, int64_t heads, int64_t kv_heads,
                                       int64_t vocabulary, int64_t sequence)
{
    return (model_shape){ .layers = layers,
                          .hidden = hidden,
                          .ffn = ffn,
                          .heads = heads,
                          .kv_heads = kv_heads,
                          .head_dim = hidden / heads,
                          .vocabulary = vocabulary,
                          .sequence = sequence,
                          .rope_base = 5e5,
                          .norm_epsilon = 1e-5,
                          .init_std = 0.01,
                          .output_init_std = 0.001 };
}

/* What all have; on the host, so that nothing is compared with a GPU's number. */
static inline bench_case sample_start(int number, const char *workload, model_shape model)
{
    bench_case c = { .number = number,
                     .line = 4,
                     .size = SIZE_SMALL,
                     .proxy = true,
                     .backend = BACKEND_HOST,
                     .model = model,
                     .warmup = 2,
                     .steps = 7,
                     .metric_steps = 1,
                     .seed = 1,
                     .order_seed = 1,
                     .schedule = SCHEDULE_1F1B,
                     .check = CHECK_MODEL,
                     .stall_seconds = 60.0 };
    c.optimizer = (optimizer_rule){ .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .epsilon = 1e-8,
                                    .decay = 0.1,
                                    .clip = 1.0,
                                    .learning_rate = 1e-3,
                                    .learning_rate_minimum = 1e-4,
                                    .learning_rate_constant = true };
    snprintf(c.workload, sizeof c.workload, "%s", workload);
    snprintf(c.model_name, sizeof c.model_name, "%s", workload);
    snprintf(c.record, sizeof c.record, "sample.h5");
    return c;
}

/* As if it had run on GPUs by the recipe. */
static inline void sample_by_recipe(bench_case *c)
{
    c->size = SIZE_FULL, c->proxy = false, c->recipe_layout = true, c->precision = PRECISION_BF16,
    c->backend = BACKEND_CUDA;
    c->sharding = SHARDING_OPTIMIZER;
    c->optimizer.learning_rate = 3e-4, c->optimizer.learning_rate_minimum = 3e-5;
    c->optimizer.learning_rate_warmup = 2000, c->optimizer.learning_rate_constant = false;
}

static inline bench_case sample_case(int which)
{
    model_shape small = sample_model(4, 256, 768, 8, 2, 8192, 256);
    bench_case c = sample_start(which + 1, "llama3.1-8b", small);
    if (which == SAMPLE_RECIPE || which == SAMPLE_FP8) {
        c.model = sample_model(32, 4096, 14336, 32, 8, 128256, 8192);
        sample_by_recipe(&c);
        c.precision = which == SAMPLE_FP8 ? PRECISION_FP8 : PRECISION_BF16;
        sample_layout(&c, 1, 2, 4, 1, 32);
    } else if (which == SAMPLE_PROXY) {
        c = sample_start(which + 1, "llama3.1-405b", sample_model(8, 16384, 53248, 128, 8, 128256, 8192));
        sample_by_recipe(&c);
        c.proxy = true;
        snprintf(c.model_name, sizeof c.model_name, "llama3.1-405b, 8-layer proxy");
        sample_layout(&c, 8, 2, 2, 1, 32);
    } else if (which == SAMPLE_NOT_VALID) {
        c.precision = PRECISION_BF16, c.check = CHECK_OFF, c.sharding = SHARDING_OPTIMIZER, c.steps = 8;
        c.optimizer.learning_rate_constant = false, c.optimizer.learning_rate_warmup = 3;
        sample_layout(&c, 2, 1, 2, 1, 2);
    } else if (which == SAMPLE_EXPERTS) {
        small.family = FAMILY_GROK, small.mlp = MLP_GEGLU, small.experts = 8, small.active = 2, small.balance = 0.01;
        c = sample_start(which + 1, "grok1-314b", small);
        c.capacity = 1.0, c.metric_steps = 5;
        sample_layout(&c, 1, 1, 4, 1, 2);
    } else {
        sample_layout(&c, 1, 1, 4, 1, 2);
    }
    if (which == SAMPLE_FAILED)
        c.fault = (planted_fault){ .kind = FAULT_DROP, .operation = "all_reduce", .nth = 3, .rank = 1 };
    count_flops(&c, which == SAMPLE_EXPERTS ? &grok_formula : &llama_formula);
    return c;
}

static inline double sample_learning_rate(const bench_case *c, int64_t t)
{
    const optimizer_rule *o = &c->optimizer;
    int64_t warmup = o->learning_rate_warmup, last = c->warmup + c->steps - 1;
    if (t < warmup) return o->learning_rate * (double)(t + 1) / (double)(warmup + 1);
    if (o->learning_rate_constant || last <= warmup) return o->learning_rate;
    double part = (double)(t - warmup) / (double)(last - warmup);
    return o->learning_rate_minimum +
           0.5 * (o->learning_rate - o->learning_rate_minimum) * (1.0 + cos(3.141592653589793 * part));
}

static inline void sample_steps(case_result *r, const bench_case *c, double seconds)
{
    for (int64_t t = 0; t < c->warmup + c->steps; t++) {
        double slowest = 0.0;
        for (int rank = 0; rank < c->layout.ranks; rank++) {
            double *own = &r->rank_seconds[t * c->layout.ranks + rank];
            *own = seconds * (0.98 + 0.02 * sample_noise(t, rank)) * (t == 0 ? 3.0 : 1.0);
            slowest = *own > slowest ? *own : slowest;
        }
        r->step_seconds[t] = slowest;
        r->loss[t] = log((double)c->model.vocabulary) - 0.01 * (double)t + 1e-3 * sample_noise(t, -1);
        r->gradient_norm[t] = 1.0 + sample_noise(t, -2);
        r->learning_rate[t] = sample_learning_rate(c, t);
        static const double routed[] = { 0.041, 12.0, 480.0, 560.0, 0.05 };
        for (int i = 0; c->model.experts && i < ROUTED_FIGURES; i++) r->routed[i][t] = routed[i];
        r->completed++;
    }
}

/* Of the timed steps alone a number in ten thousand of the inputs became 0, in the mean. */
static inline void sample_fp8(case_result *r, const bench_case *c)
{
    for (int64_t t = 0; c->precision == PRECISION_FP8 && t < c->warmup + c->steps; t++) {
        double odd = t < c->warmup ? 0.5 : 1e-5 * (double)(t - c->warmup - c->steps / 2);
        fp8_figures step[FP8_KINDS] = { { 1e-4 + odd, 0.0, 16.0, t == 4 ? 256.0 : 128.0 },
                                        { 0.0, 0.0, 1024.0, 2048.0 },
                                        { 1e-3, 1e-6, t == 5 ? 32768.0 : 65536.0, 1048576.0 } };
        for (int64_t i = 0; i < r->fp8_tensors; i++)
            r->fp8_scale[t * r->fp8_tensors + i] = i < FP8_KINDS ? step[i].scale_least : step[i % FP8_KINDS].scale_most;
        result_add_fp8(r, t, step);
    }
}

static inline int sample_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double sample_ceiling(double flops, double blocks)
{
    return flops / 1979e12 / (blocks / 1979e12 + (flops - blocks) / 989e12);
}

static inline void sample_speed(case_result *r, const bench_case *c)
{
    double window[64], ranks = c->layout.ranks, batch = (double)c->global_batch;
    int64_t n = c->steps;
    memcpy(window, r->step_seconds + c->warmup, (size_t)n * sizeof *window);
    qsort(window, (size_t)n, sizeof *window, sample_order);
    r->median_seconds = n % 2 ? window[n / 2] : 0.5 * (window[n / 2 - 1] + window[n / 2]);
    r->minimum_seconds = window[0], r->maximum_seconds = window[n - 1];
    r->recipe_seconds = 0.0;
    for (int64_t i = n - c->metric_steps; i < n; i++)
        r->recipe_seconds += r->step_seconds[c->warmup + i] / (double)c->metric_steps;
    r->tokens_per_second = batch * (double)c->model.sequence / r->median_seconds;
    r->tokens_per_second_per_gpu = r->tokens_per_second / ranks;
    r->tflops_per_gpu = batch * c->recipe_flops_per_sequence / r->median_seconds / ranks / 1e12;
    if (!c->proxy) r->days_per_trillion = 1e12 / r->tokens_per_second / 86400.0;
    snprintf(r->device, sizeof r->device, "%s", c->backend == BACKEND_CUDA ? "NVIDIA H100 80GB HBM3" : "host");
    if (c->backend != BACKEND_CUDA) return;
    double peak = c->precision == PRECISION_FP8 ? 1979e12 : 989e12;
    r->recipe_mfu = batch * c->recipe_flops_per_sequence / r->median_seconds / ranks / peak;
    r->model_mfu = batch * c->model_flops_per_sequence / r->median_seconds / ranks / peak;
    if (c->precision != PRECISION_FP8) return;
    r->recipe_ceiling = sample_ceiling(c->recipe_flops_per_sequence, c->recipe_block_flops_per_sequence);
    r->model_ceiling = sample_ceiling(c->model_flops_per_sequence, c->model_block_flops_per_sequence);
    r->recipe_reached = r->recipe_mfu / r->recipe_ceiling, r->model_reached = r->model_mfu / r->model_ceiling;
}

static inline check_result sample_check(double residual)
{
    check_result k = { .residual = residual,
                       .loss = residual / 4,
                       .gradient_first = residual,
                       .gradient_fourth = residual / 2,
                       .weights = residual / 8,
                       .seconds = 0.25,
                       .done = true,
                       .passed = residual < 16.0 };
    snprintf(k.worst, sizeof k.worst, "layers.1.down, step 0, rank 1");
    return k;
}

static inline void sample_machine(case_result *r)
{
    for (int k = 0; k < ARENA_KINDS; k++) r->arena_bytes += r->bytes_by_kind[k] = (size_t)(64 * (k + 1));
    r->outside_bytes = 1e8, r->total_seconds = 1000.0;
    snprintf(r->engines, sizeof r->engines, "attention and products of a sample");
    r->tally.kind[OP_MATMUL] = (tally_row){ .count = 840, .flops = 2e12, .bytes = 3e9, .seconds = 1.5 };
    r->tally.kind[OP_ALL_REDUCE] = (tally_row){ .count = 14, .bytes = 1e6, .seconds = 0.01 };
    r->tally.phase_seconds[PHASE_FORWARD] = 0.5, r->tally.phase_seconds[PHASE_BACKWARD] = 1.0;
    r->tally.axis[0] = (tally_axis){ .axis = "tensor", .messages = 20, .bytes = 4e6, .exposed_seconds = 0.125 };
    r->tally.axis[1] = (tally_axis){ .axis = "data", .messages = 14, .bytes = 1e6, .exposed_seconds = 0.0625 };
    r->tally.axes = 2;
    r->tally.transfer[0] = (tally_transfer){ "tensor all_gather", 20, 4e6, 0.125, 32e6 };
    r->tally.transfers = 1;
    r->tally.idle_seconds = 0.03125;
}

static inline void sample_judge(case_result *r, const bench_case *c, int which)
{
    r->passed = r->valid = true;
    if (c->check == CHECK_MODEL) r->check[0] = r->check[1] = sample_check(1.25);
    if (which == SAMPLE_NOT_VALID) {
        r->valid = false, r->invalid_reasons = 1;
        snprintf(r->invalid_reason[0], REASON_LENGTH, "check = off");
    }
    if (which != SAMPLE_FAILED) return;
    r->check[1] = sample_check(400.0);
    r->verdict = VERDICT_FAILED;
    r->passed = r->valid = false, r->fail_reasons = r->invalid_reasons = 1, r->faults = 18;
    snprintf(r->fail_reason[0], REASON_LENGTH, "check after the steps: residual 400");
    snprintf(r->invalid_reason[0], REASON_LENGTH, "fault planted: drop all_reduce 3 1");
}

/* result_close it. */
static inline case_result sample_result(const bench_case *c, int which)
{
    static const double seconds[SAMPLES] = { 0.2, 12.27, 5.4, 0.1, 0.0, 0.2, 9.33, 0.2 };
    case_result r;
    result_open(&r, c);
    sample_steps(&r, c, seconds[which]);
    sample_fp8(&r, c);
    sample_speed(&r, c);
    sample_machine(&r);
    sample_judge(&r, c, which);
    return r;
}

/* Cases and results that outlive the records. */
static bench_case sample_given[SAMPLES];
static case_result sample_kept[SAMPLES];

static inline void sample_add(record *r, int which)
{
    bench_case *c = &sample_given[which];
    case_result *result = &sample_kept[which];
    *c = sample_case(which);
    result_close(result);
    if (which == SAMPLE_SKIPPED) result_skip(result, c, "needs 8 ranks, there are 4");
    else *result = sample_result(c, which);
    record_add(r, result);
}

/* The name is taken anew; what held it before lets it go, and leaves no journal. NULL and a sentence: refused. */
static inline record *sample_place(run_source *run, const char *path, char *reason, size_t length)
{
    static record_place place = { .none = true, .file = -1 };
    place_forget_journal(&place);
    place_leave(&place);
    if (!place_take(&place, path, reason, length)) return NULL;
    run->place = &place;
    run->provenance = provenance_open(run);
    return record_open(run);
}

/* NULL and a sentence: refused. The deck has a text, and as many cases as it says, of which the first is there. */
static inline record *sample_open(const char *path, int64_t cases, char *reason, size_t length)
{
    static char host[4][HOST_NAME_BYTES] = { "node1", "node1", "node2", "node2" };
    static char *argv[] = { "./xgsw", "--ranks", "it's 4", "gsw.dat", NULL };
    static machine_device device[4];
    static bench_case first;
    static deck planned;
    static run_source run;
    for (int i = 0; i < 4; i++) {
        device[i] = (machine_device){
            .name = "NVIDIA H100 80GB HBM3", .driver = "580.82", .multiprocessors = 132, .memory_bytes = 85e9
        };
        snprintf(device[i].identity, sizeof device[i].identity, "GPU-%d", i);
    }
    snprintf(first.record, sizeof first.record, "%s", path);
    planned = (deck){ .item = &first, .cases = cases };
    run = (run_source){ .deck = &planned,
                        .deck_name = "gsw.dat",
                        .deck_text = sample_deck,
                        .deck_length = sizeof sample_deck - 1,
                        .argc = 4,
                        .argv = argv,
                        .ranks = 4,
                        .hosts = host[0],
                        .threads = 2,
                        .mpi = "Open MPI 4.1.4",
                        .products = "oneDNN 2.6.0",
                        .cuda = "CUDA 13.0",
                        .devices = device };
    return sample_place(&run, path, reason, length);
}
