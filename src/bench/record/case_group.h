/* One case in the file: the group /case_0001 with its settings as attributes and its numbers as datasets. */
#pragma once
#include "bench/record/record.h"
#include "bench/record/writer.h"

/* Every setting: the keys of the deck under their names, then what follows from them. */
void settings_write(writer *w, const char *group, const bench_case *c);
/* Per step, per rank, per phase, per kind of operation, and the numbers of the report. Units everywhere. */
void results_write(writer *w, const char *group, const bench_case *c, const case_result *r);
