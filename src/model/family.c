/* Folds of a family's table. */
#include "model/family.h"

rank_extents rank_extents_of(const bench_case *c, const mesh *m)
{
    const model_shape *x = &c->model;
    int64_t tensor_ranks = m->layout.degree[AXIS_TENSOR], positions = x->sequence / m->layout.degree[AXIS_CONTEXT];
    return (rank_extents){ .type = c->precision == PRECISION_BF16 ? BF16 : F32,
                           .positions = positions,
                           .part = positions / tensor_ranks,
                           .rows = c->micro_batch,
                           .hidden = x->hidden,
                           .head_dim = x->head_dim,
                           .heads = x->heads / tensor_ranks,
                           .kv_heads = x->kv_heads / tensor_ranks,
                           .ffn = x->ffn / tensor_ranks,
                           .vocabulary = x->padded_vocabulary / tensor_ranks };
}

/* Of the operands that `chosen` has a bit for. */
static slot_set operands(const int *slot, unsigned chosen)
{
    slot_set set = 0;
    for (int i = 0; slot[i] != SLOT_NONE; i++)
        if (chosen >> i & 1u) set |= slot_bit(slot[i]);
    return set;
}

slot_set step_reads(const layer_step *s) { return operands(s->reads, ~0u); }
slot_set step_makes(const layer_step *s) { return operands(s->makes, ~0u); }
slot_set step_saves(const layer_step *s)
{
    return operands(s->reads, s->kind->saves_reads) | operands(s->makes, s->kind->saves_makes);
}

static slot_set dropped(const family *f, recompute_mask mask)
{
    slot_set set = 0;
    for (int i = SLOT_INPUT; i < f->slots; i++)
        if (f->slot[i].dropped >> mask & 1u) set |= slot_bit(i);
    return set;
}

/* What backward reads, and which steps run again for it. A step reads what steps before it made, so one walk from the
 * last to the first finds all. */
typedef struct {
    slot_set read;
    unsigned again;
} closure;

static closure closure_of(const family *f, recompute_mask mask)
{
    closure c = { 0 };
    slot_set lacking = dropped(f, mask);
    for (int i = 0; i < f->layer.count; i++) c.read |= step_saves(&f->layer.step[i]);
    for (int i = f->layer.count - 1; i >= 0; i--) {
        if (!(step_makes(&f->layer.step[i]) & c.read & lacking)) continue;
        c.again |= 1u << i;
        c.read |= step_reads(&f->layer.step[i]);
    }
    return c;
}

unsigned family_again(const family *f, recompute_mask mask) { return closure_of(f, mask).again; }
slot_set family_kept(const family *f, recompute_mask mask) { return closure_of(f, mask).read & ~dropped(f, mask); }

void family_layout(const family *f, const rank_extents *n, recompute_mask mask, tape_layout *layout)
{
    slot_set of_layer = slot_bit(SLOT_INPUT);
    for (int i = 0; i < f->layer.count; i++) of_layer |= step_makes(&f->layer.step[i]);
    for (int i = SLOT_INPUT; i < f->slots; i++)
        if (of_layer & slot_bit(i)) layout->shape[i] = f->slot[i].shape(n);
    layout->slots = f->slots;
    layout->kept = family_kept(f, mask);
}
