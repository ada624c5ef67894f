/* Size and layout of a case. A layout that the deck does not give is the recipe's, or a proxy's, or the recipe's in
 * small; data takes the rest of the ranks. */
#include "plan/deck/draft.h"
#include <limits.h>
#include <math.h>
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

static int64_t expert_span(const mesh_layout *l) { return (int64_t)l->degree[AXIS_DATA] * l->degree[AXIS_CONTEXT]; }

/* Sets data and the ranks that it needs. Returns whether experts and the batch divide. */
static bool set_data(case_draft *d, int64_t data)
{
    mesh_layout *l = &d->c.layout;
    l->degree[AXIS_DATA] = (int)data;
    int64_t needed = needed_ranks(l);
    d->c.ranks = l->ranks = needed > INT_MAX ? INT_MAX : (int)needed;
    return expert_span(l) % l->expert == 0 && batch_divides(d);
}

/* Sets data, unless it is given, to the largest number for which the ranks suffice and experts and batch divide. Skips
 * a case that the ranks cannot hold. */
static void resolve_data(case_draft *d)
{
    const mesh_layout *l = &d->c.layout;
    int64_t rest = d->source->ranks / ranks_per_data_rank(l), data = rest > 1 ? rest : 1;
    bool divides = set_data(d, draft_given(d, KEY_DATA) ? l->degree[AXIS_DATA] : data);
    if (!draft_given(d, KEY_DATA)) {
        while (!divides && data > 1) divides = set_data(d, --data);
        if (!divides) set_data(d, rest > 1 ? rest : 1);
    }
    int64_t needed = needed_ranks(l);
    if (needed > d->source->ranks)
        snprintf(d->c.skipped, REASON_LENGTH, "needs %lld ranks, there are %d", (long long)needed, d->source->ranks);
    else if (!draft_given(d, KEY_DATA) && expert_span(l) % l->expert != 0)
        snprintf(d->c.skipped, REASON_LENGTH, "expert %d does not divide data x context, %lld with %d ranks", l->expert,
                 (long long)expert_span(l), d->source->ranks);
    else if (d->c.checkpoint_every && needed < d->source->ranks)
        snprintf(d->c.skipped, REASON_LENGTH, "checkpoint_every needs all ranks to take part, but only %lld of %d do",
                 (long long)needed, d->source->ranks);
}

void layout_of_one(case_draft *d)
{
    for (key_id key = KEY_TENSOR; key <= KEY_CHUNKS_PER_STAGE; key++)
        if (!draft_given(d, key)) key_store(key, &d->c, 1);
    set_data(d, d->c.layout.degree[AXIS_DATA]);
}

static void layout_from_keys(case_draft *d)
{
    layout_of_one(d);
    resolve_data(d);
}

/* Returns the row for the number of ranks, of the given depth if there are such rows; the smallest row if there are too
 * few ranks. */
static const recipe_row *recipe_for_ranks(const case_draft *d)
{
    recipe_query q = draft_query(d, draft_depth(d));
    return recipe_nearest(&q, d->source->ranks);
}

static void layout_from_row(case_draft *d, const recipe_row *row)
{
    d->row = row;
    d->c.layout = (mesh_layout){ .degree = { [AXIS_TENSOR] = row->tensor,
                                             [AXIS_CONTEXT] = row->context,
                                             [AXIS_SHARD] = row->shard,
                                             [AXIS_PIPELINE] = row->pipeline },
                                 .expert = row->expert,
                                 .chunks_per_stage = row->chunks_per_stage,
                                 .copies = 1 };
    resolve_data(d);
}

/* Takes the row of this model that uses most ranks; of several, the largest. 192 ranks are three times the row of 64,
 * because that of 128 would leave 64 ranks idle. */
static void layout_from_recipe(case_draft *d)
{
    const recipe_row *nearest = recipe_for_ranks(d), *row;
    case_draft best = *d, other;
    layout_from_row(&best, nearest);
    for (int i = 0; (row = recipe_at(i)); i++) {
        if (!recipe_alike(row, nearest) || row->gpus > nearest->gpus) continue;
        other = *d;
        layout_from_row(&other, row);
        if (!other.c.skipped[0] && other.c.layout.ranks > best.c.layout.ranks) best = other;
    }
    *d = best;
    if (nearest->gpus <= d->source->ranks) return;
    d->c.layout.degree[AXIS_DATA] = nearest->data;
    d->c.layout.ranks = nearest->gpus;
    snprintf(d->c.skipped, REASON_LENGTH, "the recipe's smallest layout needs %d ranks, there are %d", nearest->gpus,
             d->source->ranks);
}

/* Returns the largest power of two that is at most `most`. */
static int power_of_two(int most)
{
    int power = 1;
    while (power <= most / 2) power *= 2;
    return power;
}

/* Every rank holds all layers of its tensor part: no pipeline, no context, no shard. */
static void layout_of_proxy(case_draft *d, const recipe_row *row)
{
    int ranks = d->source->ranks, tensor = power_of_two(ranks < row->tensor ? ranks : row->tensor),
        expert = row->expert;
    while (ranks / tensor % expert != 0) expert /= 2;
    d->c.layout = (mesh_layout){ .degree = { 1, 1, 1, 1, 1 }, .expert = expert, .chunks_per_stage = 1, .copies = 1 };
    d->c.layout.degree[AXIS_TENSOR] = tensor;
    resolve_data(d);
}

/* Resolves a laid-out draft. Returns the number of its mistakes, or 1 if it is skipped. */
static int resolve_trial(const case_draft *d, case_draft *resolved)
{
    int wrong = draft_try(d, resolved);
    return wrong ? wrong : resolved->c.skipped[0] != 0;
}

/* Each axis of the workload's row takes two ranks while ranks remain, unless a dimension would not divide. Experts take
 * theirs from data and context. */
static void layout_in_small(case_draft *d)
{
    text_view rest = text_of(d->workload->small_layout), axis;
    case_draft resolved;
    layout_from_keys(d);
    int wrong = resolve_trial(d, &resolved);
    while ((axis = text_word(&rest)).length) {
        case_draft with = *d;
        key_store(key_find(axis), &with.c, 2);
        resolve_data(&with);
        int still_wrong = resolve_trial(&with, &resolved);
        bool remain = d->source->ranks % (ranks_per_data_rank(&with.c.layout) * with.c.layout.expert) == 0;
        if (remain && still_wrong <= wrong) *d = with, wrong = still_wrong;
    }
}

static void lay_out(case_draft *d, case_size size)
{
    d->c.size = size;
    if (layout_given(d) || size == SIZE_CHECK) layout_from_keys(d);
    else if (size == SIZE_FULL) layout_from_recipe(d);
    else layout_in_small(d);
}

/* Returns the most bytes of a rank. A case with a mistake takes none, because its mistake must be reported. */
static double rank_bytes(const case_draft *d)
{
    case_draft resolved;
    bool right = resolve_trial(d, &resolved) == 0;
    return d->source->rank_bytes && right ? d->source->rank_bytes(&resolved.c) : 0.0;
}

static double proxy_bytes(case_draft *d, int64_t layers)
{
    d->proxy_layers = layers;
    return rank_bytes(d);
}

/* Takes the recipe's model if it has a row for so few ranks and fits. */
static bool take_full(case_draft *d)
{
    case_draft full = *d;
    if (recipe_for_ranks(d)->gpus > d->source->ranks) return false;
    lay_out(&full, SIZE_FULL);
    if (rank_bytes(&full) > d->source->device_bytes) return false;
    *d = full;
    return true;
}

/* Takes as many layers of the recipe's width as fit: the bytes of one and of two predict the number. */
static bool take_proxy(case_draft *d)
{
    case_draft p = *d;
    double limit = d->source->device_bytes;
    p.c.size = SIZE_FULL;
    p.row = recipe_for_ranks(d);
    if (layout_given(d)) layout_from_keys(&p);
    else layout_of_proxy(&p, p.row);
    int64_t unit = (int64_t)p.c.layout.degree[AXIS_PIPELINE] * p.c.layout.chunks_per_stage,
            most = draft_given(d, KEY_LAYERS) ? 1 : d->workload->full.layers / unit, n = most;
    d->least_bytes = proxy_bytes(&p, unit);
    if (most < 1 || d->least_bytes > limit) return false;
    double growth = most > 1 ? proxy_bytes(&p, 2 * unit) - d->least_bytes : 0.0;
    if (growth > 0.0) n = (int64_t)fmin(1.0 + (limit - d->least_bytes) / growth, (double)most);
    while (n < most && proxy_bytes(&p, (n + 1) * unit) <= limit) n++;
    while (n > 1 && proxy_bytes(&p, n * unit) > limit) n--;
    p.proxy_layers = n * unit;
    *d = p;
    return true;
}

void layout_resolve(case_draft *d)
{
    case_size size = d->c.size;
    if (size == SIZE_AUTO && d->c.backend == BACKEND_CUDA && (take_full(d) || take_proxy(d))) return;
    lay_out(d, size == SIZE_AUTO ? SIZE_SMALL : size);
}
