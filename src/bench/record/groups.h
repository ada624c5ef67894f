/* A case of the record, or a part of it, as HDF5 groups. */
#pragma once
#include "bench/record/chain.h"
#include "bench/record/writer.h"
#include "bench/result/result.h"

/* "/case_0001" */
writer_path case_group(const bench_case *c);
/* Its group with its settings, which are attributes; of the result, the verdict. */
void case_write_settings(writer *w, const case_result *r);
/* Of a step that has ended; `seconds`: rank 0's. */
step_numbers step_numbers_of(const case_result *r, int64_t step, double seconds);
/* All of it, with the links of its steps and the one behind it, which is returned; `before` is the one before it. One
 * that was skipped has settings only. */
chain_link case_write(writer *w, const case_result *r, const chain_link *before);
