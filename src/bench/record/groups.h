/* Cases of the record as HDF5 groups. */
#pragma once
#include "bench/facts/result.h"
#include "bench/record/writer.h"

/* Returns the name of the case's group: "/case_0001". */
writer_path case_group(const bench_case *c);
/* Writes the case's group with settings and verdict, which are attributes. */
void case_write_settings(writer *w, const case_result *r);
/* Writes the case's group with settings and, unless it was skipped, all results. */
void case_write(writer *w, const case_result *r);
