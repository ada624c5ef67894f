/* GPipe: all forwards, then all backwards. Huang et al. 2019, section 2.2. The backwards run in microbatch order, not
 * in reverse, so that gradients accumulate as in every other schedule. */
#include "plan/schedule/schedule.h"

void gpipe_write(schedule *s, schedule_place p)
{
    for (int64_t m = 0; m < p.microbatches; m++) schedule_add(s, FORWARD, 0, m);
    for (int64_t m = 0; m < p.microbatches; m++) schedule_add(s, BACKWARD, 0, m);
}
