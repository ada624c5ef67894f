/* The state of a timeline: ranks, their queues (lanes) and the transfers that they share (meetings). */
#pragma once
#include "machine/timeline/priced.h"

/* MET: a transfer whose peers have arrived and which waits for the thread of its rank. */
typedef enum { OVER, WAITS, READY, MEETS, MET, RUNS } lane_stage;
typedef struct meeting meeting;

/* A queue of a rank. Its present operation (head) is list[head[at]] of the rank's submissions. */
typedef struct {
    const int32_t *head;
    int64_t at, length;
    lane_stage stage;
    bool refused;           /* it found no free multiprocessors at this instant */
    double begin, since;    /* begin of the head; begin of its present rate */
    double left, rate, end; /* seconds alone that were left at `since`; rate; time of the end */
    double stretch;         /* factor of the seconds, chosen at the begin */
    meeting *meets;         /* its meeting while peers take part, or NULL */
    double path[TIMELINE_TERMS];
} lane;

/* A rank that represents its pipeline stage. */
typedef struct {
    int rank, held, filled; /* multiprocessors that transfers hold; that the running product fills */
    const timeline_rank *given;
    int32_t *heads; /* the submissions of all lanes; owned */
    lane lane[HAZARD_QUEUES], *computing;
    uint64_t completed[HAZARD_QUEUES];
    bool ended;        /* an operation ended at this instant */
    bool changed;      /* the running operations changed at this instant */
    double told;       /* time until which it computed or its exposed transfers were reported */
    meeting **meeting; /* [groups]; owned */
} actor;

/* A group with several ranks of the timeline. here: members whose transfer has arrived. */
struct meeting {
    const group *of;
    int members, here, rank[TIMELINE_RANKS];
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
bool awaits_nothing(const actor *a, const lane *l);
meeting *meeting_of(const actor *a, const lane *l); /* NULL: no other rank of the timeline is in the group */
int member_of(const meeting *m, int rank);
