/* Lines of the report about clocks, power and load: of devices at the ends of the measured window, and within it. */
#pragma once
#include "bench/facts/result.h"

/* Each says nothing where nothing is known. */
void say_clocks(const case_result *r);
void say_samples(const case_result *r);
