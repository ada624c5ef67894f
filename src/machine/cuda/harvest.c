/* Completed operations are looked through in order: when each began and ended, what was exposed, and who is to blame if
 * none completes. Whoever waits polls. */
#include "base/clock.h"
#include "base/fail.h"
#include "machine/cuda/lane.h"
#include "machine/cuda/transfers/fabric.h"
#include "machine/world.h"
#include <math.h>

entry *lane_entry(lane *l, uint64_t serial) { return &l->ring[serial % LANE_OPS]; }
static entry *lane_head(lane *l) { return l->completed < l->submitted ? lane_entry(l, l->completed + 1) : NULL; }

/* As much of the operation as the tally and messages ask for. */
static op remembered(op_kind kind, origin where, struct group *g)
{
    op o = { .kind = kind, .origin = where };
    if (g) o.args.fabric.group = g;
    return o;
}

static bool complete_on_device(lane *l, const entry *x)
{
    double now = clock_seconds();
    cudaError_t code = cudaEventQuery(x->event);
    if (code == cudaErrorNotReady) {
        l->looked = now;
        cudaGetLastError(); /* else the next launch would seem to have failed */
        return false;
    }
    CUDA_CHECK(code);
    return true;
}

/* Is the lane's first operation complete, and all that it waited for looked through? */
static entry *lane_done(cuda_executor *e, lane *l)
{
    entry *x = lane_head(l);
    if (!x || !complete_on_device(l, x)) return NULL;
    for (int i = 0; i < x->waits; i++)
        if (e->lane[x->wait[i].target].completed < x->wait[i].serial) return NULL;
    return x;
}

static double ended(const cuda_executor *e, const dependency *w)
{
    const lane *l = &e->lane[w->target];
    return l->completed < w->serial + e->history ? l->when[w->serial % e->history] : 0.0;
}

/* When an operation could begin. What a computing one waited for a transfer alone is exposed. */
static double began(cuda_executor *e, const lane *l, const entry *x)
{
    double ready = fmax(l->last, x->submitted);
    const dependency *late = NULL;
    for (int i = 0; i < x->waits; i++)
        if (!x->wait[i].transfer) ready = fmax(ready, ended(e, &x->wait[i]));
    double begin = ready;
    for (int i = 0; i < x->waits; i++) {
        if (!x->wait[i].transfer || ended(e, &x->wait[i]) <= begin) continue;
        late = &x->wait[i];
        begin = ended(e, late);
    }
    if (late && !op_is_transfer(x->kind)) {
        op o = remembered(OP_EXCHANGE, x->origin, late->transfer);
        tally_exposed(e->tally, &o, begin - ready);
    }
    return begin;
}

static void complete(cuda_executor *e, lane *l, entry *x)
{
    double end = fmax(l->last, device_clock_time(e->clock, x->event, fmax(x->submitted, l->looked), clock_seconds()));
    double begin = fmin(began(e, l, x), end);
    op o = remembered(x->kind, x->origin, x->group);
    tally_seconds(e->tally, &o, end - begin);
    l->completed++;
    l->last = l->when[l->completed % e->history] = end;
    if (e->spans)
        e->spans[e->span_count++ % e->options.span_capacity] =
            (span){ x->kind, (int)(l - e->lane), x->origin, begin, end };
    world_progress();
}

/* Looks once at every lane. Has anything been completed? */
static bool harvest(cuda_executor *e)
{
    bool any = false;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        lane *l = &e->lane[i];
        for (entry *x = lane_done(e, l); x; x = lane_done(e, l), any = true) complete(e, l, x);
    }
    return any;
}

/* After a look at all lanes in vain: what is not complete ends after all that is. A full lane's last event is in use
 * again. */
static void advance_clock(cuda_executor *e)
{
    lane *latest = NULL;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        lane *l = &e->lane[i];
        bool kept = l->completed > 0 && l->submitted - l->completed < LANE_OPS;
        if (kept && (!latest || l->last > latest->last)) latest = l;
    }
    if (latest) device_clock_advance(e->clock, &lane_entry(latest, latest->completed)->event, latest->last);
}

/* The operation at the end of the chain of waits that starts at the lane's head. */
static const entry *culprit(cuda_executor *e, lane *l)
{
    const entry *x = lane_head(l);
    for (int hops = 0; hops < HAZARD_QUEUES; hops++) {
        const dependency *open = NULL;
        for (int i = 0; i < x->waits && !open; i++)
            if (e->lane[x->wait[i].target].completed < x->wait[i].serial) open = &x->wait[i];
        if (!open) break;
        x = lane_head(&e->lane[open->target]);
    }
    return x;
}

static void stalled(cuda_executor *e, lane *l)
{
    char what[OP_TEXT];
    const entry *x = culprit(e, l);
    op o = remembered(x->kind, x->origin, x->group);
    FAIL_STATUS(STATUS_HANG, "%s: no rank of this node has completed an operation for %.0f s",
                op_describe(&o, what, sizeof what), world_stall_seconds());
}

void harvest_until(cuda_executor *e, lane *l, uint64_t serial)
{
    double begin = clock_seconds();
    if (serial > l->submitted) FAIL("a mark is waited for that was never submitted");
    while (l->completed < serial) {
        if (harvest(e)) continue;
        advance_clock(e);
        if (world_stalled(begin)) stalled(e, l);
        cuda_fabric_poll();
    }
    e->tally->run_seconds += clock_seconds() - begin;
}
