/* Comparison of a case with its recipe: layout, batch, way of computing. With more GPUs than a row has, a case may be
 * the row with more data ranks, because each rank has the same work. */
#include "plan/catalogue/catalogue.h"
#include "plan/deck/draft.h"
#include "plan/keys/names.h"
#include <stdio.h>

recipe_query draft_query(const case_draft *d, int64_t layers)
{
    return (recipe_query){ d->workload->name, d->c.precision, layers, d->source->device };
}

static int64_t recipe_depth(const case_draft *d)
{
    recipe_query q = draft_query(d, d->c.model.layers);
    return recipe_smallest(&q) ? d->c.model.layers : 0;
}

int64_t draft_depth(const case_draft *d) { return draft_given(d, KEY_LAYERS) ? recipe_depth(d) : 0; }

const recipe_row *draft_row(const case_draft *d)
{
    recipe_query q = draft_query(d, recipe_depth(d));
    return d->row ? d->row : recipe_nearest(&q, d->c.layout.ranks);
}

state_sharding effective_sharding(const mesh_layout *l, state_sharding sharding)
{
    return l->degree[AXIS_DATA] * l->degree[AXIS_CONTEXT] == 1 ? SHARDING_NONE : sharding;
}

schedule_kind schedule_by_chunks(const mesh_layout *l)
{
    return l->chunks_per_stage > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
}

bool has_recipe_width(const case_draft *d)
{
    const model_shape *m = &d->c.model, *full = &d->workload->full;
    return m->hidden == full->hidden && m->ffn == full->ffn && m->heads == full->heads &&
           m->kv_heads == full->kv_heads && m->vocabulary == full->vocabulary;
}

/* Writes the first number that differs. `data` follows from the others and the number of ranks. */
static bool numbers_differ(const case_draft *d, const recipe_row *row, char why[REASON_LENGTH])
{
    const bench_case *c = &d->c;
    const int *n = c->layout.degree;
    int64_t batch = row->global_batch * c->layout.ranks / row->gpus; /* gives each rank the work of the cell */
    const struct {
        const char *name;
        int64_t given, recipe;
    } number[] = { { "layers", c->model.layers, row->layers },
                   { "sequence", c->model.sequence, row->sequence },
                   { "tensor", n[AXIS_TENSOR], row->tensor },
                   { "pipeline", n[AXIS_PIPELINE], row->pipeline },
                   { "context", n[AXIS_CONTEXT], row->context },
                   { "expert", c->layout.expert, row->expert },
                   { "shard", n[AXIS_SHARD], row->shard },
                   { "chunks_per_stage", c->layout.chunks_per_stage, row->chunks_per_stage },
                   { "microbatch", c->microbatch, row->microbatch },
                   { "global_batch", c->global_batch, batch } };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        if (number[i].given == number[i].recipe) continue;
        snprintf(why, REASON_LENGTH, "%s %lld, but %lld in the recipe's cell of %d GPUs", number[i].name,
                 (long long)number[i].given, (long long)number[i].recipe, row->gpus);
        return true;
    }
    return false;
}

/* Returns the first key whose value differs and changes how a step computes; NULL if there is none. */
static const char *key_that_differs(const case_draft *d)
{
    const bench_case *c = &d->c;
    const mesh_layout *l = &c->layout;
    const workload_row *w = d->workload;
    if (c->recompute != w->recompute) return "recompute";
    if (c->schedule != schedule_by_chunks(l)) return "schedule";
    if (c->capacity != 1.0) return "capacity";
    if (effective_sharding(l, c->sharding) != effective_sharding(l, w->sharding)) return "sharding";
    if (!c->overlap) return "overlap";
    return c->tokens == w->tokens || c->tokens == w->recipe_tokens ? NULL : "tokens";
}

static bool differs(const case_draft *d, const recipe_row *row, char why[REASON_LENGTH])
{
    const bench_case *c = &d->c;
    const char *key = key_that_differs(d);
    if (c->size != SIZE_FULL && d->least_bytes > d->source->device_bytes)
        snprintf(why, REASON_LENGTH,
                 "size %s: a rank takes %.1f GB with the fewest layers of full width, a device has %.1f",
                 size_names[c->size], d->least_bytes / 1e9, d->source->device_bytes / 1e9);
    else if (c->size != SIZE_FULL)
        snprintf(why, REASON_LENGTH, "size %s: a proxy of %s", size_names[c->size], d->workload->name);
    else if (c->precision != row->precision)
        snprintf(why, REASON_LENGTH, "nothing is published for precision %s", precision_names[c->precision]);
    else if (!has_recipe_width(d)) snprintf(why, REASON_LENGTH, "the model's shape is not the recipe's");
    else if (row->gpus > c->layout.ranks)
        snprintf(why, REASON_LENGTH, "%d ranks: the recipe's smallest layout takes %d", c->layout.ranks, row->gpus);
    else if (!numbers_differ(d, row, why) && key) snprintf(why, REASON_LENGTH, "%s is not the recipe's", key);
    return why[0] != 0;
}

void recipe_compare(case_draft *d)
{
    const recipe_row *row = draft_row(d);
    bench_case *c = &d->c;
    c->recipe_gpus = differs(d, row, c->incomparable) ? 0 : row->gpus;
    c->recipe_layout = c->recipe_gpus == c->layout.ranks;
    if (c->recipe_gpus && row->format)
        snprintf(c->incomparable, REASON_LENGTH, "published in %s: not the same work", row->format);
    else if (c->recipe_gpus && row->step_seconds == 0.0)
        snprintf(c->incomparable, REASON_LENGTH, "nothing is published for %s", d->workload->name);
}
