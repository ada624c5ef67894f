/* Checks that the result of reading a deck is well formed, whatever the bytes of the deck. */
#pragma once
#include "plan/deck/deck.h"
#include "plan/model/check_case.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <string.h>

static inline const char *case_unsound(const bench_case *c)
{
    const char *what;
    if (!shape_fits(c, &what)) return what;
    if (c->model.head_dim < 1 || c->model.padded_vocabulary < c->model.vocabulary) return "a width";
    if (model_parameters(&c->model) <= 0) return "no parameters";
    if (!c->skipped[0] && c->layout.ranks > c->world_ranks) return "more ranks than there are";
    if (c->size == SIZE_AUTO || c->backend == BACKEND_AUTO) return "not resolved";
    int64_t wave = c->microbatch * c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_SHARD];
    if (!c->skipped[0] && c->microbatches * wave != c->global_batch) return "its batch is not that of its ranks";
    bench_case check = check_case(c), single = single_rank_case(&check, true);
    if (check.microbatches < 2 || shape_slots(check.model.layers, &check.layout) < 0) return "its check model";
    return single.microbatches * single.microbatch == check.global_batch ? NULL : "the check's batch on one rank";
}

/* Returns NULL, or an error message unless the answer has either cases or refusals and each refusal is one line. */
static inline const char *deck_unsound(const deck *d)
{
    if ((d->cases == 0) != (d->messages > 0)) return "neither cases nor refusals, or both";
    for (int i = 0; i < d->messages; i++)
        if (strncmp(d->message[i].line, "DECK:", 5) || strpbrk(d->message[i].line, "\n\r\t\x01"))
            return "a refusal is no line";
    for (int64_t i = 0; i < d->cases; i++) {
        const char *wrong = case_unsound(&d->item[i]);
        if (wrong) return wrong;
    }
    return NULL;
}
