/* What a mixture of experts reports of a step: balance loss, and the load of each expert. */
#include "base/fail.h"
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
}

void experts_begin(trainer *t)
{
    if (!has_experts(t)) return;
    submit(t->queues.compute, "balance", fill_op(mixture_of(t)->balance, 0.0));
    submit(t->queues.compute, "load", fill_op(mixture_of(t)->load, 0.0));
}

/* Every stage has layers of its own, every data and shard rank sequences; the context ranks' first has reported for
 * all.
 */
void experts_report(trainer *t, int64_t slot)
{
    if (!has_experts(t)) return;
    const queues *l = &t->queues;
    int64_t experts = tensor_elements(&mixture_of(t)->load);
    submit(l->compute, "balance", sum_op(tensor_slice(t->routed, 0, 0, 1), WRITE, mixture_of(t)->balance));
    submit(l->compute, "load",
           copy_op(tensor_slice(t->routed, 0, 1, experts), WRITE, tensor_flat(mixture_of(t)->load)));
    queues_all_reduce(l, l->gradient, "load", &t->mesh->gradient, t->routed);
    queues_all_reduce(l, l->gradient, "load", &t->mesh->axis[AXIS_SHARD], t->routed);
    queues_all_reduce(l, l->gradient, "load", &t->mesh->axis[AXIS_PIPELINE], t->routed);
    submit(
        l->compute, "report",
        copy_op(tensor_slice(tensor_flat(t->routed_report), 0, slot * (1 + experts), 1 + experts), WRITE, t->routed));
}

routed_report trainer_routed(const trainer *t, int64_t step)
{
    routed_report r = { .experts = has_experts(t) ? (int)mixture_of(t)->load.dim[1] : 0 };
    double figure[1 + 2 * REPORTED_EXPERTS];
    if (r.experts == 0) return r;
    if (r.experts > REPORTED_EXPERTS) FAIL("%d experts; at most %d are reported", r.experts, REPORTED_EXPERTS);
    int64_t figures = tensor_elements(&t->routed);
    machine_read(t->machine, figure,
                 tensor_slice(tensor_flat(t->routed_report), 0, step % REPORT_SLOTS * figures, figures));
    r.balance = figure[0];
    r.least = figure[1];
    for (int e = 0; e < r.experts; e++) {
        double load = figure[1 + e];
        r.chosen += load;
        r.dropped += figure[1 + r.experts + e];
        r.least = fmin(r.least, load);
        r.most = fmax(r.most, load);
    }
    double mean = r.chosen / r.experts, square = 0.0;
    for (int e = 0; e < r.experts; e++) square += (figure[1 + e] - mean) * (figure[1 + e] - mean);
    r.variation = mean > 0.0 ? sqrt(square / r.experts) / mean : 0.0;
    return r;
}
