/* The numbers of the measured window, from the per-step ones. */
#pragma once
#include "bench/result/result.h"

void summarize(case_result *r);
