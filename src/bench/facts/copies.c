/* Copies of a case: which differ, and their names. */
#include "bench/facts/copies.h"
#include "base/text.h"
#include "bench/check/check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *copy_text(const case_result *r, int copy, char text[COPY_TEXT])
{
    const mesh_layout *l = &r->given->layout;
    const rank_work *first = &r->seen.ranks.work[copy * l->ranks], *last = first + l->ranks - 1;
    bool apart = strcmp(first->host, last->host) != 0;
    snprintf(text, COPY_TEXT, "copy %d (ranks %d to %d, on %.32s%s%.32s)", copy, copy * l->ranks,
             (copy + 1) * l->ranks - 1, first->host, apart ? " to " : "", apart ? last->host : "");
    return text;
}

static bool repeats_bits(const bench_case *c) { return c->backend == BACKEND_HOST || c->deterministic; }

static bool are_alike(const bench_case *c, int64_t step, const double *a, const double *b)
{
    if (repeats_bits(c)) return memcmp(a, b, sizeof *a) == 0;
    check_limits limits = check_limits_of(c, false);
    return fabs(*a / *b - 1.0) <= (step ? limits.loss_later : limits.loss_first);
}

/* Returns whether the copy differs from copy 0. Writes the first difference: "loss 6.2 in step 3, 6.1 in copy 0". */
static bool copy_differs(const case_result *r, int copy, char what[REASON_LENGTH])
{
    const copy_facts *f = &r->seen.copies;
    const int copies = r->given->layout.copies;
    for (int64_t step = 0; step < r->seen.completed; step++) {
        const double *loss = f->loss + step * copies, *norm = f->gradient_norm + step * copies;
        bool norms_differ = repeats_bits(r->given) && memcmp(&norm[copy], &norm[0], sizeof *norm) != 0;
        if (are_alike(r->given, step, &loss[copy], &loss[0]) && !norms_differ) continue;
        snprintf(what, REASON_LENGTH, "loss %.9g and norm %.9g in step %lld, in copy 0 %.9g and %.9g", loss[copy],
                 norm[copy], (long long)step, loss[0], norm[0]);
        return true;
    }
    snprintf(what, REASON_LENGTH, "other weights at the end than in copy 0");
    return repeats_bits(r->given) && !r->seen.stopped && strcmp(f->weights[copy].text, f->weights[0].text) != 0;
}

void copies_compare(const case_result *r, reasons *to)
{
    char what[REASON_LENGTH], first_what[REASON_LENGTH], name[COPY_TEXT];
    int copies = r->given->layout.copies, differing = 0, first = 0;
    for (int i = 1; i < copies && r->seen.copies.loss; i++)
        if (copy_differs(r, i, what) && differing++ == 0) first = i, memcpy(first_what, what, sizeof what);
    int odd = 2 * differing > copies ? 0 : first, rank = copies > 2 ? odd * r->given->layout.ranks : -1;
    if (differing)
        reasons_add(to, "copies", rank, "copies differ: %d of %d from copy 0, first %s: %.140s", differing, copies - 1,
                    copy_text(r, first, name), first_what);
}

void copies_name(const case_result *r, reasons *in)
{
    for (int i = 0; i < in->count && r->given->layout.copies > 1; i++) {
        char sentence[REASON_LENGTH];
        case_reason *reason = &in->list[i];
        if (reason->rank < 0) continue;
        memcpy(sentence, reason->sentence, sizeof sentence);
        snprintf(reason->sentence, sizeof reason->sentence, "copy %d: %.230s", reason->rank / r->given->layout.ranks,
                 sentence);
    }
}
