/* The state of a rank, as other ranks read it on the board or in messages of other nodes. */
#pragma once
#include "machine/op/activity.h"

/* LEFT: the process only answers an option that needs no ranks, and does not start MPI. */
typedef enum { RANK_ABSENT, RANK_PRESENT, RANK_ENDING, RANK_ENDED, RANK_LEFT } rank_presence;
enum { RANK_HOST = 40 };
typedef struct {
    int32_t rank, pid;
    rank_presence presence;
    char host[RANK_HOST];
    char process; /* state letter of /proc; 'X': gone, '?': unknown, 'L': unreachable */
    bool waits;
    uint64_t heartbeat;
    double silent, patience; /* seconds since its watching thread ran; limit of a wait */
    activity doing, waiting, completed;
    struct {
        uint64_t key, order; /* of the last operation that it entered */
    } entered[ACTIVITY_GROUPS];
} rank_state;

uint64_t rank_entered(const rank_state *s, uint64_t key); /* order of the last operation of that group; 0: none */
bool rank_has_entered(const rank_state *s, const activity *e);
bool rank_is_dead(const rank_state *s);
bool rank_is_stopped(const rank_state *s);
bool rank_is_absent(const rank_state *s);
bool rank_is_unreachable(const rank_state *s); /* its node does not answer */
void rank_set_unreachable(rank_state *s);
/* Converts times to ages, or ages to times. */
void states_convert_times(rank_state *s, int count, double now);

/* The node of a rank. slots: number of ranks on the node; 0 if this rank is not the first of them. */
typedef struct {
    uint64_t board;
    int32_t slots;
    char host[RANK_HOST];
} node_place;
