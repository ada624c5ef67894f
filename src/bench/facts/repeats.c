/* Repeats of a case follow one another in a deck. */
#include "bench/facts/repeats.h"
#include <math.h>

static void insert(repeat_means *m, double seconds)
{
    int at = m->count++;
    for (; at > 0 && m->seconds[at - 1] > seconds; at--) m->seconds[at] = m->seconds[at - 1];
    m->seconds[at] = seconds;
}

void repeats_add(repeat_means *m, case_result *r)
{
    int first = r->given->number - r->given->repeat + 1;
    if (m->first != first) *m = (repeat_means){ .first = first };
    if (r->given->repeats < 2 || isnan(r->figures.mean_seconds)) return;
    insert(m, r->figures.mean_seconds);
    if (r->given->repeat < r->given->repeats) return;
    double least = m->seconds[0], most = m->seconds[m->count - 1];
    r->figures.repeated =
        (repeated_seconds){ .count = m->count,
                            .median = 0.5 * (m->seconds[(m->count - 1) / 2] + m->seconds[m->count / 2]),
                            .minimum = least,
                            .maximum = most,
                            .spread = most / least - 1.0 };
}
