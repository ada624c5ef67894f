/* A case of the record, or a part of it, as HDF5 groups. */
#pragma once
#include "bench/facts/result.h"
#include "bench/record/writer.h"

/* "/case_0001" */
writer_path case_group(const bench_case *c);
/* Writes its group with its settings and its verdict, which are attributes. */
void case_write_settings(writer *w, const case_result *r);
/* Writes its group with settings and, unless it was skipped, all results. */
void case_write(writer *w, const case_result *r);
