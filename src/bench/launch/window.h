/* Which ranks lay a case out alike. */
#pragma once
#include "plan/bench_case.h"
#include "train/measure.h"

/* Sets the window of the measure and of its calibration. Collective over the world. */
void window_agree(const bench_case *c, measure *r);
