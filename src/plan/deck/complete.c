/* What follows from size and layout: the recipe's defaults, shape, batch, optimizer, comparison, contradictions. */
#include "plan/deck/draft.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <stdio.h>
#include <string.h>

static void resolve_strips(case_draft *d)
{
    bench_case *c = &d->c;
    enum { MOST = 4, ROWS = 1024 };
    int64_t positions = c->model.sequence / c->layout.degree[AXIS_CONTEXT], rows = positions * c->microbatch;
    int most = MOST, tensor = c->layout.degree[AXIS_TENSOR];
    while (most > 1 && (rows / most < ROWS || positions % (most * tensor))) most /= 2;
    c->strips_asked = draft_given(d, KEY_STRIPS) ? c->strips : 0;
    c->strips = strips_within(c->strips_asked ? c->strips_asked : most, positions, tensor);
}

static void resolve_recipe(case_draft *d)
{
    if (!draft_given(d, KEY_TOKENS)) d->c.tokens = d->workload->tokens;
    if (!draft_given(d, KEY_RECOMPUTE)) d->c.recompute = d->workload->recompute;
    if (!draft_given(d, KEY_SHARDING)) d->c.sharding = effective_sharding(&d->c.layout, d->workload->sharding);
    d->c.head_deferral = d->workload->head_deferral;
    d->c.transfer_sms_given = draft_given(d, KEY_TRANSFER_SMS);
    if (!draft_given(d, KEY_SCHEDULE)) d->c.schedule = schedule_by_chunks(&d->c.layout);
}

/* A given learning rate replaces the largest one; the smallest keeps its ratio to it. */
static void resolve_optimizer(case_draft *d)
{
    double given = d->c.optimizer.learning_rate;
    int64_t warmup = d->c.optimizer.learning_rate_warmup;
    optimizer_rule rule = optimizer_for(d->workload, d->c.size, d->c.warmup + d->c.steps);
    if (draft_given(d, KEY_LEARNING_RATE)) {
        double smallest = rule.learning_rate_minimum * (given / rule.learning_rate);
        rule.learning_rate_minimum = rule.learning_rate_constant ? given : smallest;
        rule.learning_rate = given;
    }
    if (draft_given(d, KEY_LEARNING_RATE_WARMUP)) rule.learning_rate_warmup = warmup;
    d->c.optimizer = rule;
}

static int64_t metric_steps(const case_draft *d)
{
    int64_t rest = d->c.warmup + d->c.steps - d->workload->metric_skips;
    return d->workload->metric_steps ? d->workload->metric_steps : rest > 1 ? rest : 1;
}

static void resolve_names(case_draft *d)
{
    const model_shape *m = &d->c.model, *full = &d->workload->full;
    const char *name = d->workload->name;
    bool full_width = d->c.size == SIZE_FULL && has_recipe_width(d);
    d->c.proxy = !full_width || m->layers != full->layers;
    snprintf(d->c.workload, NAME_LENGTH, "%s", name);
    if (!d->c.proxy) snprintf(d->c.model_name, NAME_LENGTH, "%s", name);
    else if (full_width) snprintf(d->c.model_name, NAME_LENGTH, "%s, %lld-layer proxy", name, (long long)m->layers);
    else
        snprintf(d->c.model_name, NAME_LENGTH, "%s, %s", name,
                 d->c.size == SIZE_FULL ? "own shape" : size_name(d->c.size));
}

void draft_complete(case_draft *d)
{
    resolve_recipe(d);
    shape_resolve(d);
    batch_resolve(d);
    resolve_strips(d);
    resolve_optimizer(d);
    d->c.step_line = d->workload->step_line;
    d->c.metric_steps = metric_steps(d);
    count_flops(&d->c, d->workload->formula);
    resolve_names(d);
    recipe_compare(d);
    draft_validate(d);
}

int draft_try(const case_draft *d, case_draft *completed)
{
    mistakes wrong = { .deck = d->source->name };
    *completed = *d;
    completed->wrong = &wrong;
    draft_complete(completed);
    completed->wrong = d->wrong;
    return wrong.count;
}
