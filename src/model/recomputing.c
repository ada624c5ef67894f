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

/* Replaces the slots that products multiply by their FP8 slots; with_codes adds the FP8 slots. */
static slot_set as_codes(slot_set set, slot_set multiplied)
{
    return (set & multiplied) << SLOTS_MOST | (set & ~multiplied);
}
static slot_set with_codes(slot_set set, slot_set multiplied) { return set | (set & multiplied) << SLOTS_MOST; }

/* A step reads what earlier steps made, so one walk from the last to the first finds all that runs again. */
recomputing recomputing_of(const family *f, recompute_mask policy, bool codes)
{
    slot_set multiplied = codes ? family_multiplied(f) : 0, lacking = with_codes(dropped(f, policy), multiplied);
    slot_set read = 0, by_rows = 0;
    unsigned again = 0;
    for (const layer_step *s = f->layer.step; s < f->layer.step + f->layer.count; s++)
        read |= as_codes(step_saves(s), s->kind->product ? multiplied : 0);
    for (int i = f->layer.count - 1; i >= 0; i--) {
        const layer_step *s = &f->layer.step[i];
        if (!(with_codes(step_makes(s), multiplied) & read & lacking)) continue;
        slot_set reads = as_codes(step_reads(s), s->kind->product ? multiplied : 0);
        again |= 1u << i;
        read |= reads;
        by_rows |= reads & ~lacking;
    }
    return (recomputing){ again, read & ~lacking, by_rows };
}

slot_set list_makes(const step_list *l)
{
    slot_set set = 0;
    for (int i = 0; i < l->count; i++) set |= step_makes(&l->step[i]);
    return set;
}
