/* Expected and measured phases and axes. */
#include "bench/project/expected_lines.h"
#include "base/say.h"
#include <math.h>
#include <stdio.h>

/* Seconds of a step of rank 0. */
typedef struct {
    const char *before, *name, *after;
    double expected, measured;
} compared;
enum { COMPARED = PHASES + TALLY_AXES };

/* Lists the phases and axes that take time in the projection or in the run. Returns their number. */
static int compare(const case_result *r, compared list[COMPARED])
{
    const facts *f = &r->seen;
    double steps = (double)(f->completed - r->given->warmup);
    int n = 0;
    for (int i = 0; i < PHASES; i++)
        list[n++] = (compared){ "", phase_name((phase)i), "", f->expected.phase[i], f->tally.phase_seconds[i] };
    for (int i = 0; i < f->tally.axes; i++)
        list[n++] = (compared){ "exposed ", f->tally.axis[i].axis, " transfers", f->expected.exposed[i],
                                f->tally.axis[i].exposed_seconds };
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].expected == 0.0 && list[i].measured == 0.0) continue;
        list[kept] = list[i];
        list[kept].expected /= steps, list[kept++].measured /= steps;
    }
    return kept;
}

static bool is_expected(const case_result *r)
{
    return r->seen.expected.seconds > 0.0 && r->seen.completed > r->given->warmup;
}

const char *largest_difference(const case_result *r, char text[DIFFERENCE_TEXT])
{
    compared list[COMPARED], *most = list;
    text[0] = 0;
    if (!is_expected(r)) return text;
    if (r->figures.mean_seconds >= r->seen.expected.least && r->figures.mean_seconds <= r->seen.expected.most)
        return text;
    int n = compare(r, list);
    for (int i = 1; i < n; i++)
        if (fabs(list[i].measured - list[i].expected) > fabs(most->measured - most->expected)) most = &list[i];
    if (n && most->expected > 0.0)
        snprintf(text, DIFFERENCE_TEXT, "%s%s%s: %.2f times the time of the sheet", most->before, most->name,
                 most->after, most->measured / most->expected);
    else if (n)
        snprintf(text, DIFFERENCE_TEXT, "%s%s%s take %.3g s a step, and the sheet expects no time", most->before,
                 most->name, most->after, most->measured);
    return text;
}

void say_expected_steps(const case_result *r)
{
    const expected_steps *e = &r->seen.expected;
    compared list[COMPARED];
    if (e->why[0]) say("Sheet      %s gives no expectation: %s\n", r->given->sheet, e->why);
    if (!is_expected(r)) return;
    say("Sheet      %s expects %.4f s a step, from %.4f to %.4f; measured %.4f s\n", r->given->sheet, e->seconds,
        e->least, e->most, r->figures.mean_seconds);
    int n = compare(r, list);
    for (int i = 0; i < n; i++)
        say("%s%s%s %.2f ms (measured %.2f ms)%s", i ? "" : "           ", list[i].before, list[i].name,
            1e3 * list[i].expected, 1e3 * list[i].measured, i + 1 < n ? ", " : "\n");
}
