/* Fuzzes the parser of the deck, whose result must be well formed. The input is one byte for ranks and kind of run,
 * then the deck. */
#include "plan/deck/deck.h"
#include "plan/model/check_case.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *case_unsound(const bench_case *c)
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
static const char *deck_unsound(const deck *d)
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) return 0;
    deck_source source = { .name = "DECK",
                           .text = (const char *)bytes + 1,
                           .length = size - 1,
                           .ranks = 1 << (bytes[0] % 13),
                           .dry_run = bytes[0] & 0x80 };
    deck d = deck_read(&source);
    const char *wrong = deck_unsound(&d);
    if (wrong) fprintf(stderr, "%s\n", wrong);
    if (wrong) abort();
    deck_free(&d);
    return 0;
}
