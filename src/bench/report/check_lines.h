/* The report's lines of what was checked: the check model, the replayed steps. */
#pragma once
#include "bench/facts/result.h"

/* Prints the residual and, where it failed, why. */
void say_check(const check_result *k);
/* Prints what was computed again, and what differed; nothing where nothing was compared. */
void say_replay(const case_result *r);
