/* The verdict. */
#include "bench/judge.h"
#include "base/build_info.h"
#include "bench/check.h"
#include "bench/stop.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ENOUGH_STEPS = 10 };

static void judge_numbers(case_result *r)
{
    int64_t total = r->given->warmup + r->given->steps;
    if (r->completed < total && !r->stopped)
        result_fail(r, "%lld of %lld steps were run", (long long)r->completed, (long long)total);
    for (int64_t i = 0; i < r->completed; i++) {
        bool outgrown = isfinite(r->loss[i]) && isinf(r->gradient_norm[i]);
        if (isfinite(r->loss[i]) && isfinite(r->gradient_norm[i])) continue;
        result_fail(r,
                    outgrown ? "the gradient norm of step %lld is above 1.6e7 (2^24), beyond the exact sum"
                             : "loss or gradient norm of step %lld is not finite",
                    (long long)i);
        result_invalidate(r, outgrown ? "a gradient norm beyond the exact sum" : "not a number");
        return;
    }
}

static void judge_check(case_result *r, const check_result *c, const char *when)
{
    if (c->done && !c->passed)
        result_fail(r, "check %s the timed steps: residual %.3g, limit %d: %s", when, c->residual, CHECK_THRESHOLD,
                    c->worst);
}

/* A fault that the check does not see is harmless only if the timed steps suffer the same. */
static void judge_struck(case_result *r, const check_result *c)
{
    if (!c->done || !r->faults) return;
    if (c->faults == 0)
        result_fail(r, "the planted fault never struck in the check: its model has fewer such operations");
    else if (strcmp(c->struck, r->struck) != 0)
        result_fail(r,
                    "the planted fault struck %s in the check, but %s in the timed steps: the check says nothing of it",
                    c->struck, r->struck[0] ? r->struck : "nothing");
}

static void judge_fault(case_result *r)
{
    const planted_fault *f = &r->given->fault;
    if (f->kind == FAULT_NONE) return;
    result_invalidate(r, "fault planted: %s %s %lld %d", fault_name(f->kind), f->operation, (long long)f->nth, f->rank);
    if (r->stopped) return;
    if (r->faults == 0) result_fail(r, "the planted fault never struck");
    if (r->given->check == CHECK_OFF) result_fail(r, "a fault is planted and the check that would see it is off");
    for (int i = 0; i < 2; i++) judge_struck(r, &r->check[i]);
}

/* On devices the host only submits: its cores may be fewer than its threads. */
static void judge_load(case_result *r, const host_load *load)
{
    bool on_devices = r->given->backend == BACKEND_CUDA;
    if (!on_devices && load->node_ranks * load->threads > load->cores)
        result_invalidate(r, "oversubscribed: %d ranks of %d threads on %d cores", load->node_ranks, load->threads,
                          load->cores);
    else if (!on_devices && load->node_ranks * load->threads > load->quota)
        result_invalidate(r, "oversubscribed: %d ranks of %d threads on a quota of %.2f processors", load->node_ranks,
                          load->threads, load->quota);
    if (on_devices && load->sharing > 1) result_invalidate(r, "ranks share a device: up to %d on one", load->sharing);
    if (r->throttled[0]) result_invalidate(r, "throttled device: %s", r->throttled);
    if (on_devices && r->clocks_unknown[0])
        result_invalidate(r, "clocks not known: NVML does not tell %s (nor nvidia-smi -q -d PERFORMANCE)",
                          r->clocks_unknown);
}

/* Training that diverged is no fault of the machine, since a deck may ask for any learning rate; but its numbers are
 * not those of training, and are compared with no other's. A model that knows nothing costs ln(vocabulary), an
 * untrained one little more: a loss of twice that comes of large logits that are wrong. */
static void judge_training(case_result *r)
{
    double first = r->completed ? r->loss[0] : 0.0, limit = 2.0 * fmax(log((double)r->given->model.vocabulary), first);
    int64_t worst = 0;
    for (int64_t i = 0; i < r->completed; i++) {
        if (r->gradient_norm[i] == 0.0) result_invalidate(r, "a gradient is zero: training has collapsed");
        if (r->loss[i] > r->loss[worst]) worst = i;
    }
    if (r->completed && r->loss[worst] > limit)
        result_invalidate(
            r, "the loss rose to %.4g in step %lld, above %.4g, twice that of an untrained model: training diverged",
            r->loss[worst], (long long)worst, limit);
}

static void judge_validity(case_result *r, const host_load *load)
{
    const bench_case *c = r->given;
    char split[REASON_LENGTH];
    if (c->check == CHECK_OFF) result_invalidate(r, "check off");
    judge_load(r, load);
    if (c->recipe_layout && placement_complaint(&r->placement, &c->layout, split)) result_invalidate(r, "%s", split);
    if (r->libraries_differ[0]) result_invalidate(r, "libraries differ: %s", r->libraries_differ);
    if (build_debug) result_invalidate(r, "debug build");
    if (c->steps < ENOUGH_STEPS)
        result_invalidate(r, "%lld timed steps, %d are needed", (long long)c->steps, ENOUGH_STEPS);
    if (c->optimizer.learning_rate == 0.0) result_invalidate(r, "learning rate 0: nothing is learned");
    if (c->tokens == TOKENS_ZEROS) result_invalidate(r, "tokens are all zero");
    judge_training(r);
    if (c->order == ORDER_HOSTILE) result_invalidate(r, "hostile order");
    if (c->size == SIZE_FULL && !c->recipe_layout)
        result_invalidate(r, "not the recipe's layout, batch or way of computing");
}

void judge_case(case_result *r, const host_load *load)
{
    judge_numbers(r);
    judge_check(r, &r->check[0], "before");
    judge_check(r, &r->check[1], "after");
    if (r->hazards) result_fail(r, "%lld hazards: %s", (long long)r->hazards, r->hazard);
    if (r->shadow.failed)
        result_fail(r, "%lld operations differ from the host's; the first: %.300s", (long long)r->shadow.failed,
                    r->shadow.sentence);
    judge_fault(r);
    judge_validity(r, load);
    snprintf(r->stopped_by, sizeof r->stopped_by, "%s", stop_words(r->stopped));
    if (r->stopped)
        result_invalidate(r, "interrupted after %lld of %lld steps: %s", (long long)r->completed,
                          (long long)(r->given->warmup + r->given->steps), r->stopped_by);
    r->passed = r->fail_reasons == 0 && !r->stopped;
    r->verdict = r->fail_reasons ? VERDICT_FAILED : r->stopped ? VERDICT_INTERRUPTED : VERDICT_PASSED;
    r->valid = r->passed && r->invalid_reasons == 0;
    if (r->fail_reasons) result_invalidate(r, "failed");
}
