/* The machine that a case asks for. */
#pragma once
#include "machine/queue/machine.h"
#include "plan/bench_case.h"

/* Its options on this rank. */
machine_options case_machine(const bench_case *c);
/* Thread blocks of its communicators; the same on all ranks. */
transfer_blocks case_blocks(const bench_case *c);
