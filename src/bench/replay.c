/* Replay. */
#include "bench/replay.h"
#include "base/fail.h"
#include "base/say.h"
#include "machine/machine.h"
#include <stdio.h>

static machine_kind kind_at_hand(void)
{
    char why[256];
    return machine_usable(MACHINE_CUDA, why, sizeof why) ? MACHINE_CUDA : MACHINE_HOST;
}

/* The copy's operands in the machine's memory; those at one place stay at one place. */
static op placed(machine *m, machine_kind kind, const op_copy *c)
{
    op o = c->op;
    for (int i = 0; i < o.operands; i++) {
        tensor *t = &o.operand[i].tensor;
        if (!tensor_present(t)) continue;
        t->data = machine_memory_take(kind, (tensor_span(t) / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT);
        machine_upload(m, *t, c->op.operand[i].tensor.data);
    }
    return o;
}

static size_t scratch_of(machine_kind kind, const op *o)
{
    machine_options options = { .kind = kind, .measuring = true };
    machine *paper = machine_open(&options);
    queue *q = machine_queue(paper, "replay");
    op_submit(q, o);
    size_t bytes = queue_scratch_bytes(q);
    machine_close(paper);
    return bytes;
}

static void give_back(machine_kind kind, const op *o)
{
    for (int i = 0; i < o->operands; i++)
        if (tensor_present(&o->operand[i].tensor)) machine_memory_give_back(kind, o->operand[i].tensor.data);
}

static shadow_report run_again(machine_kind kind, const op_copy *c)
{
    machine_options options = { .kind = kind, .shadow = SHADOW_FULL, .world_rank = -1 };
    machine *m = machine_open(&options);
    queue *q = machine_queue(m, "replay");
    op o = placed(m, kind, c);
    size_t bytes = scratch_of(kind, &o);
    void *scratch = machine_memory_take(kind, (bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT);
    queue_set_scratch(q, scratch, bytes);
    op_submit(q, &o);
    machine_sync(m);
    shadow_report r = *machine_shadowed(m);
    machine_close(m);
    machine_memory_give_back(kind, scratch);
    give_back(kind, &o);
    return r;
}

int replay(const char *path)
{
    char text[600];
    op_copy c;
    if (!op_file_read(path, &c, text, sizeof text)) {
        fprintf(stderr, "%s\n", text);
        return STATUS_REFUSED;
    }
    machine_kind kind = kind_at_hand();
    say("%s\non %s, beside the host\n", op_describe(&c.op, text, sizeof text), kind == MACHINE_CUDA ? "the GPU" : "the host");
    shadow_report r = run_again(kind, &c);
    say("%lld elements compared, largest difference %.3g times what is allowed\n", (long long)r.elements, r.worst);
    if (r.failed) say("%s\n", r.sentence);
    say("%s\n", r.failed ? "FAILED" : "PASSED");
    op_copy_free(&c);
    return r.failed ? STATUS_FAILED : STATUS_PASSED;
}
