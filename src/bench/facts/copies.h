/* Comparison of the copies of a case, which train the same tokens. On the host and in deterministic runs, losses, norms
 * and weights must be equal bit by bit, otherwise losses within the limits of the check. */
#pragma once
#include "bench/facts/result.h"

/* Adds a reason if copies differ, with the copy that is not like most of them if there are more than two. */
void copies_compare(const case_result *r, reasons *to);
/* Puts the number of the copy before each sentence that concerns a rank. */
void copies_name(const case_result *r, reasons *in);
/* Writes "copy 1 (ranks 2 to 3, on host)". Returns text. */
enum { COPY_TEXT = 128 };
const char *copy_text(const case_result *r, int copy, char text[COPY_TEXT]);
