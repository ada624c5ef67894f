/* Residuals, and what differs. */
#include "bench/report/check_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/check/check.h"
#include <math.h>

void say_check(const check_result *k)
{
    say("Check      residual %.4g, limit %d: a check model of this layout trained 4 steps, against references\n",
        k->residual, CHECK_THRESHOLD);
    if (!(k->residual < CHECK_THRESHOLD)) say("Check      FAILED: %s\n", k->worst);
    if (k->differing) say("Check      FAILED: %s\n", k->difference);
}

void say_check_details(const case_result *r)
{
    const check_result *k = &r->seen.check;
    say("Check      loss %.4g  gradient %.4g, %.4g  weights %.4g   %.2f s\n", k->loss, k->gradient_first,
        k->gradient_fourth, k->weights, k->seconds);
    if (r->given->precision == PRECISION_FP8)
        say("Check      along the gradients %.4g  scales %.4g, %lld scale%s from the reference\n", k->along, k->scales,
            (long long)k->scale_flips, k->scale_flips == 1 ? " differs" : "s differ");
    if (r->given->model.experts)
        say("Check      experts %.4g; %lld choice%s from a reference's, their logits by %.3g at most\n", k->routing,
            (long long)k->flips, k->flips == 1 ? " differs" : "s differ", k->margin);
    if (k->transfers || k->differing)
        say("Check      %lld transfer%s proven, %lld difference%s\n", (long long)k->transfers, plural(k->transfers),
            (long long)k->differing, plural(k->differing));
}

static void say_mismatch(const shadow_report *s, const char *what)
{
    if (s->left_out)
        say("%-10s %lld operation%s too large to compare, the first: %s\n", what, (long long)s->left_out,
            s->left_out == 1 ? " was" : "s were", s->first_left_out);
    if (s->file[0]) say("%-10s FAILED: to run the first mismatch again: ./xgsw --replay %s\n", what, s->file);
    if (s->unwritten[0]) say("%-10s FAILED: the first mismatch could not be written: %s\n", what, s->unwritten);
}

/* Returns the largest of all differences, each as a part of what is allowed. */
static double largest_difference(const case_result *r)
{
    double replayed = fmax(r->seen.machine.replay.worst, r->seen.machine.replay.worst_comparison);
    return fmax(fmax(replayed, r->seen.machine.shadow.worst), r->seen.conserved.worst);
}

void say_replay(const case_result *r)
{
    const shadow_report *s = &r->seen.machine.replay, *k = &r->seen.machine.shadow;
    const delivery_report *d = &r->seen.replay_delivery;
    long long operations = k->operations + s->operations;
    if (operations + s->products + d->transfers == 0) return;
    say("Replay     %lld matrix product%s, %lld transfer%s, %lld operation%s repeated; at most %.3g %% of the limit\n",
        (long long)s->products, plural(s->products), (long long)d->transfers, plural(d->transfers), operations,
        plural(operations), 100.0 * largest_difference(r));
    if (!(s->worst_comparison <= 1.0)) say("Replay     FAILED: %s\n", s->worst_product);
    if (d->differing) say("Replay     FAILED: %s\n", d->sentence);
    say_mismatch(s, "Replay");
    say_mismatch(k, "Kernels");
}

static void say_shadow(const char *name, const shadow_report *s)
{
    if (s->operations)
        say("%-10s %lld operation%s compared with the host's, %lld element%s; largest difference %.3g of its limit, "
            "%s\n",
            name, (long long)s->operations, plural(s->operations), (long long)s->elements, plural(s->elements),
            s->worst, s->worst_operation);
}

void say_replay_details(const case_result *r)
{
    const conservation *c = &r->seen.conserved;
    say_shadow("Kernels", &r->seen.machine.shadow);
    say_shadow("Replay", &r->seen.machine.replay);
    if (r->seen.machine.replay.products)
        say("Replay     largest difference of a matrix product %.3g of its limit   %.2f s\n",
            r->seen.machine.replay.worst_comparison, r->seen.replay_seconds);
    if (c->comparisons)
        say("Sums       %lld total%s of gradients before and after a sum over ranks; largest difference %.3g of its "
            "limit\n",
            (long long)c->comparisons, plural(c->comparisons), c->worst);
    if (c->replicas)
        say("Weights    %lld cop%s compared with the first rank's after the last step; %lld differ%s\n",
            (long long)c->replicas, c->replicas == 1 ? "y" : "ies", (long long)c->unequal, c->unequal == 1 ? "s" : "");
}
