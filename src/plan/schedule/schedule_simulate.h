/* Validation and simulation of all stages' lists: whether they form a training step, and how long it takes. */
#pragma once
#include "plan/schedule/schedule.h"

/* Links of a pipeline. Forward links carry activations from a stage to the next, backward links carry gradients to the
 * previous one. With several chunks the last stage and the first are neighbours. A stage receives on two links: verb *
 * pipeline + receiving stage, for the verbs FORWARD and BACKWARD. */
enum { NO_LINK = -1 };
/* Returns the link that brings an action's input or takes its output away; NO_LINK at the ends of the model and for
 * BACKWARD_WEIGHT. */
int link_in(const bench_case *c, int stage, const schedule_action *a);
int link_out(const bench_case *c, int stage, const schedule_action *a);
/* Returns the action that sends the input of this one (distance -1) or receives its output (1). Sets *stage to that
 * action's stage. */
schedule_action neighbour_action(const bench_case *c, int *stage, const schedule_action *a, int distance);

/* Durations of the actions of a chunk, in ticks. One tick is the forward of a chunk. */
typedef struct {
    int64_t cost[3]; /* by schedule_verb */
} schedule_costs;
/* Forward 1; backward 2, because it has two products for each of a forward; weight gradient of the LM head 0, because
 * the textbook's equal chunks have none. */
extern const schedule_costs schedule_unit_costs;

typedef struct {
    int64_t start, end; /* ticks */
} schedule_span;

enum { MISTAKE_LENGTH = 512 };
typedef struct {
    int stages, chunks;
    int64_t makespan;             /* ticks until the last action ends */
    int64_t *busy;                /* [stages]: ticks in which a stage works; its bubble is makespan - busy */
    schedule_span **span;         /* [stages][length]: when each action runs */
    char mistake[MISTAKE_LENGTH]; /* what is wrong, or empty; if set, the times are unknown */
} schedule_timing;                /* owned; free with schedule_timing_free */

/* Checks that the lists ([pipeline]) form a training step. Each forward, backward and deferred weight gradient must
 * occur once, in microbatch order within its chunk; each backward after its forward, each weight gradient after its
 * backward; each link must carry what its receiver expects. If not, writes a sentence and returns false. */
bool schedule_validate(const bench_case *c, const schedule *list, char mistake[MISTAKE_LENGTH]);

/* Validates the lists, then simulates all stages. Transfers of a link complete in order and take no time, but each
 * waits until its send and its receive are posted (rendezvous). A stage sends an output when it is computed, and reuses
 * the link's buffer when the transfer is complete. It posts a receive one action ahead. On a deadlock, the mistake
 * names the stages that wait for each other. */
schedule_timing schedule_simulate(const bench_case *c, const schedule *list, const schedule_costs *costs);
void schedule_timing_free(schedule_timing *t);

/* Prints a row for each stage, at most PICTURE_COLUMNS wide: one column or more for each tick, or only the first and
 * the last ticks. Each row ends with the bubble in percent of the makespan and the result of schedule_live. */
enum { PICTURE_COLUMNS = 72 };
void schedule_picture(const bench_case *c, const schedule *list, const schedule_timing *t, FILE *out);
