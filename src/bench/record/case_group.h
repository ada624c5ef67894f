/* One case in the file: the group /case_0001, whose attributes are its settings and whose groups hold its results, with
 * units everywhere. A case that was skipped has attributes only. */
#pragma once
#include "bench/record/writer.h"
#include "bench/result/result.h"

void case_write(writer *w, const char *group, const case_result *r);
