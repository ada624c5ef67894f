/* Ranks of a case on paper. */
#include "bench/paper.h"
#include "base/fail.h"
#include "bench/run_case.h"
#include "plan/chunks.h"
#include "plan/schedule.h"
#include "plan/share.h"
#include <stdlib.h>

/* Ranks of one stage. */
static int stage_ranks(const bench_case *c) { return c->layout.ranks / c->layout.degree[AXIS_PIPELINE]; }

static void measure_stage(paper *p, paper_stage *s, const bench_case *c)
{
    mesh m;
    trainer_options o = { .machine = case_machine(c) };
    mesh_open(&m, &c->layout, s->rank, false);
    measure r = measure_case(c, &m, &o);
    s->parameters = r.parameters;
    s->step = r.step;
    for (int k = 0; k < ARENA_KINDS; k++) s->bytes[k] = r.arena.by_kind[k];
    if (p->hazards.count == 0) p->hazards = r.hazards;
    else p->hazards.count += r.hazards.count;
    mesh_close(&m);
}

static int64_t most_live(const bench_case *c, int at)
{
    schedule list = schedule_make(c, at);
    int64_t live = schedule_live(&list);
    schedule_free(&list);
    return live;
}

/* Tensor ranks hold equal parts of every matrix, but the last ones padding instead of vocabulary, and each a copy of the
 * gains, which count once. */
static void sum_replica(paper_stage *s, const bench_case *c, int at)
{
    int ranks = c->layout.degree[AXIS_TENSOR];
    s->model_flops = share_model_flops(c, at, 0);
    s->replica_parameters = -(ranks - 1) * share_replicated(c, at);
    for (int i = 0; i < ranks; i++) {
        s->replica_parameters += share_parameters(c, at, i);
        s->replica_model_flops += share_model_flops(c, at, i);
    }
}

paper paper_open(const bench_case *c)
{
    paper p = { .measured = !c->not_built[0], .stages = c->layout.degree[AXIS_PIPELINE] };
    p.stage = calloc((size_t)p.stages, sizeof *p.stage);
    if (!p.stage) FAIL("no memory for %d stages on paper", p.stages);
    for (int i = 0; i < p.stages; i++) {
        paper_stage *s = &p.stage[i];
        s->rank = i * stage_ranks(c);
        s->layers = stage_layers(c, i);
        s->live = most_live(c, i);
        if (p.measured) measure_stage(&p, s, c);
        else s->parameters = share_parameters(c, i, 0);
        sum_replica(s, c, i);
        for (int k = 0; k < ARENA_KINDS; k++) s->total += s->bytes[k];
    }
    return p;
}

void paper_close(paper *p) { free(p->stage); }

int64_t paper_parameters(const paper *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->stages; i++) n += p->stage[i].replica_parameters;
    return n;
}

double paper_model_flops(const paper *p, const bench_case *c)
{
    double flops = 0.0, replicas = (double)stage_ranks(c) / c->layout.degree[AXIS_TENSOR];
    for (int i = 0; i < p->stages; i++) flops += p->stage[i].replica_model_flops * replicas;
    return flops;
}

double paper_submitted_flops(const paper *p, const bench_case *c)
{
    double flops = 0.0;
    for (int i = 0; i < p->stages; i++) flops += tally_flops(&p->stage[i].step) * stage_ranks(c);
    return flops;
}
