/* The machine that a case asks for. */
#pragma once
#include "machine/queue/machine.h"
#include "plan/bench_case.h"

/* Its options on this rank. */
machine_options case_machine(const bench_case *c);
/* What transfers have of its device; the same on all ranks. */
machine_room case_room(const bench_case *c);
