/* The verdict. */
#include "bench/facts/judge.h"
#include "base/text.h"
#include "bench/check/check.h"
#include "bench/facts/rules.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void judge_numbers(const case_result *r, reasons *to)
{
    int64_t total = r->seen.total;
    if (r->seen.completed < total && !r->seen.stopped)
        reasons_add(to, "steps", -1, "only %lld of %lld step%s ran", (long long)r->seen.completed, (long long)total,
                    plural(total));
    for (int64_t i = 0; i < r->seen.completed; i++) {
        bool overflowed = isfinite(r->seen.loss[i]) && isinf(r->seen.gradient_norm[i]);
        if (isfinite(r->seen.loss[i]) && isfinite(r->seen.gradient_norm[i])) continue;
        reasons_add(to, "numbers", -1,
                    overflowed ? "the gradient norm of step %lld is above 1.6e7 (2^24), the exact sum's limit"
                               : "loss or gradient norm of step %lld is not finite",
                    (long long)(r->seen.checkpoint.loaded_step + i));
        return;
    }
}

static void judge_check(const check_result *c, reasons *to)
{
    if (!c->done) return;
    if (!(c->residual < CHECK_THRESHOLD))
        reasons_add(to, "residual", c->worst_rank, "check: residual %.3g, limit %d: %s", c->residual, CHECK_THRESHOLD,
                    c->worst);
    if (c->differing)
        reasons_add(to, "differences", c->difference_rank, "check: %lld difference%s; the first: %s",
                    (long long)c->differing, plural(c->differing), c->difference);
}

static void judge_shadow(const shadow_report *s, const char *when, reasons *to)
{
    if (s->failed)
        reasons_add(to, "shadow", s->rank, "%s: %lld operation%s from the host's; the first: %.300s", when,
                    (long long)s->failed, s->failed == 1 ? " differs" : "s differ", s->sentence);
    if (!(s->worst_comparison <= 1.0))
        reasons_add(to, "product", s->product_rank,
                    "%s: the matrix product %s is wrong: a sum of its columns is off by %.3g times what is allowed",
                    when, s->worst_product, s->worst_comparison);
}

/* The check proves that it detects the fault only if the fault struck the same operation in check and timed steps. */
static void judge_struck(const facts *f, reasons *to)
{
    const check_result *c = &f->check;
    if (!c->done || !f->machine.faults) return;
    if (c->faults == 0)
        reasons_add(to, "fault", -1,
                    "the planted fault never struck in the check, which has fewer such operations: lower NTH, or "
                    "choose another operation");
    else if (strcmp(c->struck, f->struck) != 0)
        reasons_add(to, "fault", -1,
                    "the planted fault struck %s in the check, but %s in the timed steps: the check says nothing of it",
                    c->struck, f->struck[0] ? f->struck : "nothing");
}

static void judge_fault(const case_result *r, reasons *to)
{
    if (r->given->fault.kind == FAULT_NONE || r->seen.stopped) return;
    if (r->seen.machine.faults == 0) reasons_add(to, "fault", -1, "the planted fault never struck");
    if (r->given->check == CHECK_OFF)
        reasons_add(to, "fault", -1, "a fault is planted and the check that would see it is off");
    judge_struck(&r->seen, to);
}

static void judge_conservation(const conservation *c, reasons *to)
{
    if (c->failed)
        reasons_add(to, "conservation", c->rank, "%lld of %lld totals of gradients changed: %s", (long long)c->failed,
                    (long long)c->comparisons, c->sentence);
    if (c->unequal)
        reasons_add(to, "replicas", c->unequal_rank, "%lld cop%s of weights differ%s: %s", (long long)c->unequal,
                    c->unequal == 1 ? "y" : "ies", c->unequal == 1 ? "s" : "", c->unequal_sentence);
}

/* Returns the first step in which a copy is not like copy 0, the number of steps if only its weights differ in the end,
 * or -1. Runs that repeat have equal bits; in others, losses differ at most as in the check. */
static int64_t differing_step(const case_result *r, int copy)
{
    const bench_case *c = r->given;
    const copy_facts *f = &r->seen.copies;
    bool repeats = c->backend == BACKEND_HOST || c->deterministic;
    check_limits limits = check_limits_of(c, false);
    for (int64_t step = 0; step < r->seen.completed; step++) {
        const double *loss = f->loss + step * c->layout.copies, *norm = f->gradient_norm + step * c->layout.copies;
        bool same = repeats ? !memcmp(loss, loss + copy, sizeof *loss) && !memcmp(norm, norm + copy, sizeof *norm)
                            : fabs(loss[copy] / loss[0] - 1.0) <= (step ? limits.loss_later : limits.loss_first);
        if (!same) return step;
    }
    bool weights_differ = strcmp(f->weights[copy].text, f->weights[0].text) != 0;
    return repeats && weights_differ && !r->seen.stopped ? r->seen.completed : -1;
}

/* Two copies that differ are both named; of more, the one that is not like most of them. */
static void judge_copies(const case_result *r, reasons *to)
{
    char name[COPY_TEXT];
    int copies = r->given->layout.copies, differing = 0, first = 0;
    for (int i = copies - 1; i > 0 && r->seen.copies.loss; i--)
        if (differing_step(r, i) >= 0) differing++, first = i;
    int odd = 2 * differing > copies ? 0 : first;
    if (differing)
        reasons_add(to, "copies", copies > 2 ? odd * r->given->layout.ranks : -1,
                    "%s differs from %s from step %lld on%s", copy_text(r, odd, name), odd ? "copy 0" : "most copies",
                    (long long)differing_step(r, first), odd && differing > 1 ? "; others do, too" : "");
}

/* Puts the number of the copy before each sentence that concerns a rank. */
static void name_copies(const case_result *r, reasons *in)
{
    for (case_reason *x = in->list; x < in->list + in->count && r->given->layout.copies > 1; x++) {
        const case_reason old = *x;
        if (x->rank >= 0)
            snprintf(x->sentence, REASON_LENGTH, "copy %d: %.230s", x->rank / r->given->layout.ranks, old.sentence);
    }
}

void judge_case(case_result *r)
{
    const facts *f = &r->seen;
    ruling *of = &r->ruling;
    reasons *to = &of->fails;
    judge_numbers(r, to);
    judge_check(&f->check, to);
    if (f->machine.hazards)
        reasons_add(to, "hazards", f->machine.hazard_rank, "%lld hazard%s: %s", (long long)f->machine.hazards,
                    plural(f->machine.hazards), f->machine.hazard);
    judge_shadow(&f->machine.shadow, "check", to);
    judge_shadow(&f->machine.replay, "replay", to);
    if (f->replay_delivery.differing)
        reasons_add(to, "transfers", f->replay_delivery.rank, "replay: %s", f->replay_delivery.sentence);
    judge_conservation(&f->conserved, to);
    judge_fault(r, to);
    name_copies(r, to);
    judge_copies(r, to);
    rules_apply(r, &of->invalids);
    of->passed = to->count == 0 && !f->stopped;
    of->verdict = to->count ? VERDICT_FAILED : f->stopped ? VERDICT_INTERRUPTED : VERDICT_PASSED;
    of->valid = of->invalids.count == 0;
    rules_compare(r);
}
