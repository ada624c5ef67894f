/* The layout: the recipe's for size = full without layout keys; else the keys', with 1 for each key not given. data is
 * the rest of the ranks. */
#include "plan/deck/draft.h"
#include "plan/model/params.h"
#include <limits.h>
#include <stdio.h>

static bool layout_given(const case_draft *d)
{
    for (key_id key = KEY_TENSOR; key <= KEY_CHUNKS_PER_STAGE; key++)
        if (draft_given(d, key)) return true;
    return false;
}

static int64_t ranks_per_data_rank(const mesh_layout *l)
{
    return (int64_t)l->degree[AXIS_TENSOR] * l->degree[AXIS_CONTEXT] * l->degree[AXIS_PIPELINE] * l->degree[AXIS_SHARD];
}

static int64_t needed_ranks(const mesh_layout *l)
{
    int64_t ranks;
    return __builtin_mul_overflow(ranks_per_data_rank(l), (int64_t)l->degree[AXIS_DATA], &ranks) ? INT64_MAX : ranks;
}

/* Sets data to the rest of the ranks unless it is given, and skips a case that does not fit the ranks. */
static void resolve_data(case_draft *d)
{
    mesh_layout *l = &d->c.layout;
    if (!draft_given(d, KEY_DATA)) {
        int64_t rest = d->source->ranks / ranks_per_data_rank(l);
        l->degree[AXIS_DATA] = rest > 0 ? (int)rest : 1;
    }
    int64_t needed = needed_ranks(l), span = (int64_t)l->degree[AXIS_DATA] * l->degree[AXIS_CONTEXT];
    if (needed > d->source->ranks)
        snprintf(d->c.skipped, REASON_LENGTH, "needs %lld ranks, there are %d", (long long)needed, d->source->ranks);
    else if (!draft_given(d, KEY_DATA) && span % l->expert != 0)
        snprintf(d->c.skipped, REASON_LENGTH, "expert %d does not divide data x context, %lld with %d ranks", l->expert,
                 (long long)span, d->source->ranks);
    else if (d->c.checkpoint_every && needed < d->source->ranks)
        snprintf(d->c.skipped, REASON_LENGTH, "checkpoint_every needs all ranks to take part, but only %lld of %d do",
                 (long long)needed, d->source->ranks);
    l->ranks = needed > INT_MAX ? INT_MAX : (int)needed;
}

static void layout_from_keys(case_draft *d)
{
    for (key_id key = KEY_TENSOR; key <= KEY_CHUNKS_PER_STAGE; key++)
        if (!draft_given(d, key)) key_store(key, &d->c, 1);
    resolve_data(d);
}

/* Returns the row for the number of ranks, of the given depth if there are such rows; the smallest row if there are too
 * few ranks. */
static const recipe_row *recipe_for_ranks(const case_draft *d)
{
    recipe_query q = draft_query(d, draft_depth(d));
    return recipe_nearest(&q, d->source->ranks);
}

static void layout_from_recipe(case_draft *d)
{
    const recipe_row *row = recipe_for_ranks(d);
    d->c.layout = (mesh_layout){ .degree = { [AXIS_TENSOR] = row->tensor,
                                             [AXIS_CONTEXT] = row->context,
                                             [AXIS_SHARD] = row->shard,
                                             [AXIS_PIPELINE] = row->pipeline },
                                 .expert = row->expert,
                                 .chunks_per_stage = row->chunks_per_stage };
    resolve_data(d);
    if (row->gpus > d->source->ranks) {
        d->c.layout.degree[AXIS_DATA] = row->data;
        d->c.layout.ranks = row->gpus;
        snprintf(d->c.skipped, REASON_LENGTH, "the recipe's smallest layout needs %d ranks, there are %d", row->gpus,
                 d->source->ranks);
    }
}

/* Returns the fraction of the model's parameters on each of `ranks` expert ranks. */
static double fraction_on_expert_rank(const model_shape *m, int ranks)
{
    param_list l = params_of_shape(m);
    double experts = 0.0;
    for (int i = 0; i < l.count; i++) {
        const param_rule *p = &l.rule[i];
        experts += (double)(param_repeats(p, m->layers) * p->experts * p->rows * p->columns);
    }
    return 1.0 - experts / (double)model_parameters(m) * (1.0 - 1.0 / ranks);
}

/* Returns whether weights, gradients and optimizer of the recipe's model fit into the device's memory. */
static bool full_fits(const case_draft *d, const recipe_row *row)
{
    model_shape m = d->workload->full;
    const mesh_layout *l = &d->c.layout;
    m.head_dim = m.hidden / m.heads;
    m.layers = row->layers;
    storage_rule kept = storage_for(d->workload, &d->c);
    state_sharding sharding = draft_given(d, KEY_SHARDING) ? d->c.sharding : d->workload->sharding;
    double owners = (double)l->degree[AXIS_DATA] * l->degree[AXIS_CONTEXT];
    int shards = l->degree[AXIS_SHARD];
    double bytes = kept_bytes(kept.weight) + kept_bytes(shards > 1 ? kept.sharded_gradient : kept.gradient),
           optimizer_bytes = kept_bytes(kept.master) + 2 * kept_bytes(kept.moment);
    double parameters = (double)model_parameters(&m) / l->degree[AXIS_TENSOR] / l->degree[AXIS_PIPELINE] / shards,
           held = parameters * fraction_on_expert_rank(&m, l->expert);
    return held * bytes + (sharding == SHARDING_NONE ? held : parameters / owners) * optimizer_bytes <=
           device_bytes(d->source->device);
}

static case_size auto_size(const case_draft *d)
{
    const recipe_row *row = recipe_for_ranks(d);
    if (d->c.backend == BACKEND_HOST || row->gpus > d->source->ranks) return SIZE_SMALL;
    return !layout_given(d) || full_fits(d, row) ? SIZE_FULL : SIZE_SMALL;
}

void layout_resolve(case_draft *d)
{
    bool given = layout_given(d);
    d->c.idle_asked = given;
    if (given) layout_from_keys(d);
    if (d->c.size == SIZE_AUTO) d->c.size = auto_size(d);
    if (!given && d->c.size == SIZE_FULL) layout_from_recipe(d);
    if (!given && d->c.size != SIZE_FULL) layout_from_keys(d);
}
