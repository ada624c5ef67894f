/* A case while it is being resolved: what the deck gives, then what follows from the catalogue and the ranks. */
#pragma once
#include "plan/keys/deck_text.h"

typedef struct {
    bench_case c;   /* fields of given keys hold the deck's values from the start */
    int line[KEYS]; /* deck line of a given key, 0 of the others */
    const workload_row *workload;
    const deck_source *source;
    mistakes *wrong;
} case_draft;

bool draft_given(const case_draft *d, key_id key);
/* Refuses the deck at the line and under the name of the first given key of the list (ended by KEYS), else of the
 * section. */
void draft_refuse(const case_draft *d, const key_id *keys, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* plan/deck/layout.c: degrees, ranks used; size auto resolved on the way; skipped if the ranks do not suffice. */
void layout_resolve(case_draft *d);
/* plan/deck/shape.c: the whole model by size, overridden by the shape keys given. */
void shape_resolve(case_draft *d);
/* plan/deck/batch.c: microbatch, global_batch, microbatches (rounded down if global_batch is not divisible, which
 * draft_compare looks for). */
void batch_resolve(case_draft *d);
/* plan/deck/recipe_layout.c: recipe_gpus, recipe_layout, incomparable, of a case that is resolved otherwise. */
void recipe_compare(case_draft *d);
/* Asks for rows of the draft's workload and precision on its device. */
recipe_query draft_query(const case_draft *d, int64_t layers);
/* The depth given, if the recipe has rows of it, else 0: any. */
int64_t draft_depth(const case_draft *d);
/* The recipe's row for the ranks used and the depth of the resolved model, below the smallest that one; any depth if it
 * has no such row. */
const recipe_row *draft_row(const case_draft *d);
/* Width, heads and vocabulary of the recipe's model, at any depth? */
bool has_recipe_width(const case_draft *d);
/* What a sharding comes to on a layout; the recipes' schedule, and the default. */
state_sharding sharding_between(const mesh_layout *l, state_sharding sharding);
schedule_kind schedule_by_chunks(const mesh_layout *l);
/* plan/deck/contradictions.c: refuses keys that contradict one another; skips the case where only the ranks at hand do.
 */
void draft_compare(case_draft *d);
/* plan/deck/resolve.c: all of it, in order. */
void draft_resolve(case_draft *d);
