/* Windows: memory that ranks of a stage lay out alike, so that copy engines can move between them. */
#pragma once
#include "plan/bench_case.h"
#include "train/measure.h"

/* Sets the window of the measure and of its calibration, in bytes; 0 if layouts differ. Collective over the world. */
void window_agree(const bench_case *c, measure *r);
