/* Publication of what the main thread does. The place is process-wide state, because there is one main thread. */
#include "machine/op/activity.h"
#include "base/clock.h"
#include <sched.h>
#include <string.h>

/* Polls between two yields. 8 was the best of 1, 4, 8, 16, 64 for 2 to 8 ranks on 2 cores, with Open MPI and MPICH. */
enum { POLLS_PER_YIELD = 8, READ_ATTEMPTS = 100000 }; /* attempts: 10 ms; a reader on a busy core loses many races */

static activity_state unpublished;
static _Atomic(activity_state *) published = &unpublished;
static int wait_depth;
static unsigned polls;
static uint64_t era, waits_for_all;

void activity_text(char *to, uint64_t length, const char *from)
{
    size_t used = from ? strnlen(from, length - 1) : 0;
    if (used) memcpy(to, from, used);
    memset(to + used, 0, length - used);
}

int rank_of_member(const activity_group *g, int member)
{
    int rank = g->first;
    for (int i = 0; i < g->dims; i++) {
        rank += member % g->dim[i].count * g->dim[i].stride;
        member /= g->dim[i].count;
    }
    return rank;
}

void activity_store(activity_cell *c, const activity *e)
{
    uint64_t word[ACTIVITY_WORDS] = { 0 };
    uint64_t next = atomic_load_explicit(&c->version, memory_order_relaxed) + 1;
    memcpy(word, e, sizeof *e);
    for (int i = 0; i < ACTIVITY_WORDS; i++)
        atomic_store_explicit(&c->word[next & 1][i], word[i], memory_order_relaxed);
    atomic_store_explicit(&c->version, next, memory_order_release);
    /* The words of the next store must not be seen before this version. */
    atomic_thread_fence(memory_order_release);
}

/* Reads the half that is not being written, and again if the writer has come back to it meanwhile. */
void activity_load(activity_cell *c, activity *e)
{
    uint64_t word[ACTIVITY_WORDS];
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        uint64_t version = atomic_load_explicit(&c->version, memory_order_acquire);
        for (int i = 0; i < ACTIVITY_WORDS; i++)
            word[i] = atomic_load_explicit(&c->word[version & 1][i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&c->version, memory_order_relaxed) == version) break;
    }
    memcpy(e, word, sizeof *e);
}

/* ---- what the main thread publishes ---- */

static activity_state *state(void) { return atomic_load_explicit(&published, memory_order_relaxed); }

static void copy_cell(activity_cell *to, activity_cell *from)
{
    activity a;
    activity_load(from, &a);
    activity_store(to, &a);
}

void activity_publish(activity_state *at)
{
    activity_state *before = state();
    at->allowance = before->allowance;
    copy_cell(&at->doing, &before->doing);
    copy_cell(&at->waiting, &before->waiting);
    at->waits = before->waits;
    for (int i = 0; i < ACTIVITY_GROUPS; i++) {
        at->entered[i].order = before->entered[i].order;
        at->entered[i].key = before->entered[i].key;
    }
    published = at;
}

void activity_allow(double seconds) { state()->allowance = seconds; }

/* Only one thread writes the count, so the bus need not be locked for an atomic addition. */
void activity_progress(void)
{
    activity_state *s = state();
    uint64_t n = atomic_load_explicit(&s->progress, memory_order_relaxed);
    atomic_store_explicit(&s->progress, n + 1, memory_order_relaxed);
}

void activity_doing(const char *what, int64_t number)
{
    activity e = { .number = number + 1, .since = clock_seconds() };
    activity_text(e.kind, sizeof e.kind, what);
    activity_store(&state()->doing, &e);
    activity_progress();
}

void activity_completed(const activity *e)
{
    activity_store(&state()->completed, e);
    activity_progress();
}

/* If all places are taken, the group takes the place of another one. */
void activity_enter(const activity *e)
{
    activity_state *s = state();
    int at = 0;
    while (at < ACTIVITY_GROUPS && s->entered[at].key && s->entered[at].key != e->group.key) at++;
    if (at == ACTIVITY_GROUPS) at = (int)(e->group.key % ACTIVITY_GROUPS);
    atomic_store_explicit(&s->entered[at].order, e->order, memory_order_relaxed);
    atomic_store_explicit(&s->entered[at].key, e->group.key, memory_order_release);
}

void activity_wait(const activity *e)
{
    if (wait_depth++) return;
    activity_state *s = state();
    activity_store(&s->waiting, e);
    atomic_store_explicit(&s->waits, true, memory_order_release);
}

void activity_wait_end(void)
{
    if (--wait_depth == 0) atomic_store_explicit(&state()->waits, false, memory_order_release);
}

/* Parts of the world may differ in the number of their operations. */
void activity_wait_for_ranks(const char *what, int first, int ranks, bool all)
{
    activity e = { .step = -1, .microbatch = -1, .layer = -1, .since = clock_seconds() };
    activity_text(e.kind, sizeof e.kind, what);
    activity_text(e.axis, sizeof e.axis, all ? "world" : "copy");
    era++;
    e.order = all ? ++waits_for_all : era;
    e.number = (int64_t)e.order;
    e.group = (activity_group){ ACTIVITY_WORLD, first, ranks, 1, { { ranks, 1 } } };
    if (!all) e.group.key += 1 + (uint64_t)first;
    activity_enter(&e);
    activity_wait(&e);
}

uint64_t activity_era(void) { return era; }

/* MPICH never yields while it polls: without this, ranks on one core wait for each other's time slices. */
void activity_yield(void)
{
    if (++polls % POLLS_PER_YIELD == 0) sched_yield();
}
