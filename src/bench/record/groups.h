/* A case of the record, or a part of it, as HDF5 groups. */
#pragma once
#include "bench/record/writer.h"
#include "bench/result/result.h"

/* "/case_0001" */
writer_path case_group(const bench_case *c);
/* Its group with its settings, which are attributes; of the result, the verdict. */
void case_write_settings(writer *w, const case_result *r);
/* All of it. One that was skipped has settings only. */
void case_write(writer *w, const case_result *r);
