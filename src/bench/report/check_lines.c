/* Residuals, and what differs. */
#include "bench/report/check_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/check.h"

void say_check(const case_result *r, int which)
{
    const check_result *k = &r->check[which];
    const char *when = which ? "after" : "before";
    if (!k->done) return;
    say("Check %-7s residual %8.4g %s %d   loss %.4g  gradient %.4g, %.4g  weights %.4g   %.2f s\n", when, k->residual,
        k->passed ? "<" : ">=", CHECK_THRESHOLD, k->loss, k->gradient_first, k->gradient_fourth, k->weights,
        k->seconds);
    if (r->given->precision == PRECISION_FP8)
        say("Check %-7s FP8      along the gradients %.4g  scales %.4g, %lld other than the reference's own\n", when,
            k->along, k->scales, (long long)k->scale_flips);
    if (r->given->model.experts)
        say("Check %-7s experts  %8.4g %s %d   %lld choice%s from a reference's, their logits by %.3g at most\n", when,
            k->routing, k->routing < CHECK_THRESHOLD ? "<" : ">=", CHECK_THRESHOLD, (long long)k->flips,
            k->flips == 1 ? " differs" : "s differ", k->margin);
    if (!k->passed) say("Check %-7s FAILED: %s\n", when, k->worst);
}

void say_kernels(const shadow_report *s)
{
    if (s->operations == 0) return;
    say("Kernels    %lld operation%s beside the host's, %lld element%s; largest difference %.3g of what is allowed, "
        "%s\n",
        (long long)s->operations, plural(s->operations), (long long)s->elements, plural(s->elements), s->worst,
        s->worst_operation);
    if (s->left_out)
        say("Kernels    %lld operation%s too large to compare\n", (long long)s->left_out,
            s->left_out == 1 ? " was" : "s were");
    if (s->file[0]) say("Kernels    FAILED: to run the first mismatch again: ./xgsw --replay %s\n", s->file);
    if (s->unwritten[0]) say("Kernels    FAILED: the first mismatch could not be written: %s\n", s->unwritten);
}

void say_conservation(const conservation *c)
{
    if (c->comparisons)
        say("Sums       %lld total%s of gradients before and after a sum over ranks; largest difference %.3g of what "
            "is "
            "allowed\n",
            (long long)c->comparisons, plural(c->comparisons), c->worst);
    if (c->replicas)
        say("Weights    %lld cop%s compared with the first rank's after the last step; %lld differ%s\n",
            (long long)c->replicas, c->replicas == 1 ? "y" : "ies", (long long)c->unequal, c->unequal == 1 ? "s" : "");
}
