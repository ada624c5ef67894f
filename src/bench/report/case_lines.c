/* What is run. */
#include "bench/report/case_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/launch/placement.h"
#include "bench/report/separators.h"
#include "plan/model/params.h"

static void say_experts_layout(const bench_case *c)
{
    long long experts = c->model.experts, held = experts / c->layout.expert, active = c->model.active;
    if (experts == 0) return;
    say("Experts    %lld, %lld of them on each rank; a token chooses %lld; ", experts, held, active);
    if (c->capacity > 0) say("capacity %g times an even share\n", c->capacity);
    else say("no capacity: rows for all tokens, nothing is dropped\n");
}

static void say_layout(const bench_case *c)
{
    const int *n = c->layout.degree;
    say("Layout     tensor %d, pipeline %d, context %d, expert %d, data %d, shard %d: %d of %d rank%s; sharding %s, "
        "overlap "
        "%s\n",
        n[AXIS_TENSOR], n[AXIS_PIPELINE], n[AXIS_CONTEXT], c->layout.expert, n[AXIS_DATA], n[AXIS_SHARD],
        c->layout.ranks, c->world_ranks, plural(c->world_ranks), sharding_name(c->sharding), c->overlap ? "on" : "off");
    say_experts_layout(c);
    if (c->precision == PRECISION_FP8)
        say("Scales     %s, %s\n", fp8_scale_name(c->fp8_scale), fp8_scaling_name(c->fp8_scaling));
    if (n[AXIS_TENSOR] > 1) {
        say("Strips     %d of each tensor rank's positions", c->strips);
        if (c->strips_asked > c->strips) say(", not %d: strips x tensor must divide the positions", c->strips_asked);
        say("\n");
    }
    if (n[AXIS_PIPELINE] > 1)
        say("Schedule   %s, chunks_per_stage %d\n", schedule_name(c->schedule), c->layout.chunks_per_stage);
    if (c->backend == BACKEND_CUDA)
        say("Devices    deterministic %s, attention %s, %d multiprocessors for transfers by kernels\n",
            c->deterministic ? "yes" : "no", attention_name(c->attention), c->layout.ranks > 1 ? c->transfer_sms : 0);
    if (c->order == ORDER_HOSTILE) say("Order      hostile, seed %u\n", c->order_seed);
    if (c->fault.kind != FAULT_NONE)
        say("FAULT      %s %s %lld %d is planted: this case must not pass, unless the fault changes nothing\n",
            fault_name(c->fault.kind), c->fault.operation, (long long)c->fault.nth, c->fault.rank);
}

static void say_placement(const bench_case *c)
{
    char split[REASON_LENGTH];
    placement p = placement_here(&c->layout);
    say("Placement  %s\n", p.text);
    if (placement_complaint(&p, &c->layout, split)) say("Warning    %s\n", split);
}

void say_case(const bench_case *c)
{
    const model_shape *m = &c->model;
    int batch_ranks = c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_SHARD];
    say("\n%s", THIN_LINE);
    say("Case %d     %s, size %s, %s, backend %s", c->number, c->model_name, size_name(c->size),
        precision_name(c->precision), backend_name(c->backend));
    if (c->repeats > 1) say(", repeat %d of %lld", c->repeat, (long long)c->repeats);
    say("\n");
    say("Model      layers %lld, hidden %lld, ffn %lld, heads %lld/%lld, vocabulary %lld, sequence %lld: %lld "
        "parameters\n",
        (long long)m->layers, (long long)m->hidden, (long long)m->ffn, (long long)m->heads, (long long)m->kv_heads,
        (long long)m->vocabulary, (long long)m->sequence, (long long)model_parameters(m));
    say_layout(c);
    say_placement(c);
    say("Batch      global %lld = %lld microbatch%s of %lld on %d data rank%s; tokens %s, recompute %s\n",
        (long long)c->global_batch, (long long)c->microbatches, c->microbatches == 1 ? "" : "es",
        (long long)c->micro_batch, batch_ranks, plural(batch_ranks), tokens_name(c->tokens),
        recompute_name(c->recompute));
    if (c->size != SIZE_FULL)
        say("Rates      learning rate %g constant, epsilon %g, init std %.4g%s: scaled, so that faults show in a model "
            "this narrow\n",
            c->optimizer.learning_rate, c->optimizer.epsilon, m->init_std,
            m->init == INIT_FAN_IN ? " / sqrt(fan-in)" : "");
    say("%s", THIN_LINE);
}
