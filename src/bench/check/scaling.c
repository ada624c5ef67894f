/* FP8 scales of the run and of its reference. */
#include "bench/check/scaling.h"
#include "base/fp8.h"
#include "base/memory.h"
#include "machine/world.h"
#include "model/family.h"
#include "model/fp8.h"
#include <math.h>
#include <stdio.h>

static double *doubles(int64_t n) { return allocate(n, sizeof(double), "the scales of tensors"); }

run_scales scaling_of_run(const trainer *t, const bench_case *c)
{
    int64_t n = fp8_tensors(c);
    double *scale = doubles(n), differs = 0.0;
    const float *own = t ? trainer_scales(t) : NULL;
    for (int64_t i = 0; own && i < n; i++) scale[i] = (double)own[i * FP8_FACTORS + FP8_SCALE];
    world_broadcast(scale, (size_t)n * sizeof *scale, world_part_first());
    for (int64_t i = 0; own && i < n; i++)
        if (!(scale[i] == (double)own[i * FP8_FACTORS + FP8_SCALE]) ||
            own[i * FP8_FACTORS + FP8_INVERSE] != 1.0f / own[i * FP8_FACTORS + FP8_SCALE])
            differs = 1.0;
    world_sum(&differs, 1);
    return (run_scales){ scale, (int64_t)differs };
}

/* Writes the largest amax of each tensor in the history so far. */
static void read_amaxes(const trainer *t, int32_t *amax, int64_t n)
{
    tensor view = machine_view(t->machine, t->stage.work.fp8.history);
    const int32_t *rows = view.data;
    for (int64_t i = 0; i < n; i++) {
        amax[i] = 0;
        for (int64_t step = 0; step <= t->steps; step++)
            if (rows[step * n + i] > amax[i]) amax[i] = rows[step * n + i];
    }
    machine_view_end(t->machine, &view);
}

/* Returns the relative distance of largest / amax from the nearest power of two. */
static double distance_from_power(int64_t number, int32_t amax)
{
    double largest = (double)fp8_largest(fp8_format(number));
    double exponent = log2(largest / (double)float_from_bits((uint32_t)amax));
    return fabs(exp2(exponent - round(exponent)) - 1.0);
}

static double distance_of(const bench_case *c, int64_t number, double run, double own, int32_t amax)
{
    if (run == own) return 0.0;
    if (c->fp8_scale == FP8_EXACT) return fabs(run / own - 1.0);
    return run == 2.0 * own || own == 2.0 * run ? distance_from_power(number, amax) : INFINITY;
}

scale_difference scaling_give(trainer *t, const double *scale)
{
    int64_t n = fp8_tensors(t->given);
    scale_difference d = { 0 };
    float *all_factors = allocate(n * FP8_FACTORS, sizeof *all_factors, "the scales of tensors");
    int32_t *amax = allocate(n, sizeof *amax, "the amaxes of tensors");
    const float *own = trainer_scales(t);
    read_amaxes(t, amax, n);
    for (int64_t i = 0; i < n; i++) {
        double distance = distance_of(t->given, i, scale[i], (double)own[i * FP8_FACTORS + FP8_SCALE], amax[i]);
        d.flips += distance != 0.0;
        if (!(distance <= d.distance)) d.distance = distance, d.tensor = i;
        fp8_set_factors(all_factors + i * FP8_FACTORS, (float)scale[i]);
    }
    trainer_set_scales(t, all_factors);
    free(all_factors);
    free(amax);
    return d;
}

static bool holds_layer(const stage *s, int64_t layer)
{
    for (int i = 0; i < s->given->layout.chunks_per_stage; i++)
        if (layer >= s->chunk[i].first_layer && layer < s->chunk[i].first_layer + s->chunk[i].layers) return true;
    return false;
}

/* Weights are converted once a step, so their scale is stored with the first microbatch. */
static void add_current(const trainer *t, int64_t data_rank, int64_t microbatch, double *scale)
{
    if (!t || t->stage.data_rank != data_rank || t->mesh->at[AXIS_TENSOR] || t->mesh->at[AXIS_CONTEXT]) return;
    tensor view = machine_view(t->machine, t->stage.work.fp8.scales);
    int64_t n = fp8_tensors(t->given);
    for (int64_t i = 0; i < n; i++) {
        int64_t slot = i % FP8_KINDS == FP8_WEIGHT ? 0 : microbatch;
        if (holds_layer(&t->stage, i / FP8_KINDS / FP8_PRODUCTS))
            scale[i] += (double)((const float *)view.data)[(slot * n + i) * FP8_FACTORS + FP8_SCALE];
    }
    machine_view_end(t->machine, &view);
}

static void write_current(const trainer *t, int64_t part, int64_t microbatch, const double *scale)
{
    const fp8_state *f = &t->stage.work.fp8;
    int64_t n = fp8_tensors(t->given);
    float *to = (float *)f->scales.data + (part * f->in_flight + microbatch) * n * FP8_FACTORS;
    for (int64_t i = 0; i < n; i++) fp8_set_factors(to + i * FP8_FACTORS, (float)scale[i]);
}

void scaling_give_current(const trainer *t, const bench_case *check, const trainer *to)
{
    int64_t parts = to->given->imitated.experts, data_ranks = check->layout.degree[AXIS_DATA],
            ranks = world_part_ranks();
    int64_t n = fp8_tensors(check);
    for (int64_t i = 0; i < parts * check->global_batch; i++) {
        int64_t part = i % parts, sequence = i / parts, data_rank = sequence % data_ranks;
        double *scale = doubles(n);
        add_current(t, data_rank / parts * parts + part, sequence / data_ranks, scale);
        world_sum(scale, n);
        if (sequence % ranks == world_part_rank()) write_current(to, part, sequence / ranks, scale);
        free(scale);
    }
}

void scaling_reduce(int32_t *amax, int64_t tensors)
{
    double *all = doubles(tensors);
    for (int64_t i = 0; i < tensors; i++) all[i] = amax[i];
    world_maximum(all, tensors);
    for (int64_t i = 0; i < tensors; i++) amax[i] = (int32_t)all[i];
    free(all);
}

const char *scaling_name(const bench_case *c, int64_t number, char *text, size_t length)
{
    const family *f = family_of(c);
    int64_t product = number / FP8_KINDS % FP8_PRODUCTS, found = 0;
    const layer_step *s = f->layer.step;
    for (; s < f->layer.step + f->layer.count; s++)
        if (s->kind->product && found++ == product) break;
    snprintf(text, length, "layers.%lld.%s, %s", (long long)(number / FP8_KINDS / FP8_PRODUCTS), s->name,
             fp8_kind_name((fp8_kind)(number % FP8_KINDS)));
    return text;
}
