/* Residuals, and what differs. */
#include "bench/report/check_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/check.h"

void say_check(const case_result *r)
{
    const check_result *k = &r->check;
    if (!k->done) return;
    say("Check      residual %8.4g %s %d   loss %.4g  gradient %.4g, %.4g  weights %.4g   %.2f s\n", k->residual,
        k->residual < CHECK_THRESHOLD ? "<" : ">=", CHECK_THRESHOLD, k->loss, k->gradient_first, k->gradient_fourth,
        k->weights, k->seconds);
    if (r->given->precision == PRECISION_FP8)
        say("Check      FP8      along the gradients %.4g  scales %.4g, %lld scale%s from the reference\n", k->along,
            k->scales, (long long)k->scale_flips, k->scale_flips == 1 ? " differs" : "s differ");
    if (r->given->model.experts)
        say("Check      experts  %8.4g %s %d   %lld choice%s from a reference's, their logits by %.3g at most\n",
            k->routing, k->routing < CHECK_THRESHOLD ? "<" : ">=", CHECK_THRESHOLD, (long long)k->flips,
            k->flips == 1 ? " differs" : "s differ", k->margin);
    if (k->transfers || k->differing)
        say("Check      %lld transfer%s proven, %lld difference%s\n", (long long)k->transfers, plural(k->transfers),
            (long long)k->differing, plural(k->differing));
    if (!(k->residual < CHECK_THRESHOLD)) say("Check      FAILED: %s\n", k->worst);
    if (k->differing) say("Check      FAILED: %s\n", k->difference);
}

static void say_mismatch(const shadow_report *s, const char *what)
{
    if (s->left_out)
        say("%-10s %lld operation%s too large to compare, the first: %s\n", what, (long long)s->left_out,
            s->left_out == 1 ? " was" : "s were", s->first_left_out);
    if (s->file[0]) say("%-10s FAILED: to run the first mismatch again: ./xgsw --replay %s\n", what, s->file);
    if (s->unwritten[0]) say("%-10s FAILED: the first mismatch could not be written: %s\n", what, s->unwritten);
}

void say_replay(const case_result *r)
{
    const shadow_report *s = &r->replay;
    const delivery_report *d = &r->replay_delivery;
    if (s->operations + s->products + d->transfers == 0) return;
    say("Replay     %lld matrix product%s and %lld transfer%s checked, %lld operation%s compared with the host's; "
        "largest differences %.3g and %.3g of what is allowed   %.2f s\n",
        (long long)s->products, plural(s->products), (long long)d->transfers, plural(d->transfers),
        (long long)s->operations, plural(s->operations), s->worst_comparison, s->worst, r->replay_seconds);
    if (!(s->worst_comparison <= 1.0)) say("Replay     FAILED: %s\n", s->worst_product);
    if (d->differing) say("Replay     FAILED: %s\n", d->sentence);
    say_mismatch(s, "Replay");
}

void say_kernels(const shadow_report *s)
{
    if (s->operations == 0) return;
    say("Kernels    %lld operation%s compared with the host's, %lld element%s; "
        "largest difference %.3g of what is allowed, %s\n",
        (long long)s->operations, plural(s->operations), (long long)s->elements, plural(s->elements), s->worst,
        s->worst_operation);
    say_mismatch(s, "Kernels");
}

void say_conservation(const conservation *c)
{
    if (c->comparisons)
        say("Sums       %lld total%s of gradients before and after a sum over ranks; "
            "largest difference %.3g of what is allowed\n",
            (long long)c->comparisons, plural(c->comparisons), c->worst);
    if (c->replicas)
        say("Weights    %lld cop%s compared with the first rank's after the last step; %lld differ%s\n",
            (long long)c->replicas, c->replicas == 1 ? "y" : "ies", (long long)c->unequal, c->unequal == 1 ? "s" : "");
}
