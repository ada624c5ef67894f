/* Sets that follow from a family's table: what steps read, make and save, and what runs again in backward. */
#include "model/family.h"

/* Returns the slots of the operands that `chosen` has a bit for. */
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

static slot_set dropped(const family *f, recompute_mask policy)
{
    slot_set set = 0;
    for (int i = SLOT_INPUT; i < f->slots; i++)
        if (f->slot[i].dropped >> policy & 1u) set |= slot_bit(i);
    return set;
}

slot_set family_multiplied(const family *f)
{
    slot_set set = 0;
    for (const layer_step *s = f->layer.step; s < f->layer.step + f->layer.count; s++)
        if (s->kind->product) set |= slot_bit(s->reads[0]);
    return set;
}

/* Replaces the slots that products multiply by their FP8 slots; with_fp8 adds the FP8 slots. */
static slot_set in_fp8(slot_set set, slot_set multiplied)
{
    return (set & multiplied) << SLOTS_MOST | (set & ~multiplied);
}
static slot_set with_fp8(slot_set set, slot_set multiplied) { return set | (set & multiplied) << SLOTS_MOST; }

/* A step reads what earlier steps made, so one walk from the last to the first finds all that runs again. */
recomputing recomputing_of(const family *f, recompute_mask policy, bool fp8)
{
    slot_set multiplied = fp8 ? family_multiplied(f) : 0, missing = with_fp8(dropped(f, policy), multiplied);
    slot_set read = 0, kept_as_rows = 0;
    unsigned again = 0;
    for (const layer_step *s = f->layer.step; s < f->layer.step + f->layer.count; s++)
        read |= in_fp8(step_saves(s), s->kind->product ? multiplied : 0);
    for (int i = f->layer.count - 1; i >= 0; i--) {
        const layer_step *s = &f->layer.step[i];
        if (!(with_fp8(step_makes(s), multiplied) & read & missing)) continue;
        slot_set reads = in_fp8(step_reads(s), s->kind->product ? multiplied : 0);
        again |= 1u << i;
        read |= reads;
        kept_as_rows |= reads & ~missing;
    }
    return (recomputing){ again, read & ~missing, kept_as_rows };
}

slot_set list_makes(const step_list *l)
{
    slot_set set = 0;
    for (int i = 0; i < l->count; i++) set |= step_makes(&l->step[i]);
    return set;
}
