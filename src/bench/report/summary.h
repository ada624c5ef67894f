/* The last table of the report: a line for each case; a column for the layout where cases differ in it, for repeats
 * where there are some, for each key that the deck sweeps. */
#pragma once
#include "bench/result/result.h"
#include "plan/deck/deck.h"

typedef struct {
    const bench_case *given;
    verdict verdict;
    double seconds, tokens_per_second, residual; /* NaN: none */
    bool valid;
    acceptance acceptance;
} summary_row;

/* "T2 P2 C1 E1 D1 S1 V2": ranks of the axes tensor, pipeline, context, expert, data, shard; V: chunks of a stage, if
 * several. Returns text. */
enum { LAYOUT_TEXT = 64 };
const char *layout_text(const mesh_layout *l, char text[LAYOUT_TEXT]);

summary_row summary_row_of(const case_result *r);
/* Prints the rows of the cases that ended; nothing where there is but one. */
void summary_print(const deck *d, const summary_row *row, int rows);
