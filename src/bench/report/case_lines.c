/* What is run. */
#include "bench/report/case_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/launch/placement.h"
#include "plan/model/params.h"

static void say_model(const model_shape *m)
{
    say("Model      %lld layer%s, hidden %lld, ffn %lld, %lld heads, %lld key-value heads", (long long)m->layers,
        plural(m->layers), (long long)m->hidden, (long long)m->ffn, (long long)m->heads, (long long)m->kv_heads);
    if (m->experts) say(", %lld experts", (long long)m->experts);
    say(": %lld parameters\n", (long long)model_parameters(m));
}

static void say_layout(const bench_case *c)
{
    char text[LAYOUT_TEXT];
    say("Layout     %s; a step has %lld sequence%s of %lld tokens\n", layout_text(&c->layout, text),
        (long long)c->global_batch, plural(c->global_batch), (long long)c->model.sequence);
}

static void say_fault(const bench_case *c)
{
    if (c->fault.kind == FAULT_NONE) return;
    say("FAULT      %s %s %lld %d is planted: this case must not pass, unless the fault changes nothing\n",
        fault_name(c->fault.kind), c->fault.operation, (long long)c->fault.nth, c->fault.rank);
}

void say_case(const bench_case *c)
{
    char split[REASON_LENGTH];
    placement p = placement_here(&c->layout);
    say("\nCase %d     %s, size %s, %s, backend %s, %d of %d rank%s", c->number, c->workload, size_name(c->size),
        precision_name(c->precision), backend_name(c->backend), c->layout.ranks, c->world_ranks,
        plural(c->world_ranks));
    if (c->repeats > 1) say(", repeat %d of %lld", c->repeat, (long long)c->repeats);
    say("\n");
    say_model(&c->model);
    say_layout(c);
    say_fault(c);
    if (placement_complaint(&p, &c->layout, split)) say("Warning    %s\n", split);
}

/* ---- with --verbose ---- */

static void say_experts(const bench_case *c)
{
    long long experts = c->model.experts, held = experts / c->layout.expert, active = c->model.active;
    if (experts == 0) return;
    say("Experts    %lld, %lld of them on each rank; a token chooses %lld; ", experts, held, active);
    if (c->capacity > 0) say("capacity %g times an even share\n", c->capacity);
    else say("no capacity: rows for all tokens, nothing is dropped\n");
}

static void say_queues(const bench_case *c)
{
    const int *n = c->layout.degree;
    say("Queues     sharding %s, overlap %s", sharding_name(c->sharding), c->overlap ? "on" : "off");
    if (n[AXIS_PIPELINE] > 1) say(", schedule %s", schedule_name(c->schedule));
    if (n[AXIS_TENSOR] > 1) say(", %d strip%s of each tensor rank's positions", c->strips, plural(c->strips));
    if (n[AXIS_TENSOR] > 1 && c->strips_asked > c->strips)
        say(", not %d: strips x tensor must divide the positions", c->strips_asked);
    if (c->order == ORDER_HOSTILE) say(", hostile order of seed %u", c->order_seed);
    say("\n");
}

void say_case_details(const bench_case *c)
{
    const model_shape *m = &c->model;
    int batch_ranks = c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_SHARD];
    say_experts(c);
    say_queues(c);
    if (c->precision == PRECISION_FP8)
        say("Scales     %s, %s\n", fp8_scale_name(c->fp8_scale), fp8_scaling_name(c->fp8_scaling));
    if (c->backend == BACKEND_CUDA)
        say("Devices    deterministic %s, attention %s, %d multiprocessors for transfers by kernels\n",
            c->deterministic ? "yes" : "no", attention_name(c->attention), c->layout.ranks > 1 ? c->transfer_sms : 0);
    say("Placement  %s\n", placement_here(&c->layout).text);
    say("Batch      global %lld = %lld microbatch%s of %lld on %d data rank%s; tokens %s, recompute %s\n",
        (long long)c->global_batch, (long long)c->microbatches, c->microbatches == 1 ? "" : "es",
        (long long)c->microbatch, batch_ranks, plural(batch_ranks), tokens_name(c->tokens),
        recompute_name(c->recompute));
    if (c->size == SIZE_FULL) return;
    say("Rates      learning rate %g constant, epsilon %g, init std %.4g%s: scaled, so that faults show in a model "
        "this "
        "narrow\n",
        c->optimizer.learning_rate, c->optimizer.epsilon, m->init_std, m->init == INIT_FAN_IN ? " / sqrt(fan-in)" : "");
}
