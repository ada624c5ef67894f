/* Ranges over all ranks. */
#include "bench/report/sample_lines.h"
#include "base/say.h"
#include "base/text.h"
#include <math.h>
#include <string.h>

/* Over the ranks and the two looks at their devices. */
void say_clocks(const case_result *r)
{
    double low = INFINITY, high = 0.0, least = INFINITY, most = 0.0;
    for (int i = 0; r->seen.devices && i < 2 * r->given->layout.ranks; i++) {
        const machine_device *d = &r->seen.devices[i];
        low = fmin(low, d->clock_hertz), high = fmax(high, d->clock_hertz);
        least = fmin(least, d->power_watts), most = fmax(most, d->power_watts);
    }
    if (high <= 0.0) return;
    say("Clocks     %.0f to %.0f MHz, %.0f to %.0f W, at the window's ends; ", low / 1e6, high / 1e6, least, most);
    const machine_device *last = &r->seen.devices[1];
    if (!last->clocks_known) say("not known whether rank 0 was held back\n");
    else if (last->throttled) say("rank 0 was held back: %s\n", last->throttle_reasons);
    else
        say("rank 0 was not held back%s%s\n", last->throttle_reasons[0] ? "; its clocks' reasons: " : "",
            last->throttle_reasons);
}

/* " 1.2 to 3.1", of what is told, or nothing. */
static void say_range(const case_result *r, size_t offset, double unit, const char *before, const char *after)
{
    double least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < r->seen.samples.count; i++) {
        double x;
        memcpy(&x, (const char *)&r->seen.samples.list[i].now + offset, sizeof x);
        least = fmin(least, x / unit), most = fmax(most, x / unit);
    }
    if (least <= most) say("%s %.3g to %.3g%s", before, least, most, after);
}

/* Within the window, all ranks'. */
void say_samples(const case_result *r)
{
    const sample_set *s = &r->seen.samples;
    int ranks = r->given->layout.ranks;
    if (!s->count) return;
    say("Samples    %lld of %d rank%s, each every %g s", (long long)s->count, ranks, plural(ranks), s->every);
    say_range(r, offsetof(machine_sample, clock_hertz), 1e9, "; devices", " GHz");
    say_range(r, offsetof(machine_sample, temperature), 1.0, ",", " degrees Celsius");
    say_range(r, offsetof(machine_sample, power_watts), 1.0, ",", " W");
    say_range(r, offsetof(machine_sample, core_hertz), 1e9, "; cores", " GHz");
    say_range(r, offsetof(machine_sample, load), 1.0, "; load", "");
    if (!isnan(s->others_cores))
        say("; others used %.1f of %d core%s", s->others_cores, s->node_cores, plural(s->node_cores));
    if (!isnan(s->joules))
        say("; energy %.4g J, %.4g J a token (%s)", s->joules, r->figures.joules_per_token, s->method);
    say("\n");
}
