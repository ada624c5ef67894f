/* Training on one rank, and the sums over ranks. */
#include "bench/check/reference.h"
#include "base/memory.h"
#include "bench/check/scaling.h"
#include "machine/world.h"
#include <math.h>
#include <string.h>

enum { LOSS_BLOCK = 1024 };

double *reference_doubles(int64_t n) { return allocate(n, sizeof(double), "numbers of the reference"); }

/* This rank computes sequences rank, rank + ranks, ..., one in each microbatch. */
static int64_t own_sequence_count(const bench_case *c)
{
    int64_t rank = world_part_rank(), ranks = world_part_ranks();
    return rank < c->global_batch ? (c->global_batch - rank + ranks - 1) / ranks : 0;
}

static void find_own_sequences(reference *r, const bench_case *check)
{
    mesh m;
    mesh_open(&m, &check->layout, world_rank(), MESH_PAPER);
    const int *degree = check->layout.degree;
    r->data_ranks = degree[AXIS_DATA] * degree[AXIS_SHARD];
    r->data_rank = m.at[AXIS_DATA] * degree[AXIS_SHARD] + m.at[AXIS_SHARD];
    r->microbatch = check->microbatch;
    r->own_sequences = m.takes_part ? check->microbatches * check->microbatch : 0;
    r->sequences = check->global_batch;
    mesh_close(&m);
}

int64_t reference_sequence(const reference *r, int64_t i)
{
    return (i / r->microbatch * r->data_ranks + r->data_rank) * r->microbatch + i % r->microbatch;
}

/* Works in blocks, because the losses of all sequences may not fit into the memory of a rank. */
double reference_sum_losses(const reference *r, const int64_t *sequence, const double *value, int64_t count,
                            double *own)
{
    double block[LOSS_BLOCK], total = 0.0;
    for (int64_t first = 0; first < r->sequences; first += LOSS_BLOCK) {
        int64_t n = r->sequences - first < LOSS_BLOCK ? r->sequences - first : LOSS_BLOCK;
        for (int64_t i = 0; i < n; i++) block[i] = 0.0;
        for (int64_t i = 0; i < count; i++)
            if (sequence[i] >= first && sequence[i] < first + n) block[sequence[i] - first] += value[i];
        world_sum(block, n);
        for (int64_t i = 0; i < n; i++) total += block[i];
        for (int64_t i = 0; i < r->own_sequences; i++) {
            int64_t s = reference_sequence(r, i);
            if (s >= first && s < first + n) own[i] = block[s - first];
        }
    }
    return total;
}

static void allocate_results(reference *r, const param_table *t)
{
    r->rows = t->rows;
    r->base = allocate(t->rows + 1, sizeof *r->base, "the reference's parameters");
    r->name = allocate(t->rows, sizeof *r->name, "the names of parameters");
    for (int i = 0; i < t->rows; i++) {
        r->base[i + 1] = r->base[i] + t->row[i].rule.rows * t->row[i].rule.columns;
        memcpy(r->name[i], t->row[i].name, sizeof *r->name);
    }
    r->values = r->base[t->rows];
    r->loss = reference_doubles(CHECK_STEPS * r->own_sequences);
    for (int i = 0; i < CHECK_MOMENTS; i++) r->gradient[i] = reference_doubles(r->values);
    r->weight = reference_doubles(r->values);
    r->first_weight = reference_doubles(r->values);
}

static void set_element(const tensor *t, int64_t i, double x)
{
    if (t->type == BF16) ((uint16_t *)t->data)[i] = bf16_round((float)x);
    else ((float *)t->data)[i] = (float)x;
}

/* Returns a view of row i without the padding at its end. */
static tensor row_view(const reference *r, int i, const param_table *p, tensor storage)
{
    return param_view(&p->row[i], (fragment){ 0, r->base[i + 1] - r->base[i] }, storage, 0);
}

/* Copies the rows without padding to out[values]: gradients, or weights (master weights if there are any). */
static void read_rows(const trainer *t, const reference *r, bool gradient, double *out)
{
    const param_table *p = &t->stage.params;
    for (int i = 0; i < p->rows; i++) {
        const bucket *b = &p->buckets[p->row[i].bucket];
        tensor from = gradient ? gradient_shard(b) : master_shard(b);
        tensor x = machine_view(t->machine, row_view(r, i, p, from));
        for (int64_t k = 0; k < r->base[i + 1] - r->base[i]; k++) out[r->base[i] + k] = tensor_value(&x, k);
        machine_view_end(t->machine, &x);
    }
}

static void write_gradients(const trainer *t, const reference *r, const double *in)
{
    const param_table *p = &t->stage.params;
    for (int i = 0; i < p->rows; i++) {
        tensor row = row_view(r, i, p, p->buckets[p->row[i].bucket].gradient), x = machine_view(t->machine, row);
        for (int64_t k = 0; k < r->base[i + 1] - r->base[i]; k++) set_element(&x, k, in[r->base[i] + k]);
        machine_view_store(t->machine, row, &x);
        machine_view_end(t->machine, &x);
    }
}

static double norm_of(const double *x, int64_t n)
{
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += x[i] * x[i];
    return sqrt(total);
}

static void sum_losses(const trainer *t, reference *r, int step, int64_t share)
{
    int64_t *sequence = allocate(share, sizeof *sequence, "the numbers of sequences");
    for (int64_t m = 0; m < share; m++) sequence[m] = m * world_part_ranks() + world_part_rank();
    tensor loss = machine_view(t->machine, t->stage.loss);
    r->total_loss[step] = reference_sum_losses(r, sequence, loss.data, share, r->loss + step * r->own_sequences);
    machine_view_end(t->machine, &loss);
    free(sequence);
}

static bool has_scales(const trainer *t) { return t->stage.work.fp8.mode == FP8_ENCODES; }

static void reduce_amaxes(const trainer *t)
{
    tensor amax = t->stage.work.fp8.amax;
    if (!has_scales(t)) return;
    tensor own = machine_view(t->machine, amax);
    scaling_reduce(own.data, tensor_elements(&own));
    machine_view_store(t->machine, amax, &own);
    machine_view_end(t->machine, &own);
}

void reference_step(reference *r, int step)
{
    trainer *t = &r->trainer;
    trainer_gradients(t);
    machine_sync(t->machine);
    reduce_amaxes(t);
    memset(r->gradient_sum, 0, (size_t)r->values * sizeof *r->gradient_sum);
    if (r->computed_sequences) read_rows(t, r, true, r->gradient_sum);
    world_sum(r->gradient_sum, r->values);
    sum_losses(t, r, step, r->computed_sequences);
    r->norm[step] = norm_of(r->gradient_sum, r->values);
    write_gradients(t, r, r->gradient_sum);
    trainer_update(t);
    machine_sync(t->machine);
    if (step == 0) memcpy(r->gradient[0], r->gradient_sum, (size_t)r->values * sizeof *r->gradient_sum);
    if (step < CHECK_STEPS - 1) return;
    memcpy(r->gradient[1], r->gradient_sum, (size_t)r->values * sizeof *r->gradient_sum);
    read_rows(t, r, false, r->weight);
}

void reference_open(reference *r, const bench_case *check, bool fp32, const int32_t *choices)
{
    trainer_options o = { .machine = { .kind = MACHINE_HOST, .world_rank = world_rank() }, .choices = choices };
    *r = (reference){ .given = single_rank_case(check, fp32) };
    r->given.choices_given = check->model.experts > 0;
    if (!fp32) r->given.imitated.experts = imitated_experts(check);
    r->computed_sequences = own_sequence_count(&r->given);
    find_own_sequences(r, check);
    r->given.microbatches = r->computed_sequences;
    r->given.samples = (sample_share){ world_part_ranks(), world_part_rank() };
    r->given.microbatch = 1;
    mesh_open_alone(&r->alone, world_rank());
    r->measured = measure_case(&r->given, &r->alone, &o);
    trainer_build(&r->trainer, &r->given, &r->alone, &o, &r->measured);
    if (fp8_delays(&r->given)) scaling_reduce(r->trainer.first_amax, fp8_tensors(&r->given));
    trainer_initialize(&r->trainer);
    allocate_results(r, &r->trainer.stage.params);
    read_rows(&r->trainer, r, false, r->first_weight);
    r->gradient_sum = reference_doubles(r->values);
}

void reference_end(reference *r)
{
    free(r->gradient_sum);
    trainer_dismantle(&r->trainer);
    measure_free(&r->measured);
    mesh_close(&r->alone);
}

void reference_free(reference *r)
{
    free(r->base);
    free(r->name);
    free(r->loss);
    for (int i = 0; i < CHECK_MOMENTS; i++) free(r->gradient[i]);
    free(r->weight);
    free(r->first_weight);
}
