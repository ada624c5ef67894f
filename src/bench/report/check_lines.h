/* Report lines of the checks: check model, replayed steps. */
#pragma once
#include "bench/facts/result.h"

/* Prints the residual, and the reason if the check failed. */
void say_check(const check_result *k);
/* Prints what the replay compared and what differed. Prints nothing if nothing was compared. */
void say_replay(const case_result *r);
