/* The report's lines of checkpoints. */
#pragma once
#include "bench/facts/result.h"

/* What was loaded, what was saved, and which steps are not in the mean because of it; nothing if the deck asks for
 * none.
 */
void say_checkpoints(const case_result *r);
