/* The report's lines of what was checked: the check model beside its references, operations beside the host's. */
#pragma once
#include "bench/result/result.h"

/* which: 0 the check before the timed steps, 1 the one after. Nothing where there was none. */
void say_check(const case_result *r, int which);
/* Nothing where no operation was compared. */
void say_kernels(const shadow_report *s);
/* Nothing where ranks sum no gradients, or hold no weights in common. */
void say_conservation(const conservation *c);
