/* The report's lines of a case before it runs: model, layout, placement, batch, rates. */
#pragma once
#include "plan/bench_case.h"

void say_case(const bench_case *c);
