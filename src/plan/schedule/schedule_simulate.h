/* All stages' lists at once: is it a step of training, and how long does it take? Paper only. */
#pragma once
#include "plan/schedule/schedule.h"

/* The links of a pipeline as its schedules use them: activations go along forward links from a stage to the next,
 * gradients along backward links to the one before; with several chunks the last stage and the first are neighbours.
 * Two a stage: link verb * pipeline + receiving stage, for the verbs FORWARD and BACKWARD. */
enum { NO_LINK = -1 };
/* The link that brings an action's input or takes its output away; NO_LINK at the ends of the model and for
 * BACKWARD_WEIGHT. */
int link_in(const bench_case *c, int stage, const schedule_action *a);
int link_out(const bench_case *c, int stage, const schedule_action *a);
/* The action that hands this one its input (distance -1) or takes its output (1) along that link; *stage becomes the
 * neighbour's. */
schedule_action action_beside(const bench_case *c, int *stage, const schedule_action *a, int distance);

/* What one action of a chunk costs, in ticks. A tick is a chunk's forward: 1 / chunks_per_stage of a stage's. */
typedef struct {
    int64_t cost[3]; /* by schedule_verb */
} schedule_costs;
/* Forward 1, backward 2: a backward has two products for each of a forward. The LM head's weight gradient is no part of
 * the textbook's equal chunks: 0. */
extern const schedule_costs schedule_unit_costs;

typedef struct {
    int64_t start, end; /* ticks */
} schedule_span;

enum { MISTAKE_LENGTH = 512 };
typedef struct {
    int stages, chunks;
    int64_t makespan;             /* ticks until the last stage has done its last action */
    int64_t *busy;                /* [stages] ticks in which a stage works; its bubble is the makespan less that */
    schedule_span **span;         /* [stages][length]: when each action runs */
    char mistake[MISTAKE_LENGTH]; /* non-empty: what is wrong, a sentence; the times are unknown */
} schedule_timing;                /* schedule_timing_free */

/* Is each forward and backward there once, in microbatch order within its chunk, every backward after its forward,
 * every deferred weight gradient once, in order and after its backward, and does every link carry what its receiver
 * expects? list: [pipeline]. If not, writes the sentence and returns false. */
bool schedule_validate(const bench_case *c, const schedule *list, char mistake[MISTAKE_LENGTH]);

/* Validates, then runs all stages. A link is a queue: its transfers keep their order and take no time, but each needs
 * both ends (rendezvous). A stage sends an output when it is computed and reuses its buffer, one for each link, when it
 * has gone; it posts the receive of an action's input one action ahead. If nobody can go on, the mistake says who waits
 * for whom. */
schedule_timing schedule_simulate(const bench_case *c, const schedule *list, const schedule_costs *costs);
void schedule_timing_free(schedule_timing *t);

/* Prints a row for each stage, time running right, at most PICTURE_COLUMNS wide: beginning and end where the whole does
 * not fit. The bubble in percent of the makespan and the most live microbatches end each row. */
enum { PICTURE_COLUMNS = 72 };
void schedule_picture(const bench_case *c, const schedule *list, const schedule_timing *t, FILE *out);
