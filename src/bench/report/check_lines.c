/* Lines of residuals and differences. */
#include "bench/report/check_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/check/check.h"
#include <math.h>

void say_check(const check_result *k)
{
    say("Check      residual %.4g, limit %d: a small model in this layout, trained 4 steps, against references\n",
        k->residual, CHECK_THRESHOLD);
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

/* Returns the largest ratio of a difference to its limit. */
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
    say("Replay     %lld matrix product%s, %lld transfer%s, %lld operation%s compared; at most %.1f %% of the limit\n",
        (long long)s->products, plural(s->products), (long long)d->transfers, plural(d->transfers), operations,
        plural(operations), 100.0 * largest_difference(r));
    if (!(s->worst_comparison <= 1.0)) say("Replay     FAILED: %s\n", s->worst_product);
    if (d->differing) say("Replay     FAILED: %s\n", d->sentence);
    say_mismatch(s, "Replay");
    say_mismatch(k, "Kernels");
}
