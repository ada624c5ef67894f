/* Resolution of a draft: sets what the deck does not give, from catalogue, ranks and rules. */
#include "plan/deck/draft.h"
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

/* Returns whether a laid-out draft is wrong with any number of ranks: on one rank for each axis that is not given. */
static bool is_always_wrong(const case_draft *d, int64_t layers)
{
    deck_source many = *d->source;
    case_draft one = *d, completed;
    many.ranks = INT_MAX;
    one.source = &many;
    if (d->c.size == SIZE_FULL) one.proxy_layers = layers;
    layout_of_one(&one);
    return draft_try(&one, &completed) > 0;
}

/* Writes the first mistake: "line 3: global_batch 12 is not ...". The key's name comes first, once. */
static void write_skipped(char skipped[REASON_LENGTH], const mistakes *here, bool of_key)
{
    const deck_message *first = &here->message[0];
    const char *key = first->line + first->key, *sentence = first->line + first->sentence;
    bool named = strncmp(key, sentence, (size_t)(first->sentence - first->key - 2)) == 0;
    if (!of_key) snprintf(skipped, REASON_LENGTH, "%.*s", REASON_LENGTH - 1, sentence);
    else snprintf(skipped, REASON_LENGTH, "line %d: %.200s", here->line[0], named ? sentence : key);
}

/* Sorts the mistakes of a laid-out case: they refuse the deck, or the ranks at hand cannot meet them and the case is
 * skipped. */
static void sort_mistakes(case_draft *d, const case_draft *laid_out, const mistakes *here)
{
    if (is_always_wrong(laid_out, d->c.model.layers)) {
        mistakes_add(d->wrong, here);
        return;
    }
    d->is_unmet = here->line[0] != d->c.line;
    write_skipped(d->c.skipped, here, d->is_unmet);
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
