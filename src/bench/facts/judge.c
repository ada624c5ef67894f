/* The verdict. */
#include "bench/facts/judge.h"
#include "base/text.h"
#include "bench/check/check.h"
#include "bench/facts/repeats.h"
#include "bench/facts/rules.h"
#include "bench/run/stop.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void judge_numbers(case_result *r)
{
    int64_t total = r->total;
    if (r->completed < total && !r->stopped)
        result_fail(r, "only %lld of %lld step%s ran", (long long)r->completed, (long long)total, plural(total));
    for (int64_t i = 0; i < r->completed; i++) {
        bool outgrown = isfinite(r->loss[i]) && isinf(r->gradient_norm[i]);
        if (isfinite(r->loss[i]) && isfinite(r->gradient_norm[i])) continue;
        result_fail(r,
                    outgrown ? "the gradient norm of step %lld is above 1.6e7 (2^24), beyond the exact sum"
                             : "loss or gradient norm of step %lld is not finite",
                    (long long)i);
        return;
    }
}

static void judge_check(case_result *r, const check_result *c)
{
    if (!c->done) return;
    if (!(c->residual < CHECK_THRESHOLD))
        result_fail(r, "check: residual %.3g, limit %d: %s", c->residual, CHECK_THRESHOLD, c->worst);
    if (c->differing)
        result_fail(r, "check: %lld difference%s; the first: %s", (long long)c->differing, plural(c->differing),
                    c->difference);
}

static void judge_shadow(case_result *r, const shadow_report *s, const char *when)
{
    if (s->failed)
        result_fail(r, "%s: %lld operation%s from the host's; the first: %.300s", when, (long long)s->failed,
                    s->failed == 1 ? " differs" : "s differ", s->sentence);
    if (!(s->worst_comparison <= 1.0))
        result_fail(r, "%s: the matrix product %s is wrong: a sum of its columns is off by %.3g times what is allowed",
                    when, s->worst_product, s->worst_comparison);
}

/* A fault that the check does not see is harmless only if the timed steps suffer the same. */
static void judge_struck(case_result *r, const check_result *c)
{
    if (!c->done || !r->faults) return;
    if (c->faults == 0)
        result_fail(r, "the planted fault never struck in the check: its model has fewer such operations");
    else if (strcmp(c->struck, r->struck) != 0)
        result_fail(r,
                    "the planted fault struck %s in the check, but %s in the timed steps: the check says nothing of it",
                    c->struck, r->struck[0] ? r->struck : "nothing");
}

static void judge_fault(case_result *r)
{
    if (r->given->fault.kind == FAULT_NONE || r->stopped) return;
    if (r->faults == 0) result_fail(r, "the planted fault never struck");
    if (r->given->check == CHECK_OFF) result_fail(r, "a fault is planted and the check that would see it is off");
    judge_struck(r, &r->check);
}

static void judge_conservation(case_result *r)
{
    const conservation *c = &r->conserved;
    if (c->failed)
        result_fail(r, "%lld of %lld totals of gradients changed: %s", (long long)c->failed, (long long)c->comparisons,
                    c->sentence);
    if (c->unequal)
        result_fail(r, "%lld cop%s of weights differ%s: %s", (long long)c->unequal, c->unequal == 1 ? "y" : "ies",
                    c->unequal == 1 ? "s" : "", c->unequal_sentence);
}

void judge_case(case_result *r)
{
    judge_numbers(r);
    judge_check(r, &r->check);
    if (r->hazards) result_fail(r, "%lld hazard%s: %s", (long long)r->hazards, plural(r->hazards), r->hazard);
    judge_shadow(r, &r->shadow, "check");
    judge_shadow(r, &r->replay, "replay");
    if (r->replay_delivery.differing) result_fail(r, "replay: %s", r->replay_delivery.sentence);
    judge_conservation(r);
    judge_fault(r);
    snprintf(r->stopped_by, sizeof r->stopped_by, "%s", stop_words(r->stopped));
    rules_apply(r);
    r->passed = r->fail_reasons == 0 && !r->stopped;
    r->verdict = r->fail_reasons ? VERDICT_FAILED : r->stopped ? VERDICT_INTERRUPTED : VERDICT_PASSED;
    r->valid = r->invalid_reasons == 0;
    rules_compare(r);
}
