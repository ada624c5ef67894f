/* One rank of each stage of a case on the timeline. */
#include "bench/project/project.h"
#include "base/memory.h"
#include "base/say.h"
#include "bench/launch/case_machine.h"
#include "bench/paper/memory.h"
#include "bench/project/price.h"
#include "bench/project/trace.h"
#include "machine/timeline/timeline.h"
#include "train/measure.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 2 };
_Static_assert((int)TERMS <= (int)TIMELINE_TERMS, "a chain has every term");

/* Results of one stage. finished: end of the optimizer in each step; path: seconds of each term on the way to it. */
typedef struct {
    tally tally;
    double finished[STEPS], path[STEPS][TERMS];
    double estimated;
    const preparation *work;
    const price *price;
    FILE *trace;
    int number; /* of the case */
} stage_times;

static bool updates_weights(const preparation *work, const submitted *s)
{
    int note = work->order->item[s->item].note;
    return note >= 0 && work->note[note].op.kind == OP_ADAMW && s->step >= 0;
}

static void add_seconds(stage_times *t, const timeline_event *e)
{
    const work_item *x = &t->work->order->item[e->what->item];
    const char *axis = x->group >= 0 ? t->work->order->group[x->group].axis : NULL;
    op_kind kind = x->note >= 0 ? t->work->note[x->note].op.kind : OP_FILL;
    trace_operation(t->trace, t->number, t->work, e);
    tally_seconds(&t->tally, kind, axis, x->phase, e->end - e->begin);
    if (axis) t->tally.axis[tally_axis_of(&t->tally, axis)].exposed_seconds += e->exposed;
    else if (t->price[e->what->item].estimated) t->estimated += e->end - e->begin;
}

static void add_event(void *me, const timeline_event *e)
{
    stage_times *t = (stage_times *)me + e->rank;
    const submitted *s = e->what;
    if (s->step == STEPS - 1) add_seconds(t, e);
    if (!updates_weights(t->work, s)) return;
    t->finished[s->step] = e->end;
    memcpy(t->path[s->step], e->path, sizeof t->path[s->step]);
}

double projected_computing(const tally *t)
{
    double seconds = 0.0;
    for (int i = 0; i < PHASES; i++) seconds += t->phase_seconds[i];
    return seconds;
}

double projected_exposed(const tally *t)
{
    double seconds = 0.0;
    for (int i = 0; i < t->axes; i++)
        if (strcmp(t->axis[i].axis, "pipeline") != 0) seconds += t->axis[i].exposed_seconds;
    return seconds;
}

double projected_bubble(const projection *p, const tally *t)
{
    return fmax(0.0, p->seconds - projected_computing(t) - projected_exposed(t));
}

double projection_change(const projection *p, const machine_sheet *s, sheet_term t, sheet_value value)
{
    const double *of = s->term[t].value;
    double factor = term_is_rate(t) ? of[EXPECTED] / of[value] : of[value] / of[EXPECTED];
    return p->term[t] * (factor - 1.0);
}

static void add_band(projection *p, const machine_sheet *s)
{
    double decrease = 0.0, increase = 0.0;
    for (int t = 0; t < TERMS; t++) {
        double a = projection_change(p, s, t, LEAST), b = projection_change(p, s, t, MOST);
        decrease += pow(fmin(0.0, fmin(a, b)), 2.0);
        increase += pow(fmax(0.0, fmax(a, b)), 2.0);
    }
    p->least = p->seconds - sqrt(decrease);
    p->most = p->seconds + sqrt(increase);
}

static const stage_times *last_of(const stage_times *t, int stages, int step)
{
    const stage_times *last = t;
    for (int i = 1; i < stages; i++)
        if (t[i].finished[step] > last->finished[step]) last = &t[i];
    return last;
}

static void fill_projection(projection *p, const stage_times *t, int stages, const machine_sheet *sheet)
{
    const stage_times *last = last_of(t, stages, STEPS - 1), *before = last_of(t, stages, 0), *busiest = t;
    for (int i = 1; i < stages; i++)
        if (projected_computing(&t[i].tally) > projected_computing(&busiest->tally)) busiest = &t[i];
    p->stage = (int)(busiest - t);
    p->busiest = busiest->tally, p->own = t->tally;
    p->estimated = busiest->estimated;
    p->seconds = last->finished[STEPS - 1] - before->finished[0];
    for (int k = 0; k < TERMS; k++) p->term[k] = last->path[STEPS - 1][k] - before->path[0][k];
    add_band(p, sheet);
}

typedef struct {
    mesh mesh;
    measure measured;
    sm_shares shares;
    pricing pricing;
    price *price;
} projected_stage;

static void open_stage(projected_stage *s, const bench_case *c, int at, const machine_sheet *sheet)
{
    trainer_options o = { .machine = case_machine(c) };
    o.machine.keeps_order = true;
    mesh_open(&s->mesh, &c->layout, at * (c->layout.ranks / c->layout.degree[AXIS_PIPELINE]), MESH_PAPER);
    s->measured = measure_case(c, &s->mesh, &o);
    s->shares = sm_shares_of(c, at, copy_engine_kinds(&c->layout, sheet->host ? 1 : sheet->device->domain));
    s->pricing = (pricing){ .sheet = sheet, .shares = &s->shares };
    s->price = prices_of(&s->pricing, &s->measured.prepared);
}

static void close_stage(projected_stage *s)
{
    free(s->price);
    measure_free(&s->measured);
    mesh_close(&s->mesh);
}

static const char *obstacle(const bench_case *c, const machine_sheet *sheet)
{
    if (c->layout.degree[AXIS_PIPELINE] > TIMELINE_RANKS) return "a projection takes at most 32 pipeline stages";
    if (c->precision == PRECISION_FP8 && !sheet->host && sheet->device->fp8 == 0.0)
        return "the sheet's device lacks FP8: use bf16";
    return (c->backend == BACKEND_HOST) != sheet->host ? "deck and sheet differ in backend: change one" : NULL;
}

bool project_case(const bench_case *c, const machine_sheet *sheet, FILE *trace, projection *p, char *why, size_t length)
{
    int stages = c->layout.degree[AXIS_PIPELINE];
    const char *misfit = obstacle(c, sheet);
    if (misfit) {
        snprintf(why, length, "%s", misfit);
        return false;
    }
    projected_stage *at = allocate(stages, sizeof *at, "stages on paper");
    timeline_rank *rank = allocate(stages, sizeof *rank, "ranks on paper");
    stage_times *times = allocate(stages, sizeof *times, "times on paper");
    *p = (projection){ .seconds = 0.0 };
    timeline_options o = { sheet->host ? 0 : (int)sheet->term[TERM_MULTIPROCESSORS].value[EXPECTED], add_event, times };
    for (int i = 0; i < stages; i++) {
        open_stage(&at[i], c, i, sheet);
        rank[i] = (timeline_rank){ &at[i].measured.prepared, at[i].price };
        if (!p->missing[0]) memcpy(p->missing, at[i].pricing.missing, sizeof p->missing);
        times[i].work = rank[i].work, times[i].price = rank[i].price, times[i].trace = trace,
        times[i].number = c->number;
        tally_clear(&times[i].tally);
        trace_process(trace, c->number, "stage", i);
        p->bytes = fmax(p->bytes, (double)at[i].measured.arena.used + memory_outside_estimate(&at[i].mesh));
    }
    bool finished = timeline_run(rank, stages, &o, why, length);
    if (finished) fill_projection(p, times, stages, sheet);
    for (int i = 0; i < stages; i++) close_stage(&at[i]);
    free(times);
    free(rank);
    free(at);
    return finished;
}
