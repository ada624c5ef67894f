/* One operation from a file, run alone. */
#include "bench/check/replay.h"
#include "base/fail.h"
#include "base/say.h"
#include "base/text.h"
#include "machine/prove/op_file.h"
#include "machine/prove/prove.h"
#include <stdio.h>

/* Extra memory for trials of algorithms. */
enum { TRIAL_BYTES = 1 << 28 };

static machine_options options_of(const op_copy *c)
{
    return (machine_options){ .kind = c->home.cuda ? MACHINE_CUDA : MACHINE_HOST,
                              .tuning = { .deterministic = c->home.deterministic,
                                          .own_attention = c->home.own_attention,
                                          .transfer_multiprocessors = c->home.transfer_multiprocessors },
                              .world_rank = -1 };
}

static void *take_memory(machine_kind kind, size_t bytes)
{
    return machine_memory_take(kind, (bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT);
}

/* Places the operands at the same offset from a 256-byte boundary as in the run, because kernels depend on alignment.
 * Operands that had the same address (twins) have the same address again. */
static op place_operands(machine *m, machine_kind kind, const op_copy *c, void *taken[OP_OPERANDS])
{
    op o = c->op;
    for (int i = 0; i < o.operands; i++) {
        tensor *t = &o.operand[i].tensor;
        taken[i] = NULL;
        if (!tensor_present(t)) continue;
        if (c->twin[i] >= 0) {
            t->data = o.operand[c->twin[i]].tensor.data;
            continue;
        }
        taken[i] = take_memory(kind, tensor_span(t) + OP_OFFSETS);
        t->data = (char *)taken[i] + c->offset[i];
        machine_upload(m, *t, c->op.operand[i].tensor.data);
    }
    return o;
}

static preparation prepare_for(machine_options options, const op *o)
{
    options.on_paper = true;
    machine *paper = machine_open(&options);
    op_submit(machine_queue(paper, "replay"), o);
    preparation p = machine_prepared(paper);
    machine_close(paper);
    return p;
}

static void tune(machine *m, machine_kind kind, const op *o, const preparation *p)
{
    size_t bytes = (size_t)(2 * op_bytes(o)) + TRIAL_BYTES;
    void *memory = take_memory(kind, bytes);
    machine_tune(m, p, memory, bytes);
    machine_memory_give_back(kind, memory);
}

static shadow_report run_again(const op_copy *c)
{
    machine_options options = options_of(c);
    void *taken[OP_OPERANDS] = { NULL };
    machine *m = machine_open(&options);
    prove_shadow(m, SHADOW_FULL);
    queue *q = machine_queue(m, "replay");
    op o = place_operands(m, options.kind, c, taken);
    preparation p = prepare_for(options, &o);
    size_t bytes = p.scratch[0];
    void *scratch = take_memory(options.kind, bytes);
    queue_set_scratch(q, scratch, bytes);
    if (options.kind == MACHINE_CUDA) tune(m, options.kind, &o, &p);
    op_submit(q, &o);
    machine_sync(m);
    shadow_report r = *prove_shadowed(m);
    machine_close(m);
    preparation_free(&p);
    machine_memory_give_back(options.kind, scratch);
    for (int i = 0; i < OP_OPERANDS; i++)
        if (taken[i]) machine_memory_give_back(options.kind, taken[i]);
    return r;
}

static int refuse(const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
    return STATUS_REFUSED;
}

static int run_and_report(const op_copy *c)
{
    char text[600];
    say("%s\non %s, compared with the host\n", op_describe(&c->op, text, sizeof text),
        c->home.cuda ? "the GPU" : "the host");
    if (!c->home.cuda) say("the operation ran on the host, so PASSED shows only that the file can be read\n");
    if (c->home.part) say("this is a part of the operation that differed: if it passes, the whole may still differ\n");
    shadow_report r = run_again(c);
    if (r.elements == 0) return refuse("no element was compared");
    say("%lld element%s compared, largest difference %.3g times the limit\n", (long long)r.elements, plural(r.elements),
        r.worst);
    if (r.failed) say("%s\n", r.sentence);
    say("%s\n", r.failed ? "FAILED" : "PASSED");
    return r.failed ? STATUS_FAILED : STATUS_PASSED;
}

int replay(const char *path)
{
    char text[1024], why[256];
    op_copy c;
    if (!op_file_read(path, &c, text, sizeof text)) return refuse(text);
    bool usable = !c.home.cuda || machine_usable(MACHINE_CUDA, why, sizeof why);
    if (!usable) snprintf(text, sizeof text, "%.600s is an operation of a GPU; none is usable here: %s", path, why);
    int status = usable ? run_and_report(&c) : refuse(text);
    op_copy_free(&c);
    return status;
}
