/* Choices of experts, from the run to the references. */
#include "bench/check/routing.h"
#include "base/memory.h"
#include "machine/world.h"
#include <math.h>

enum { CHOICE_VALUES = 256 }; /* values of a choice: -128 .. 127 */

static const mixture *mixture_of(const trainer *t) { return &t->stage.work.experts; }
static int64_t layers_of(const trainer *t) { return mixture_of(t)->choices.dim[1]; }

typedef struct {
    tensor logits, choices;
    int64_t tokens, experts;
} decisions;

static decisions decisions_open(const trainer *t, int64_t microbatch, int64_t layer)
{
    const mixture *x = mixture_of(t);
    decisions d = { .logits = machine_view(t->machine, mixture_logits(x, microbatch, layer)),
                    .choices = machine_view(t->machine, mixture_choices(x, microbatch, layer)) };
    d.tokens = d.logits.dim[0];
    d.experts = d.logits.dim[1];
    return d;
}

static void decisions_close(const trainer *t, decisions *d)
{
    machine_view_end(t->machine, &d->logits);
    machine_view_end(t->machine, &d->choices);
}

static int32_t choice_at(const decisions *d, int64_t i) { return ((const int32_t *)d->choices.data)[i]; }
static float logit_at(const decisions *d, int64_t token, int64_t e)
{
    return (float)tensor_value(&d->logits, token * d->experts + e);
}

/* ---- from the mesh to the references ---- */

/* Returns a choice as a nonzero number. The expert's number is reduced modulo `experts`, because it may be wrong. */
static double encode(int32_t choice, int64_t experts)
{
    int64_t expert = choice_expert(choice) % experts;
    return (double)(CHOICE_VALUES / 2 + (choice < 0 ? choice_dropped((int32_t)expert) : expert));
}
static int32_t decode(int64_t code) { return (int32_t)(code % CHOICE_VALUES - CHOICE_VALUES / 2); }

/* Returns the model's number of a layer of the stage. */
static int64_t model_layer(const mixture *x, int64_t layer)
{
    const chunk_extent *e = x->chunk;
    for (; layer >= e->layers; e++) layer -= e->layers;
    return e->first_layer + layer;
}

void routing_collect(const trainer *t, int64_t sequence, double *codes)
{
    const bench_case *c = t->given;
    const mesh *m = t->mesh;
    int64_t b = c->microbatch, microbatch = sequence / b / t->stage.data_ranks;
    if (sequence / b % t->stage.data_ranks != t->stage.data_rank) return;
    const capacity_groups g = { c->layout.degree[AXIS_TENSOR], c->layout.degree[AXIS_CONTEXT], c->strips };
    int rank = m->at[AXIS_CONTEXT] * g.tensor + m->at[AXIS_TENSOR];
    for (int64_t l = 0; l < layers_of(t); l++) {
        decisions d = decisions_open(t, microbatch, l);
        double *layer_codes = codes + model_layer(mixture_of(t), l) * c->model.sequence;
        for (int64_t i = 0; i < d.tokens / b; i++) {
            int64_t at = CHOICES * (i * b + sequence % b);
            layer_codes[mixture_position(&g, c->model.sequence, rank, i)] =
                encode(choice_at(&d, at), d.experts) + CHOICE_VALUES * encode(choice_at(&d, at + 1), d.experts);
        }
        decisions_close(t, &d);
    }
}

static void decode_tokens(const double *codes, int64_t n, int32_t *choice)
{
    for (int64_t i = 0; i < n; i++) {
        choice[CHOICES * i] = decode((int64_t)codes[i]);
        choice[CHOICES * i + 1] = decode((int64_t)codes[i] / CHOICE_VALUES);
    }
}

void routing_write(const trainer *t, int64_t microbatch, const double *codes)
{
    for (int64_t l = 0; l < layers_of(t); l++) {
        tensor to = mixture_choices(mixture_of(t), microbatch, l);
        decode_tokens(codes + l * to.dim[0], to.dim[0], to.data);
    }
}

static void sum_codes(const trainer *t, int64_t sequence, double *codes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) codes[i] = 0.0;
    if (t) routing_collect(t, sequence, codes);
    world_sum(codes, n);
}

/* Sequence r + ranks * m is microbatch m of the reference of rank r. */
void routing_give(const trainer *t, reference references[], int count)
{
    const bench_case *c = &references[0].given;
    int64_t n = c->model.layers * c->model.sequence;
    double *codes = reference_doubles(n);
    for (int64_t s = 0; s < c->global_batch; s++) {
        sum_codes(t, s, codes, n);
        for (int i = 0; s % world_part_ranks() == world_part_rank() && i < count; i++)
            routing_write(&references[i].trainer, s / world_part_ranks(), codes);
    }
    free(codes);
}

int32_t *routing_calibration(const trainer *t, const bench_case *check)
{
    int64_t n = check->model.layers * check->model.sequence, share = check->global_batch / world_part_ranks() + 1;
    double *codes = reference_doubles(n);
    int32_t *choices = allocate(share * n * CHOICES, sizeof *choices, "the choices of a calibration");
    for (int64_t s = 0; s < check->global_batch; s++) {
        sum_codes(t, s, codes, n);
        if (s % world_part_ranks() == world_part_rank())
            decode_tokens(codes, n, choices + s / world_part_ranks() * n * CHOICES);
    }
    free(codes);
    return choices;
}

/* ---- what the references would choose ---- */

/* Returns the largest logit of an expert that was not chosen, minus the smaller logit of the chosen ones. */
static double logit_excess(const decisions *d, int64_t token)
{
    int32_t a = choice_expert(choice_at(d, CHOICES * token)), b = choice_expert(choice_at(d, CHOICES * token + 1));
    double chosen = fmin(logit_at(d, token, a), logit_at(d, token, b)), other = -INFINITY;
    for (int64_t e = 0; e < d->experts; e++)
        if (e != a && e != b) other = fmax(other, logit_at(d, token, e));
    return other - chosen;
}

routing_flips routing_compare(const trainer *t)
{
    routing_flips f = { 0 };
    for (int64_t m = 0; m < t->given->microbatches; m++)
        for (int64_t l = 0; l < layers_of(t); l++) {
            decisions d = decisions_open(t, m, l);
            for (int64_t token = 0; token < d.tokens; token++) {
                double margin = logit_excess(&d, token);
                f.flips += margin > 0.0;
                f.margin = fmax(f.margin, margin);
            }
            decisions_close(t, &d);
        }
    return f;
}
