/* The report's lines of what was checked: the check model beside its references, operations beside the host's. */
#pragma once
#include "bench/result/result.h"

/* which: 0 the check before the timed steps, 1 the one after. Nothing where there was none. */
void say_check(const case_result *r, int which);
/* Nothing where no operation was compared. */
void say_kernels(const shadow_report *s);
/* The same of the replayed steps. */
void say_replay(const case_result *r);
