/* What this rank's main thread does, waits for and has completed, as plain values at a place that others read. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Steps in world rank from one member of a group to the next. */
typedef struct {
    int32_t count, stride;
} group_dim;
/* Ranks that do something together: the first, and steps from it, the fastest first. The key is the same on all of
 * them; 0: there are none. ACTIVITY_WORLD: the key of all ranks. */
enum { GROUP_DIMS = 5, ACTIVITY_WORLD = 1 };
typedef struct {
    uint64_t key;
    int32_t first, size, dims;
    group_dim dim[GROUP_DIMS];
} activity_group;
/* Returns the world rank of a member. */
int rank_of_member(const activity_group *g, int member);

/* An operation, a call of a library or a part of the run. number: within its group, from 1; 0: none. order: grows in a
 * group, alike on all its ranks, even if numbers start anew. step, microbatch, layer -1: none. */
typedef struct {
    char kind[24], name[48], axis[16], phase[16], type[8];
    int64_t step, number, elements;
    uint64_t order;
    int32_t microbatch, layer;
    activity_group group;
    double since; /* clock_seconds of the node; sent elsewhere: the age */
} activity;
void activity_text(char *to, uint64_t length, const char *from); /* cut where it must be, zeros behind */

/* An activity of several words: written into the half that is not read, then the halves are swapped. */
enum { ACTIVITY_WORDS = (sizeof(activity) + 7) / 8 };
typedef struct {
    _Atomic uint64_t version, word[2][ACTIVITY_WORDS];
} activity_cell;
void activity_store(activity_cell *c, const activity *a);
void activity_load(activity_cell *c, activity *a);

/* What is published, with plain stores of the main thread. progress: counts what was completed. */
enum { ACTIVITY_GROUPS = 32 };
typedef struct {
    _Atomic uint64_t progress;
    _Atomic double allowance; /* seconds */
    atomic_bool waits;
    activity_cell doing, waiting, completed;
    struct {
        _Atomic uint64_t key, order; /* of the last that was entered */
    } entered[ACTIVITY_GROUPS];
} activity_state;
/* Publishes there from now on, beginning with what was published so far, without progress. */
void activity_publish(activity_state *at);

/* What the main thread does from here on; number -1: it has none. */
void activity_doing(const char *what, int64_t number);
/* It completed something: an operation, or something without a name. */
void activity_completed(const activity *a);
void activity_progress(void);
/* It has entered an operation of a group. */
void activity_enter(const activity *a);
/* It waits. A wait within a wait is a part of it. */
void activity_wait(const activity *a);
void activity_wait_end(void);
/* Between two polls: lets others run that share its core. */
void activity_yield(void);
/* Allows so much more time until the next call, for what takes longer with more ranks. */
void activity_allow(double seconds);

/* The next operation of all ranks, entered and waited for, until activity_wait_end. */
void activity_wait_for_all(const char *what, int ranks);
/* How many there were. */
uint64_t activity_era(void);
