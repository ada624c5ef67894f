/* Resolution of a draft: sets what the deck does not give, from catalogue, ranks and rules. */
#include "plan/deck/deck.h"
#include "plan/deck/draft.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Returns why the case cannot run on GPUs (missing or shared); NULL if it can. */
static const char *cuda_obstacle(const case_draft *d)
{
    const deck_source *s = d->source;
    if (s->dry_run) return s->cuda_missing;
    if (!s->cuda_usable) return s->cuda_missing ? s->cuda_missing : "no rank has a usable GPU";
    return d->c.share_devices ? NULL : s->cuda_shared;
}

static void resolve_backend(case_draft *d)
{
    static const key_id keys[] = { KEY_BACKEND, KEYS };
    const char *obstacle = cuda_obstacle(d),
               *available = d->source->cuda_shared ? "GPUs are shared" : "every rank has a GPU";
    snprintf(d->c.backend_reason, REASON_LENGTH, "the deck says so");
    if (d->c.backend == BACKEND_AUTO && !(obstacle && d->source->host_by_option)) {
        d->c.backend = obstacle ? BACKEND_HOST : BACKEND_CUDA;
        snprintf(d->c.backend_reason, REASON_LENGTH, "%s", obstacle ? obstacle : available);
    } else if (d->c.backend != BACKEND_HOST && obstacle && !d->source->dry_run) {
        const char *remedy = d->source->host_by_option            ? "--on-host uses the host"
                             : obstacle == d->source->cuda_shared ? "share_devices = yes allows it"
                                                                  : "auto uses the host";
        d->c.backend = BACKEND_CUDA;
        draft_refuse(d, keys, "cuda cannot run here: %s; %s", obstacle, remedy);
    }
}

bool source_lacks_fp8(const deck_source *s, char why[REASON_LENGTH])
{
    const device_row *row = s->device ? device_find(s->device) : NULL;
    if (s->cuda_without_fp8) snprintf(why, REASON_LENGTH, "%s", s->cuda_without_fp8);
    else if (row && row->fp8 == 0.0) snprintf(why, REASON_LENGTH, "%s cannot multiply FP8", row->name);
    return s->cuda_without_fp8 || (row && row->fp8 == 0.0);
}

static void skip_without_fp8(case_draft *d)
{
    char why[REASON_LENGTH];
    bool on_cuda = d->c.precision == PRECISION_FP8 && d->c.backend == BACKEND_CUDA;
    if (on_cuda && !d->c.skipped[0] && source_lacks_fp8(d->source, why)) memcpy(d->c.skipped, why, sizeof why);
}

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

/* Returns whether a laid-out draft is wrong with any number of ranks: on one rank for each axis that is not given. */
static bool is_always_wrong(const case_draft *d, int64_t layers)
{
    mistakes always = { .deck = d->wrong->deck };
    deck_source many = *d->source;
    case_draft one = *d;
    many.ranks = INT_MAX;
    one.source = &many;
    one.wrong = &always;
    if (d->c.size == SIZE_FULL) one.proxy_layers = layers;
    layout_of_one(&one);
    draft_complete(&one);
    return always.count > 0;
}

/* Sorts the mistakes of a laid-out case: they refuse the deck, or the ranks at hand cannot meet them and the case is
 * skipped. */
static void sort_mistakes(case_draft *d, const case_draft *laid_out, const mistakes *here)
{
    if (is_always_wrong(laid_out, d->c.model.layers)) {
        mistakes_add(d->wrong, here);
        return;
    }
    const deck_message *first = &here->message[0];
    d->is_unmet = here->line[0] != d->c.line;
    snprintf(d->c.skipped, REASON_LENGTH, "%.*s", REASON_LENGTH - 1, first->line + (d->is_unmet ? 0 : first->sentence));
    if (d->is_unmet) mistakes_add(d->unmet, here);
}

void draft_resolve(case_draft *d)
{
    mistakes here = { .deck = d->wrong->deck };
    resolve_backend(d);
    copies_resolve(d);
    skip_without_fp8(d);
    case_draft laid_out = *d;
    d->wrong = &here;
    draft_complete(d);
    d->wrong = laid_out.wrong;
    if (here.count) sort_mistakes(d, &laid_out, &here);
}
