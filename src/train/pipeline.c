/* The runner of schedules: the list says what, this says to whom. */
#include "train/pipeline.h"

void pipeline_submit(trainer *t)
{
    for (int64_t i = 0; i < t->schedule.length; i++) {
        const schedule_action *a = &t->schedule.action[i];
        if (a->verb == FORWARD) stage_forward(&t->stage, a->chunk, a->microbatch);
        else stage_backward(&t->stage, a->chunk, a->microbatch);
    }
}
