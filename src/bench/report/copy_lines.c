/* Lines of copies and power. */
#include "bench/report/copy_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/facts/copies.h"
#include <math.h>

void say_copies(const bench_case *c)
{
    int copies = c->layout.copies, ranks = c->layout.ranks;
    if (copies == 1) return;
    say("Copies     %d at the same time, each of %d rank%s: copy = rank / %d", copies, ranks, plural(ranks), ranks);
    if (c->ranks < c->world_ranks) say("; ranks %d to %d stay idle", c->ranks, c->world_ranks - 1);
    say("; step lines are copy 0's\n");
}

void say_slowest_copy(const case_result *r)
{
    char name[COPY_TEXT];
    const figures *g = &r->figures;
    int copies = r->given->layout.copies, fastest = 0;
    if (copies == 1) return;
    for (int i = 1; i < copies; i++)
        if (g->copy_seconds[i] < g->copy_seconds[fastest]) fastest = i;
    say("Copies     the slowest of %d is %s: mean step %.4f s; the fastest, copy %d, %.4f s\n", copies,
        copy_text(r, g->slowest_copy, name), g->copy_seconds[g->slowest_copy], fastest, g->copy_seconds[fastest]);
}

void say_power(const case_result *r)
{
    const sample_set *s = &r->seen.samples;
    if (isnan(s->joules)) return;
    say("Power      ");
    if (!isnan(s->watts)) say("%.1f W a GPU on average, ", s->watts);
    say("%.4g J a step, %.4g J a token; from %s, which are no calibrated meter\n", r->figures.joules_per_step,
        r->figures.joules_per_token, s->method);
}
