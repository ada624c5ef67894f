/* The dry run. */
#include "bench/dry_run.h"
#include "base/say.h"
#include "bench/run_case.h"
#include "bench/show_schedule.h"
#include "plan/flops.h"
#include "train/measure.h"

static void describe_layout(const bench_case *c)
{
    const int *n = c->layout.degree;
    say("  layout      tensor %d  pipeline %d  context %d  expert %d  data %d  shard %d  chunks_per_stage %d: %d of %d ranks%s\n",
        n[AXIS_TENSOR], n[AXIS_PIPELINE], n[AXIS_CONTEXT], c->layout.expert, n[AXIS_DATA], n[AXIS_SHARD], c->layout.chunks_per_stage,
        c->layout.ranks, c->world_ranks, c->recipe_layout ? ", the recipe's" : "");
    say("  batch       global %lld = %lld microbatches of %lld on %d data ranks; sequence %lld; sharding %s\n", (long long)c->global_batch,
        (long long)c->microbatches, (long long)c->micro_batch, n[AXIS_DATA] * n[AXIS_SHARD], (long long)c->model.sequence, sharding_name(c->sharding));
}

static void describe_flops(const bench_case *c)
{
    double batch = (double)c->global_batch;
    say("  parameters  %lld\n", (long long)model_parameters(&c->model));
    say("  flops       %.6e recipe, %.6e model per sequence; %.6e recipe per step\n", c->recipe_flops_per_sequence,
        c->model_flops_per_sequence, batch * c->recipe_flops_per_sequence);
}

/* Tensor, data, context and shard ranks are alike: rank 0 stands for all. */
static void describe_rank(const bench_case *c)
{
    mesh m;
    trainer_options o = { .machine = case_machine(c) };
    mesh_open(&m, &c->layout, 0, false);
    measure t = measure_case(c, &m, &o);
    double states = (double)(t.arena.by_kind[WEIGHTS] + t.arena.by_kind[GRADIENTS] + t.arena.by_kind[OPTIMIZER]);
    say("  per rank    %lld parameters; weights + gradients + optimizer %.4f bytes per parameter\n", (long long)t.parameters, states / (double)t.parameters);
    say("  bytes       ");
    for (int k = 0; k < ARENA_KINDS; k++) say("%s %zu, ", arena_kind_name((arena_kind)k), t.arena.by_kind[k]);
    say("total %zu%s\n", t.arena.used, c->backend == BACKEND_CUDA ? " (scratch of the CUDA libraries n/a)" : "");
    if (c->backend == BACKEND_HOST) say("              scratch with %d threads a rank, as OMP_NUM_THREADS says\n", machine_threads(MACHINE_HOST));
    mesh_close(&m);
}

/* What the table of parameters alone tells; a pipeline's stages are not cut yet. */
static void describe_states(const bench_case *c)
{
    mesh m;
    arena a;
    param_table t;
    if (c->layout.degree[AXIS_PIPELINE] > 1 || c->layout.degree[AXIS_SHARD] > 1) {
        say("  per rank    n/a\n");
        return;
    }
    arena_open(&a, NULL, 0);
    mesh_open(&m, &c->layout, 0, false);
    param_table_open(&t, c, &m, &a);
    int64_t parameters = param_count_local(&t);
    say("  per rank    %lld parameters; weights + gradients + optimizer %.4f bytes per parameter\n", (long long)parameters, (double)a.used / (double)parameters);
    say("  bytes       weights %zu, gradients %zu, optimizer %zu; activations n/a\n", a.by_kind[WEIGHTS], a.by_kind[GRADIENTS], a.by_kind[OPTIMIZER]);
    param_table_close(&t);
    mesh_close(&m);
}

static void describe(const bench_case *c)
{
    say("case %d: %s, size %s, %s, backend %s, %d ranks\n", c->number, c->model_name, size_name(c->size), precision_name(c->precision),
        backend_name(c->backend), c->world_ranks);
    if (c->skipped[0]) {
        say("  SKIPPED: %s\n", c->skipped);
        return;
    }
    describe_layout(c);
    describe_flops(c);
    bool runs_here = machine_usable(c->backend == BACKEND_CUDA ? MACHINE_CUDA : MACHINE_HOST);
    if (c->not_built[0]) describe_states(c);
    else describe_rank(c);
    if (c->not_built[0] || !runs_here)
        say("  not built: %s%s%s\n", c->not_built, c->not_built[0] && !runs_here ? ", " : "", runs_here ? "" : "backend cuda");
}

void dry_run(const deck *d, bool schedules)
{
    for (int64_t i = 0; i < d->cases; i++) {
        describe(&d->item[i]);
        if (schedules && !d->item[i].skipped[0]) show_schedule(&d->item[i]);
    }
}
