/* The links of a pipeline as its schedules use them: activations go along forward links from a stage to the next,
 * gradients along backward links to the one before; with several chunks the last stage and the first are neighbours. */
#pragma once
#include "plan/schedule/schedule.h"

/* Two a stage: link verb * pipeline + receiving stage, for the verbs FORWARD and BACKWARD. */
enum { NO_LINK = -1 };
/* The link that brings an action's input or takes its output away; NO_LINK at the ends of the model and for
 * BACKWARD_WEIGHT. */
int link_in(const bench_case *c, int stage, const schedule_action *a);
int link_out(const bench_case *c, int stage, const schedule_action *a);
/* The action that hands this one its input, or takes its output, along that link; *stage becomes the neighbour's. */
schedule_action action_before(const bench_case *c, int *stage, const schedule_action *a);
schedule_action action_after(const bench_case *c, int *stage, const schedule_action *a);
