/* paper/: the machine on paper. It stands for a machine of another kind, notes what that needs, and runs nothing. */
#include "machine/queue/backend.h"
#include "base/arena.h"
#include "base/memory.h"
#include "machine/op/activity.h"
#include "machine/paper/keep.h"
#include <stdio.h>

/* Compares what selects the kernel: formats, shapes, strides and alignment. */
static bool operands_alike(const operand *a, const operand *b)
{
    bool alike = a->access == b->access && a->tensor.type == b->tensor.type && a->tensor.dims == b->tensor.dims &&
                 ((uintptr_t)a->tensor.data ^ (uintptr_t)b->tensor.data) % ARENA_ALIGNMENT == 0;
    for (int i = 0; alike && i < a->tensor.dims; i++)
        alike = a->tensor.dim[i] == b->tensor.dim[i] && a->tensor.stride[i] == b->tensor.stride[i];
    return alike;
}

bool ops_alike(const op *a, const op *b)
{
    bool alike = a->kind == b->kind && a->operands == b->operands;
    if (alike && a->kind == OP_CROSS_ENTROPY) alike = a->args.cross_entropy.part == b->args.cross_entropy.part;
    if (alike && a->kind == OP_ATTENTION_FORWARD) alike = a->args.attention.causal == b->args.attention.causal;
    if (alike && a->kind == OP_ATTENTION_BACKWARD) alike = a->args.attention.causal == b->args.attention.causal;
    for (int i = 0; alike && i < a->operands; i++) alike = operands_alike(&a->operand[i], &b->operand[i]);
    return alike;
}

static void enlarge(preparation *p)
{
    p->capacity = p->capacity ? 2 * p->capacity : 128;
    p->note = reallocate(p->note, p->capacity, sizeof *p->note, "notes of operations");
}

static op_note *note_of(preparation *p, const op *o)
{
    for (int i = 0; i < p->notes; i++)
        if (ops_alike(&p->note[i].op, o)) return &p->note[i];
    if (p->notes == p->capacity) enlarge(p);
    op_note *n = &p->note[p->notes++];
    *n = (op_note){ .op = *o };
    n->op.origin.name = "";
    if (op_is_transfer(o->kind)) n->op.args.fabric.group = NULL;
    snprintf(n->name, sizeof n->name, "%s", o->origin.name ? o->origin.name : "");
    return n;
}

/* Counts the operation, with a new note if none is like it. Returns the index of the note. */
static int note(preparation *p, const op *o)
{
    op_note *n = note_of(p, o);
    n->count[o->origin.phase] += o->origin.step == COUNTED_STEP;
    n->layer_count[o->origin.phase] += o->origin.step == COUNTED_STEP && o->origin.layer >= 0;
    return (int)(n - p->note);
}

void preparation_free(preparation *p)
{
    submissions_close(p->order);
    free(p->note);
    *p = (preparation){ .notes = 0 };
}

/* ---- the backend ---- */

typedef struct {
    machine_tuning tuning;
    const backend *imitated;
    preparation preparation;
} paper;

static void *open_paper(const machine_options *options, history *h)
{
    paper *p = allocate(1, sizeof *p, "a machine on paper");
    p->tuning = options->tuning;
    p->imitated = backend_of(options->kind);
    if (options->keeps_order) p->preparation.order = submissions_open();
    return p;
}

static void close_paper(void *state)
{
    paper *p = state;
    preparation_free(&p->preparation);
    free(p);
}

static void hash_addresses(uint64_t *hash, const op *o)
{
    for (int i = 0; i < o->operands; i++) *hash = (*hash ^ (uintptr_t)o->operand[i].tensor.data) * 0x100000001B3u;
}

static void submit(void *state, const submission *s)
{
    paper *p = state;
    size_t bytes = p->imitated->scratch_of ? p->imitated->scratch_of(&p->tuning, s->op) : 0;
    if (bytes > p->preparation.scratch[s->queue]) p->preparation.scratch[s->queue] = bytes;
    int at = s->op->operands ? note(&p->preparation, s->op) : -1;
    if (p->preparation.order) submissions_add(p->preparation.order, s, at);
    if (op_is_transfer(s->op->kind) && s->op->kind != OP_EXCHANGE) hash_addresses(&p->preparation.address_hash, s->op);
    activity_progress();
}

static preparation prepared(void *state)
{
    paper *p = state;
    preparation result = p->preparation;
    p->preparation = (preparation){ .notes = 0 };
    return result;
}

static void sync(void *state, int queue, uint64_t serial) {}

static void copy_nothing(void *state, void *to, const void *from, size_t bytes) {}

const backend *paper_backend(void)
{
    static const backend table = {
        .addressable = true,
        .open = open_paper,
        .close = close_paper,
        .submit = submit,
        .sync = sync,
        .upload = copy_nothing,
        .download = copy_nothing,
        .prepared = prepared,
    };
    return &table;
}
