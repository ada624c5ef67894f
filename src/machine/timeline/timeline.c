/* Discrete events: rates of running operations, begins and ends. */
#include "machine/timeline/timeline.h"
#include "base/memory.h"
#include "machine/timeline/lanes.h"
#include <math.h>
#include <string.h>

/* ---- shares ---- */

/* Returns the rate of the lane's operation while the operations of its rank share resources: 1 if alone. Shares are
 * added as integers, so that the sum does not depend on the order of queues. */
static double local_rate(const actor *a, const lane *l)
{
    const double whole = 0x1p40;
    const price *p = price_of(a, l);
    double slowdown = 1.0;
    for (int r = 0; r < RESOURCES; r++) {
        int64_t demand = 0;
        if (p->uses[r] == 0.0) continue;
        for (int i = 0; i < HAZARD_QUEUES; i++)
            if (a->lane[i].stage == RUNS) demand += (int64_t)(whole * price_of(a, &a->lane[i])->uses[r]);
        slowdown = fmax(slowdown, (double)demand / whole);
    }
    return 1.0 / slowdown;
}

/* Returns the rate of the operation; of a transfer, that of its slowest member. */
static double common_rate(const timeline *t, const actor *a, const lane *l)
{
    const meeting *m = l->meeting;
    double rate = local_rate(a, l);
    for (int i = 0; m && i < m->members; i++) rate = fmin(rate, local_rate(&t->actor[m->rank[i]], m->lane[i]));
    return rate;
}

/* Leaves the planned end exactly as it is if the rate does not change. */
static void set_rate(const timeline *t, lane *l, double rate)
{
    if (rate == l->rate) return;
    l->remaining -= (t->now - l->rate_begin) * l->rate;
    l->rate_begin = t->now, l->rate = rate, l->end = t->now + fmax(l->remaining, 0.0) / rate;
}

/* Sets the rates of this rank's operations, and of its transfers on other ranks. Call it after all ends and begins of
 * this instant: with intermediate rates, the last bit would depend on the order of queues and ranks. */
static void set_rates(timeline *t, actor *a)
{
    a->changed = false;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        lane *l = &a->lane[i];
        if (l->stage != RUNS) continue;
        double rate = common_rate(t, a, l);
        set_rate(t, l, rate);
        for (int k = 0; l->meeting && k < l->meeting->members; k++) set_rate(t, l->meeting->lane[k], rate);
    }
}

/* ---- beginning ---- */

static void begin(timeline *t, actor *a, lane *l)
{
    const price *p = price_of(a, l);
    a->changed = true;
    l->stage = RUNS;
    l->begin = l->rate_begin = t->now;
    l->rate = 1.0;
    l->remaining = p->fixed + p->seconds * l->stretch;
    l->end = t->now + l->remaining;
    memcpy(l->path, t->path, sizeof l->path);
}

/* Gives the transfer to the thread of each rank, which makes its part after the present operation. */
static void hand_to_threads(timeline *t, meeting *m)
{
    for (int i = 0; i < m->members; i++) {
        m->lane[i]->stage = MET;
        m->lane[i]->meeting = NULL;
        t->actor[m->rank[i]].ended = true;
    }
    m->arrived = 0;
}

/* Begins the transfer on all ranks. It takes as long as on the slowest one. */
static void begin_meeting(timeline *t, meeting *m)
{
    double longest = 0.0;
    for (int i = 0; i < m->members; i++) begin(t, &t->actor[m->rank[i]], m->lane[i]);
    for (int i = 0; i < m->members; i++) longest = fmax(longest, m->lane[i]->remaining);
    for (int i = 0; i < m->members; i++) m->lane[i]->remaining = longest, m->lane[i]->end = t->now + longest;
    m->arrived = 0;
}

/* Returns how many times longer the operation takes on the multiprocessors that transfers leave. */
static double stretch_on(const timeline *t, const actor *a, const price *p)
{
    int all = t->options->multiprocessors, free = all - a->held_by_transfers;
    if (all == 0) return 1.0;
    return p->in_waves ? ceil((double)p->blocks / fmax(free, 1)) : (double)all / fmax(free, 1);
}

static void begin_computing(timeline *t, actor *a, lane *l)
{
    const price *p = price_of(a, l);
    int free = t->options->multiprocessors - a->held_by_transfers;
    a->computing = l;
    a->filled_by_product = !p->in_waves ? 0 : p->blocks < free ? p->blocks : free;
    l->stretch = stretch_on(t, a, p);
    begin(t, a, l);
}

/* Takes multiprocessors before the peers arrive, as a spinning kernel does. Returns false if too few are free. */
static bool begin_transfer(timeline *t, actor *a, lane *l)
{
    const price *p = price_of(a, l);
    meeting *m = meeting_of(a, l);
    int all = t->options->multiprocessors;
    if (all && p->blocks > all - a->held_by_transfers - a->filled_by_product) return false;
    a->held_by_transfers += p->blocks;
    l->stretch = 1.0;
    l->meeting = m;
    l->stage = m ? MEETS : MET;
    if (m) m->lane[member_of(m, a->rank)] = l;
    if (m && ++m->arrived == m->members) (p->on_thread ? hand_to_threads : begin_meeting)(t, m);
    if (!m && !p->on_thread) begin(t, a, l);
    return true;
}

static bool goes_before(const actor *a, const lane *l, const lane *other)
{
    const bool *yields = a->input->work->order->yields;
    bool own = yields[l - a->lane], others = yields[other - a->lane];
    return own == others ? head_of(a, l) < head_of(a, other) : others;
}

/* Returns the lane that goes first among the transfers, or the computing lanes, in that stage; NULL: none. */
static lane *first_in(actor *a, lane_stage stage, bool transfers)
{
    lane *first = NULL;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        lane *l = &a->lane[i];
        if (l->stage != stage || is_transfer(a, l) != transfers || l->refused) continue;
        if (!first || goes_before(a, l, first)) first = l;
    }
    return first;
}

static void post_transfers(timeline *t, actor *a)
{
    lane *l;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        a->lane[i].refused = false;
        if (a->lane[i].stage == WAITS && dependencies_complete(a, &a->lane[i])) a->lane[i].stage = READY;
    }
    while ((l = first_in(a, READY, true))) l->refused = !begin_transfer(t, a, l);
}

/* Begins an operation if the rank computes nothing. The thread of a host makes transfers first. */
static void compute(timeline *t, actor *a)
{
    lane *met = first_in(a, MET, true), *l = met ? met : first_in(a, READY, false);
    a->ended = false;
    if (!a->computing && l) begin_computing(t, a, l);
}

/* Begins transfers on all ranks before one computes, because they can give work to the thread of another rank. */
static void begin_ready(timeline *t)
{
    for (int r = 0; r < t->ranks; r++)
        if (t->actor[r].ended) post_transfers(t, &t->actor[r]);
    for (int r = 0; r < t->ranks; r++)
        if (t->actor[r].ended) compute(t, &t->actor[r]);
    for (int r = 0; r < t->ranks; r++)
        if (t->actor[r].changed) set_rates(t, &t->actor[r]);
}

/* ---- ending ---- */

static void add_to_path(lane *l, const price *p, double end)
{
    double fixed = fmin(p->fixed, end - l->begin);
    l->path[p->fixed_term] += fixed;
    l->path[p->term] += end - l->begin - fixed;
    if (p->factor) l->path[p->factor] += end - l->begin - fixed;
}

static void report(timeline *t, actor *a, lane *l)
{
    double exposed =
        is_transfer(a, l) && (!a->computing || a->computing == l) ? t->now - fmax(l->begin, a->accounted_until) : 0.0;
    timeline_event e = { a->rank, head_of(a, l), l->begin, t->now, exposed, l->path };
    if (t->options->ran) t->options->ran(t->options->context, &e);
}

static void end(timeline *t, actor *a, lane *l)
{
    const price *p = price_of(a, l);
    add_to_path(l, p, t->now);
    report(t, a, l);
    if (is_transfer(a, l)) a->held_by_transfers -= p->blocks;
    if (a->computing == l) a->computing = NULL, a->filled_by_product = 0;
    if (!a->computing) a->accounted_until = t->now;
    memcpy(t->path, l->path, sizeof t->path);
    l->position++;
    a->completed[l - a->lane]++;
    l->meeting = NULL;
    l->stage = l->position < l->length ? WAITS : OVER;
}

/* Ends the operation, on all ranks of its meeting. */
static void end_all(timeline *t, actor *a, lane *l)
{
    meeting none = { .members = 1, .rank = { a->rank }, .lane = { l } }, *m = l->meeting ? l->meeting : &none;
    for (int i = 0; i < m->members; i++) end(t, &t->actor[m->rank[i]], m->lane[i]);
    for (int i = 0; i < m->members; i++) t->actor[m->rank[i]].ended = t->actor[m->rank[i]].changed = true;
}

static lane *next_to_end(timeline *t, actor **on)
{
    lane *next = NULL;
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < HAZARD_QUEUES; i++) {
            lane *l = &t->actor[r].lane[i];
            if (l->stage == RUNS && (!next || l->end < next->end)) next = l, *on = &t->actor[r];
        }
    return next;
}

bool timeline_run(const timeline_rank *rank, int ranks, const timeline_options *o, char *why, size_t length)
{
    timeline t;
    actor *a;
    lane *l;
    timeline_open(&t, rank, ranks, o);
    begin_ready(&t);
    while ((l = next_to_end(&t, &a))) {
        for (t.now = l->end; l && l->end == t.now; l = next_to_end(&t, &a)) end_all(&t, a, l);
        begin_ready(&t);
    }
    bool over = timeline_over(&t, why, length);
    timeline_close(&t);
    return over;
}
