/* The prover of a machine. The first call that needs it installs it. */
#include "machine/prove/prove.h"
#include "base/memory.h"
#include "machine/queue/machine_state.h"
#include <stdio.h>

typedef struct {
    machine *machine;
    planting planting;
    shadow *shadow;     /* NULL: nothing is shadowed */
    delivery *delivery; /* NULL: transfers are not proven */
} proving;

static bool leaves_out(void *state, const op *o, int64_t wait)
{
    proving *p = state;
    return fault_leaves_out(&p->planting, p->machine, o, wait);
}

static void read_tensor(void *from, void *to, tensor t) { machine_read(from, to, t); }

/* Submits an empty operation before a shadowed one and waits for it: then all that the shadowed one reads is complete
 * and can be copied. A planted fault strikes between copy and comparison. */
static void run(void *state, queue *q, op *o)
{
    proving *p = state;
    const op original = *o, nothing = { .kind = OP_FILL, .origin = o->origin };
    bool shadowed = p->shadow && shadow_wants(p->shadow, o);
    if (shadowed) {
        mark_sync(submit_run(q, &nothing));
        shadow_before(p->shadow, &original, read_tensor, p->machine);
    }
    if (p->delivery) delivery_before(p->delivery, q, &original);
    fault_run(&p->planting, q, o);
    if (p->delivery) delivery_after(p->delivery, q, &original);
    if (!shadowed) return;
    mark_sync(queue_mark(q));
    shadow_after(p->shadow, &original, read_tensor, p->machine);
}

static void step_begins(void *state, int64_t step)
{
    proving *p = state;
    if (p->shadow) shadow_step(p->shadow, step);
    fault_step(&p->planting);
}

static void close_proving(void *state)
{
    proving *p = state;
    if (p->shadow) shadow_close(p->shadow);
    if (p->delivery) delivery_close(p->delivery);
    free(p);
}

static proving *proving_of(machine *m)
{
    static const prover table = { leaves_out, run, step_begins, close_proving };
    if (m->prover) return m->proving;
    proving *p = allocate(1, sizeof *p, "proving operations");
    *p = (proving){ .machine = m, .planting.dropped_wait = -1 };
    m->proving = p;
    m->prover = &table;
    return p;
}

/* Writes no files if a fault is planted: a mismatch would not appear when the file is run again. */
static shadow *shadow_of(const machine_options *o, bool struck)
{
    char files[64] = "";
    op_home home = { .cuda = o->kind == MACHINE_CUDA,
                     .deterministic = o->tuning.deterministic,
                     .own_attention = o->tuning.own_attention,
                     .transfer_multiprocessors = o->tuning.transfer_multiprocessors };
    if (o->world_rank >= 0 && !struck)
        snprintf(files, sizeof files, "%.40s%s%d", o->name, o->name[0] ? "-" : "", o->world_rank);
    return shadow_open(home, files);
}

void prove_shadow(machine *m, shadow_mode mode)
{
    if (mode == SHADOW_OFF && !m->prover) return;
    proving *p = proving_of(m);
    if (!p->shadow) p->shadow = shadow_of(&m->options, p->planting.fault.kind != FAULT_NONE);
    shadow_set(p->shadow, mode);
}

void prove_transfers(machine *m, delivery_mode mode, const tally *step)
{
    proving *p = proving_of(m);
    if (p->delivery) delivery_close(p->delivery);
    p->delivery = delivery_open(m->options.kind, mode, step ? step->sum_bytes : 0);
}

void prove_plant(machine *m, const fault *f)
{
    if (f->kind != FAULT_NONE || m->prover) proving_of(m)->planting.fault = *f;
}

void prove_drop_wait(machine *m, int64_t index)
{
    if (index >= 0 || m->prover) proving_of(m)->planting.dropped_wait = index;
}

/* ---- what was found ---- */

static const proving *proving_or_none(const machine *m)
{
    static const proving nothing = { NULL };
    return m && m->proving ? m->proving : &nothing;
}

const shadow_report *prove_shadowed(const machine *m)
{
    return proving_or_none(m)->shadow ? shadow_read(proving_or_none(m)->shadow) : NULL;
}
void prove_judge_sums(machine *m) { delivery_judge_sums(proving_or_none(m)->delivery, m); }
delivery_report prove_judge_transfers(machine *m) { return delivery_judge(proving_or_none(m)->delivery, m); }
int64_t prove_faults(const machine *m) { return proving_or_none(m)->planting.strikes; }
const op *prove_struck(const machine *m) { return &proving_or_none(m)->planting.struck; }
fault prove_planted(const machine *m) { return proving_or_none(m)->planting.fault; }
const op *prove_unwaited(const machine *m) { return &proving_or_none(m)->planting.unwaited; }
