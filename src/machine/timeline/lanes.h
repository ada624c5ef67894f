/* The state of a timeline: ranks (actors), their queues (lanes) and the transfers that they share (meetings). */
#pragma once
#include "machine/timeline/priced.h"

/* The state of a lane's head. MEETS: a transfer waits for its peers; MET: it then waits for the thread of its rank. */
typedef enum { OVER, WAITS, READY, MEETS, MET, RUNS } lane_stage;
typedef struct meeting meeting;

/* A queue of a rank. Its present operation, the head, is list[index[position]] of the rank's submissions. */
typedef struct {
    const int32_t *index;
    int64_t position, length;
    lane_stage stage;
    bool refused;                /* it found too few free multiprocessors at this instant */
    double begin, rate_begin;    /* begin of the head, and of its present rate */
    double remaining, rate, end; /* remaining: seconds alone, at rate_begin */
    double stretch;              /* factor of price.seconds, chosen at the begin */
    meeting *meeting;            /* meeting of the head while it takes part; else NULL */
    double path[TIMELINE_TERMS];
} lane;

/* A rank that represents its pipeline stage. */
typedef struct {
    int rank, held_by_transfers, filled_by_product; /* the last two in multiprocessors */
    const timeline_rank *input;
    int32_t *index; /* lane.index of all lanes; owned */
    lane lane[HAZARD_QUEUES], *computing;
    uint64_t completed[HAZARD_QUEUES];
    bool ended, changed;    /* at this instant an operation ended; the set of running operations changed */
    double accounted_until; /* until then it computed, or its exposed transfers were reported */
    meeting **meeting;      /* [groups]; owned */
} actor;

/* A group with several ranks of the timeline, where each transfer waits until all members have arrived. */
struct meeting {
    const group *group;
    int members, arrived, rank[TIMELINE_RANKS];
    lane *lane[TIMELINE_RANKS];
};

typedef struct {
    const timeline_options *options;
    int ranks, meetings;
    actor *actor;
    meeting *meeting;
    double now, path[TIMELINE_TERMS]; /* path: of the last operation that ended */
} timeline;

void timeline_open(timeline *t, const timeline_rank *rank, int ranks, const timeline_options *o);
void timeline_close(timeline *t);
/* Returns whether all operations have ended. If not, writes which operations wait for what. */
bool timeline_over(const timeline *t, char *why, size_t length);

const submitted *head_of(const actor *a, const lane *l);
const price *price_of(const actor *a, const lane *l);
bool is_transfer(const actor *a, const lane *l);
bool dependencies_complete(const actor *a, const lane *l);
meeting *meeting_of(const actor *a, const lane *l); /* NULL: no other rank of the timeline is in the group */
int member_of(const meeting *m, int rank);
