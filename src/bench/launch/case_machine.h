/* The machine that a case asks for. */
#pragma once
#include "machine/queue/machine.h"
#include "plan/bench_case.h"

/* Returns the machine's options on this rank. */
machine_options case_machine(const bench_case *c);
/* Returns the thread blocks of its communicators; the same on all ranks. */
transfer_blocks case_blocks(const bench_case *c);
