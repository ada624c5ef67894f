/* Who stands where on the timeline. */
#pragma once
#include "machine/timeline/priced.h"

/* MET: a transfer whose peers are there, before its rank's thread takes it up. */
typedef enum { OVER, WAITS, READY, MEETS, MET, RUNS } lane_stage;
typedef struct meeting meeting;

/* A queue of a rank. Its head is list[head[at]] of the rank's submissions. */
typedef struct {
    const int32_t *head;
    int64_t at, length;
    lane_stage stage;
    bool refused;           /* it found no multiprocessors, this time */
    double begin, since;    /* of the head; of its present rate */
    double left, rate, end; /* seconds by itself that were left at `since`; their speed; when it will end */
    double stretch;         /* as begun */
    meeting *meets;         /* where it meets its peers, or NULL */
    double path[TIMELINE_TERMS];
} lane;

/* A rank that stands for its stage. */
typedef struct {
    int rank, held, filled; /* multiprocessors that transfers hold; that the running product fills */
    const timeline_rank *given;
    int32_t *heads; /* of all lanes; owned */
    lane lane[HAZARD_QUEUES], *computing;
    uint64_t completed[HAZARD_QUEUES];
    bool ended;        /* something, at this instant */
    bool changed;      /* what runs, at this instant */
    double told;       /* until when it computed, or its exposed transfers are told */
    meeting **meeting; /* [groups]; owned */
} actor;

/* A group that several of the ranks are in. */
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
    double now, path[TIMELINE_TERMS]; /* path: of the operation that ended last */
} timeline;

void timeline_open(timeline *t, const timeline_rank *rank, int ranks, const timeline_options *o);
void timeline_close(timeline *t);
/* Is everything done? If not, writes who waits for whom. */
bool timeline_over(const timeline *t, char *why, size_t length);

const submitted *head_of(const actor *a, const lane *l);
const price *price_of(const actor *a, const lane *l);
bool is_transfer(const actor *a, const lane *l);
bool awaits_nothing(const actor *a, const lane *l);
meeting *meeting_of(const actor *a, const lane *l); /* NULL: nobody else is on the timeline */
int member_of(const meeting *m, int rank);
