/* What is known of a rank from outside: what it does, what it waits for, what it completed last. Plain values, as they
 * are written into memory that others read, and sent to other nodes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Ranks that do something together: first, and so many counts and strides in world rank, the fastest first. The same
 * key on all of them, 0: there are none. */
enum { WATCH_DIMS = 5 };
typedef struct {
    uint64_t key;
    int32_t first, size, dims, count[WATCH_DIMS], stride[WATCH_DIMS];
} watch_group;
int watch_member(const watch_group *g, int32_t member);

/* An operation, a call of a library or a part of the run. number: among those of its group, from 1; 0: it has none.
 * order: grows from one of a group's to the next, alike on all its ranks, also where their numbers start anew. step,
 * microbatch, layer -1: of none. */
typedef struct {
    char kind[24], name[48], axis[16], phase[16], type[8];
    int64_t step, number, elements;
    uint64_t order;
    int32_t microbatch, layer;
    watch_group group;
    double since; /* clock_seconds of the node; sent elsewhere: the age */
} watch_event;
void watch_text(char *to, uint64_t length, const char *from); /* cut where it must be, zeros behind */

/* LEFT: it was asked what needs no ranks, and does not start MPI. */
typedef enum { RANK_ABSENT, RANK_HERE, RANK_ENDING, RANK_ENDED, RANK_LEFT } rank_presence;
enum { RANK_GROUPS = 32, RANK_HOST = 40 };
typedef struct {
    int32_t rank, pid;
    rank_presence presence;
    char host[RANK_HOST];
    char process; /* its state as /proc names it; 'X' gone, '?' not known */
    bool waits;
    uint64_t heartbeat;
    double silent, patience; /* seconds since its watching thread ticked; those it waits before it gives up */
    watch_event doing, waiting, completed;
    struct {
        uint64_t key, order; /* of the last that it entered */
    } entered[RANK_GROUPS];
} rank_state;

uint64_t rank_entered(const rank_state *s, uint64_t key); /* order of the last of that group; 0: none */
bool rank_has_entered(const rank_state *s, const watch_event *e);
bool rank_is_dead(const rank_state *s);
bool rank_is_stopped(const rank_state *s);
bool rank_is_absent(const rank_state *s);
bool rank_is_unheard(const rank_state *s); /* nothing is known of it here */
void rank_lose(rank_state *s);             /* marks it so */
/* Ages for times, or times for ages. */
void states_turn(rank_state *s, int count, double now);

/* The node of a rank. slots: ranks of it; 0: this rank is not the first of its node. */
typedef struct {
    uint64_t board;
    int32_t slots;
    char host[RANK_HOST];
} node_place;
