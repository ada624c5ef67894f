/* The report's lines of what was checked: the check model beside its references, operations beside the host's. */
#pragma once
#include "bench/result/result.h"

/* Prints nothing if there was no check. */
void say_check(const case_result *r);
/* Prints nothing if no operation was compared. */
void say_kernels(const shadow_report *s);
/* The same of the replayed steps. */
void say_replay(const case_result *r);
/* Nothing where ranks sum no gradients, or hold no weights in common. */
void say_conservation(const conservation *c);
