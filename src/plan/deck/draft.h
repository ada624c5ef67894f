/* A case while it is resolved: first the deck's values, then what follows from the catalogue and the ranks. */
#pragma once
#include "plan/keys/deck_text.h"

typedef struct {
    bench_case c;   /* given keys have the deck's values from the start */
    int line[KEYS]; /* deck line of each key; 0: not given */
    const workload_row *workload;
    const deck_source *source;
    mistakes *wrong, *unmet; /* unmet: given keys that cannot be met at this number of ranks */
    bool is_unmet;
    const recipe_row *row; /* recipe's row of the layout; NULL: the row for the ranks used */
    int64_t proxy_layers;  /* layers of a proxy of full width; 0: none */
    double least_bytes;    /* bytes of a rank with the fewest layers of full width, if size auto asked for them */
} case_draft;

bool draft_given(const case_draft *d, key_id key);
/* Refuses the deck at the first given key of the list (terminated by KEYS), or at the section if none is given. */
void draft_refuse(const case_draft *d, const key_id *keys, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the size if it is auto, the layout and the ranks used; skips the case if there are too few ranks (layout.c).
 * On GPUs, auto is the recipe's model if it has a layout for so few ranks and fits into a device, else a proxy of full
 * width, else small. */
void layout_resolve(case_draft *d);
/* Sets the copies, the layout of one, and the ranks of all (copies.c). */
void copies_resolve(case_draft *d);
/* Sets the model: by size, then changed by the given shape keys (shape.c). */
void shape_resolve(case_draft *d);
/* Sets microbatch, global_batch and microbatches. If global_batch is not divisible, it rounds down, and draft_validate
 * refuses the case later (batch.c). */
void batch_resolve(case_draft *d);
/* Returns whether the recipe's batch divides among the data ranks, or the batch is not the recipe's (batch.c). Size and
 * layout must be set. */
bool batch_divides(const case_draft *d);
/* Sets recipe_gpus, recipe_layout and incomparable of an otherwise resolved case (recipe_layout.c). */
void recipe_compare(case_draft *d);
/* Returns a query for rows of the draft's workload and precision on its device. */
recipe_query draft_query(const case_draft *d, int64_t layers);
/* Returns the deck's layers if the recipe has rows of that depth, else 0 (any). */
int64_t draft_depth(const case_draft *d);
/* Returns the draft's row; else the recipe's row for the ranks used, of the model's depth if there are such rows; the
 * smallest row if there are too few ranks. */
const recipe_row *draft_row(const case_draft *d);
/* Returns whether the model has the recipe's width, heads and vocabulary; its depth may differ. */
bool has_recipe_width(const case_draft *d);
/* Returns `sharding`, or none if there is only one rank of data x context, as the recipes do. */
state_sharding effective_sharding(const mesh_layout *l, state_sharding sharding);
/* Returns the schedule of the recipes. */
schedule_kind schedule_by_chunks(const mesh_layout *l);
/* Sets one rank for each axis that the deck does not give. */
void layout_of_one(case_draft *d);
/* Refuses keys that contradict one another or the layout (contradictions.c). */
void draft_validate(const case_draft *d);
/* Returns whether the GPUs do not multiply FP8, and why. An FP8 case on them is skipped (resolve.c). */
bool source_lacks_fp8(const deck_source *s, char why[REASON_LENGTH]);
/* Resolves what follows from backend, size and layout (complete.c). */
void draft_complete(case_draft *d);
/* Completes a copy of a laid-out draft and reports none of its mistakes. Returns their number. */
int draft_try(const case_draft *d, case_draft *completed);
/* Resolves the whole case. Skips it if its mistakes come from the number of ranks (resolve.c). */
void draft_resolve(case_draft *d);
