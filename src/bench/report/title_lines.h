/* First lines of the report: program, deck, machine. */
#pragma once
#include "bench/facts/run_source.h"

/* Call it once, before the first case. */
void say_title(const run_source *run);
