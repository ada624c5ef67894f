/* The state that a rank's main thread publishes for others: what it does, waits for and has completed. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One dimension of a group: number of members, and the distance of their world ranks. */
typedef struct {
    int32_t count, stride;
} group_dim;
/* A group of ranks: the first world rank, and dimensions, the fastest first. key: equal on all its ranks; 0: no group;
 * ACTIVITY_WORLD: all ranks. */
enum { GROUP_DIMS = 5, ACTIVITY_WORLD = 1 };
typedef struct {
    uint64_t key;
    int32_t first, size, dims;
    group_dim dim[GROUP_DIMS];
} activity_group;
/* Returns the world rank of a member. */
int rank_of_member(const activity_group *g, int member);

/* An operation, a library call or a part of the run. number: in its group, from 1; 0: none. order: like number, but it
 * grows even if numbers start again. step, microbatch, layer: -1 if none. */
typedef struct {
    char kind[24], name[48], axis[16], phase[16], type[8];
    int64_t step, number, elements;
    uint64_t order;
    int32_t microbatch, layer;
    activity_group group;
    double since; /* clock_seconds of the node; in messages to other nodes: the age */
} activity;
void activity_text(char *to, uint64_t length, const char *from); /* truncates, then fills with zeros */

/* An activity that others can read at any time: the writer fills the half that is not read, then swaps the halves. */
enum { ACTIVITY_WORDS = (sizeof(activity) + 7) / 8 };
typedef struct {
    _Atomic uint64_t version, word[2][ACTIVITY_WORDS];
} activity_cell;
void activity_store(activity_cell *c, const activity *a);
void activity_load(activity_cell *c, activity *a);

/* The published values, stored by the main thread only. progress: counts what was completed. */
enum { ACTIVITY_GROUPS = 32 };
typedef struct {
    _Atomic uint64_t progress;
    _Atomic double allowance; /* seconds */
    atomic_bool waits;
    activity_cell doing, waiting, completed;
    struct {
        _Atomic uint64_t key, order; /* of the last operation that was entered */
    } entered[ACTIVITY_GROUPS];
} activity_state;
/* Publishes at this place from now on. Copies the present values to it, except progress and the last completion. */
void activity_publish(activity_state *at);

/* Publishes what the main thread does from now on. number: -1 if it has none. */
void activity_doing(const char *what, int64_t number);
/* Publish progress: a completed operation, or progress without a name. */
void activity_completed(const activity *a);
void activity_progress(void);
/* Publishes that an operation of a group was entered. */
void activity_enter(const activity *a);
/* Publishes a wait, until activity_wait_end. A wait within a wait is part of it. */
void activity_wait(const activity *a);
void activity_wait_end(void);
/* Lets other processes run on this core; called between polls. */
void activity_yield(void);
/* Adds these seconds to the patience of the watch until the next call, for work that takes longer with more ranks. */
void activity_allow(double seconds);

/* Publishes that the next operation of the ranks first, ..., first + ranks - 1 is entered and waited for, until
 * activity_wait_end. all: they are all ranks. */
void activity_wait_for_ranks(const char *what, int first, int ranks, bool all);
/* Returns the number of these operations so far. */
uint64_t activity_era(void);
