/* One forward, one backward (1F1B): one warm-up forward for each later stage, then a forward and a backward in turn.
 * PipeDream-flush: Narayanan et al. 2021 (memory-efficient pipeline-parallel DNN training), section 3.2. */
#include "plan/schedule/schedule.h"

void one_forward_one_backward_write(schedule *s, schedule_place p)
{
    int64_t later_stages = p.stages - p.stage - 1,
            warmup = later_stages < p.microbatches ? later_stages : p.microbatches;
    for (int64_t m = 0; m < warmup; m++) schedule_add(s, FORWARD, 0, m);
    for (int64_t m = warmup; m < p.microbatches; m++) {
        schedule_add(s, FORWARD, 0, m);
        schedule_add(s, BACKWARD, 0, m - warmup);
    }
    for (int64_t m = p.microbatches - warmup; m < p.microbatches; m++) schedule_add(s, BACKWARD, 0, m);
}
