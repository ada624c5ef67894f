/* Operations noted on paper. */
#include "machine/preparation.h"
#include "base/arena.h"
#include "base/fail.h"
#include <stdio.h>
#include <stdlib.h>

/* Kernels are chosen by formats, shapes and alignment. */
static bool operands_alike(const operand *a, const operand *b)
{
    bool alike = a->access == b->access && a->tensor.type == b->tensor.type && a->tensor.dims == b->tensor.dims &&
                 ((uintptr_t)a->tensor.data ^ (uintptr_t)b->tensor.data) % ARENA_ALIGNMENT == 0;
    for (int i = 0; alike && i < a->tensor.dims; i++)
        alike = a->tensor.dim[i] == b->tensor.dim[i] && a->tensor.stride[i] == b->tensor.stride[i];
    return alike;
}

static bool ops_alike(const op *a, const op *b)
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
    p->note = realloc(p->note, (size_t)p->capacity * sizeof *p->note);
    if (!p->note) FAIL("no memory to note %d operations", p->capacity);
}

void preparation_note(preparation *p, const op *o)
{
    if (o->operands == 0) return;
    for (int i = 0; i < p->notes; i++)
        if (ops_alike(&p->note[i].op, o)) return;
    if (p->notes == p->capacity) enlarge(p);
    op_note *n = &p->note[p->notes++];
    n->op = *o;
    n->op.origin.name = "";
    if (op_is_transfer(o->kind)) n->op.args.fabric.group = NULL;
    snprintf(n->name, sizeof n->name, "%s", o->origin.name ? o->origin.name : "");
}

void preparation_free(preparation *p)
{
    free(p->note);
    *p = (preparation){ .notes = 0 };
}
