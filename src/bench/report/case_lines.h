/* The report's lines of a case before it runs: model, layout; with details: placement, batch, rates. */
#pragma once
#include "plan/bench_case.h"

void say_case(const bench_case *c);
void say_case_details(const bench_case *c);
