/* Report lines of a case before it runs: model, layout, planted fault. */
#pragma once
#include "plan/bench_case.h"

void say_case(const bench_case *c);
