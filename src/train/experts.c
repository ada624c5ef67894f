/* Report of a mixture of experts in a step: balance loss, and the load of each expert of each layer. */
#include "base/memory.h"
#include "train/trainer.h"
#include <math.h>

static const mixture *mixture_of(const trainer *t) { return &t->stage.work.experts; }
static bool has_experts(const trainer *t) { return tensor_present(&mixture_of(t)->load); }

void experts_open(trainer *t, arena *a)
{
    if (!has_experts(t)) return;
    int64_t figures = 1 + tensor_elements(&mixture_of(t)->load);
    t->routed = tensor_taken(a, BATCH, tensor_1d(NULL, F64, figures));
    t->routed_report = tensor_taken(a, BATCH, tensor_2d(NULL, F64, REPORT_SLOTS, figures));
    t->figures = allocate(figures, sizeof *t->figures, "figures of experts");
}

void experts_close(trainer *t) { free(t->figures); }

void experts_begin(trainer *t)
{
    if (!has_experts(t)) return;
    submit(t->queues.compute, "balance", fill_op(mixture_of(t)->balance, 0.0));
    submit(t->queues.compute, "load", fill_op(mixture_of(t)->load, 0.0));
}

/* Sums over stages, which have different layers, and over data and shard ranks, which have different sequences. Context
 * ranks have equal figures; only the first of them contributes. */
void experts_report(trainer *t, int64_t slot)
{
    if (!has_experts(t)) return;
    const queues *l = &t->queues;
    int64_t loads = tensor_elements(&mixture_of(t)->load);
    submit(l->compute, "balance", sum_op(tensor_slice(t->routed, 0, 0, 1), WRITE, mixture_of(t)->balance));
    submit(l->compute, "load", copy_op(tensor_slice(t->routed, 0, 1, loads), WRITE, tensor_flat(mixture_of(t)->load)));
    queues_all_reduce(l, l->gradient, "load", &t->mesh->gradient, t->routed);
    queues_all_reduce(l, l->gradient, "load", &t->mesh->axis[AXIS_SHARD], t->routed);
    queues_all_reduce(l, l->gradient, "load", &t->mesh->axis[AXIS_PIPELINE], t->routed);
    submit(l->compute, "report",
           copy_op(tensor_slice(tensor_flat(t->routed_report), 0, slot * (1 + loads), 1 + loads), WRITE, t->routed));
}

const double *trainer_routed_figures(const trainer *t, int64_t step)
{
    int64_t figures = tensor_elements(&t->routed);
    machine_read(t->machine, t->figures,
                 tensor_slice(tensor_flat(t->routed_report), 0, step % REPORT_SLOTS * figures, figures));
    return t->figures;
}

routed_report trainer_routed(const trainer *t, int64_t step)
{
    if (!has_experts(t)) return (routed_report){ 0 };
    tensor load = mixture_of(t)->load;
    int64_t layers = load.dim[0], experts = load.dim[2];
    const double *figure = trainer_routed_figures(t, step), *chosen = figure + 1;
    routed_report r = { .experts = (int)experts, .balance = figure[0], .least = chosen[0] };
    double squares = 0.0;
    for (int64_t l = 0; l < layers; l++, chosen += 2 * experts)
        for (int64_t e = 0; e < experts; e++) {
            r.chosen += chosen[e];
            r.dropped += chosen[experts + e];
            r.least = fmin(r.least, chosen[e]);
            r.most = fmax(r.most, chosen[e]);
            squares += chosen[e] * chosen[e];
        }
    double n = (double)(layers * experts), mean = r.chosen / n;
    r.variation = mean > 0.0 ? sqrt(fmax(0.0, squares / n - mean * mean)) / mean : 0.0;
    return r;
}
