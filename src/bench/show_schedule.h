/* --schedule: what every pipeline stage of a case does in a step, as lists and as a picture. */
#pragma once
#include "plan/bench_case.h"

/* Lists, picture, makespan, bubble and most live microbatches of each stage. For a case that can be laid out. */
void show_schedule(const bench_case *c);
