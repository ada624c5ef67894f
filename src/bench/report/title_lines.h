/* The report's first lines: what was started, where, and what its words mean. */
#pragma once
#include "bench/facts/run_source.h"

/* Once a run, before its first case. */
void say_title(const run_source *run);
