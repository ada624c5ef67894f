/* Room is address space: what no step reaches is never touched. */
#include "bench/soak.h"
#include "base/clock.h"
#include "bench/stop.h"
#include <math.h>

/* ROOM: the warm-up's steps may be so many times slower than the others, as on a machine that was busy then. */
enum { ROOM = 4, STEPS_MOST = 1 << 24 };

bool soak_begin(case_result *r)
{
    const bench_case *c = r->given;
    double fastest = INFINITY, seconds = 60.0 * c->minutes;
    if (c->minutes == 0.0) return false;
    for (int64_t i = 0; i < c->warmup; i++) fastest = fmin(fastest, r->step_seconds[i]);
    double more = fmin(ceil(ROOM * seconds / fastest), STEPS_MOST);
    r->soaks_until = clock_seconds() + seconds;
    result_resize(r, c->warmup + c->steps + (int64_t)more);
    return true;
}

bool soak_widen(case_result *r, int64_t step)
{
    bool is_full = r->given->minutes > 0.0 && step >= r->given->warmup && step + 3 >= r->total;
    if (!is_full || r->total >= STEPS_MOST) return false;
    result_resize(r, r->total < STEPS_MOST / 2 ? 2 * r->total : STEPS_MOST);
    return true;
}

int soak_reason(const case_result *r, int64_t step)
{
    const bench_case *c = r->given;
    bool is_done = step + 2 >= c->warmup + c->steps && clock_seconds() >= r->soaks_until;
    return c->minutes > 0.0 && step >= c->warmup && (is_done || step + 2 >= r->total) ? STOP_SOAKED : 0;
}

void soak_end(case_result *r)
{
    if (r->given->minutes > 0.0) result_resize(r, r->completed);
}
