/* Lines of a case before it runs. */
#include "bench/report/case_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/launch/case_machine.h"
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

static void say_copies(const bench_case *c)
{
    int copies = c->layout.copies, ranks = c->layout.ranks;
    if (copies == 1) return;
    say("Copies     %d of %d rank%s each: copy 0 is rank%s 0", copies, ranks, plural(ranks), plural(ranks));
    if (ranks > 1) say(" to %d", ranks - 1);
    say(", and so on");
    if (c->ranks < c->world_ranks) say("; ranks from %d on stay idle", c->ranks);
    say("\n");
}

/* With copies, the line Copies names the ranks that stay idle. */
static void say_idle(const bench_case *c)
{
    char text[LAYOUT_TEXT];
    if (idle_text(c, text)[0]) say("Idle       %s\n", text);
}

static void say_fault(const bench_case *c)
{
    if (c->fault.kind == FAULT_NONE) return;
    say("FAULT      %s %s %lld %d is planted: this case must not pass, unless the fault changes nothing\n",
        fault_name(c->fault.kind), c->fault.operation, (long long)c->fault.nth, c->fault.rank);
}

void say_case(const bench_case *c)
{
    char complaint[REASON_LENGTH];
    placement p = placement_here(&c->layout, case_machine(c).kind);
    say("\nCase %d     %s, size %s, %s, backend %s, %d of %d rank%s", c->number, c->workload, size_name(c->size),
        precision_name(c->precision), backend_name(c->backend), c->ranks, c->world_ranks, plural(c->world_ranks));
    if (c->repeats > 1) say(", repeat %d of %lld", c->repeat, (long long)c->repeats);
    say("\n");
    say_model(&c->model);
    say_layout(c);
    say_idle(c);
    say_copies(c);
    say_fault(c);
    if (placement_complaint(&p, &c->layout, complaint)) say("Warning    %s\n", complaint);
}
