/* One rank of each stage on paper. */
#include "bench/paper/paper.h"
#include "base/memory.h"
#include "bench/launch/case_machine.h"
#include "bench/paper/memory.h"
#include "plan/model/chunks.h"
#include "plan/schedule/schedule.h"
#include <math.h>

static int stage_ranks(const bench_case *c) { return c->layout.ranks / c->layout.degree[AXIS_PIPELINE]; }

static void measure_stage(paper *p, paper_stage *s, const bench_case *c)
{
    mesh m;
    trainer_options o = { .machine = case_machine(c) };
    mesh_open(&m, &c->layout, s->rank, MESH_PAPER);
    measure r = measure_case(c, &m, &o);
    s->parameters = r.parameters;
    s->step = r.step;
    for (int k = 0; k < ARENA_KINDS; k++) s->bytes[k] = r.arena.by_kind[k];
    if (p->hazards.count == 0) p->hazards = r.hazards;
    else p->hazards.count += r.hazards.count;
    measure_free(&r);
    mesh_close(&m);
}

static int64_t max_live(const bench_case *c, int number)
{
    schedule list = schedule_make(c, number);
    int64_t live = schedule_live(&list);
    schedule_free(&list);
    return live;
}

static void count_model_flops(paper_stage *s, const bench_case *c, int number)
{
    int ranks = c->layout.degree[AXIS_TENSOR];
    s->model_flops = rank_model_flops(c, (int[AXES]){ [AXIS_PIPELINE] = number });
    for (int i = 0; i < ranks; i++)
        s->stage_model_flops +=
            stage_ranks(c) / ranks * rank_model_flops(c, (int[AXES]){ [AXIS_PIPELINE] = number, [AXIS_TENSOR] = i });
}

paper paper_open(const bench_case *c)
{
    paper p = { .stages = c->layout.degree[AXIS_PIPELINE] };
    p.stage = allocate(p.stages, sizeof *p.stage, "stages on paper");
    for (int i = 0; i < p.stages; i++) {
        paper_stage *s = &p.stage[i];
        s->rank = i * stage_ranks(c);
        s->layers = stage_layers(c, i);
        s->live = max_live(c, i);
        measure_stage(&p, s, c);
        count_model_flops(s, c, i);
        for (int k = 0; k < ARENA_KINDS; k++) s->total += s->bytes[k];
    }
    return p;
}

void paper_close(paper *p) { free(p->stage); }

flop_count paper_model_flops(const paper *p)
{
    flop_count flops = 0;
    for (int i = 0; i < p->stages; i++) flops += p->stage[i].stage_model_flops;
    return flops;
}

double paper_submitted_flops(const paper *p, const bench_case *c)
{
    double flops = 0.0;
    for (int i = 0; i < p->stages; i++) flops += tally_flops(&p->stage[i].step) * stage_ranks(c);
    return flops;
}

static double bytes_of_stage(const bench_case *c, int number)
{
    mesh m;
    trainer_options o = { .machine = case_machine(c) };
    mesh_open(&m, &c->layout, number * stage_ranks(c), MESH_PAPER);
    double bytes = (double)measure_layout(c, &m, &o) + memory_outside_estimate(&m);
    mesh_close(&m);
    return bytes;
}

double paper_rank_bytes(const bench_case *c)
{
    int last = c->layout.degree[AXIS_PIPELINE] - 1;
    double most = bytes_of_stage(c, last);
    for (int i = 0; i < last && i < 2; i++) most = fmax(most, bytes_of_stage(c, i));
    return most + PAPER_SCRATCH_BYTES;
}
