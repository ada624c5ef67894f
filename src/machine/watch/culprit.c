/* A rank that waits for an operation of a group blames the members that have not entered it. */
#include "machine/watch/culprit.h"
#include <stdlib.h>

static const rank_state *state_of_rank(const rank_state *s, int count, int rank)
{
    for (int k = 0; k < count; k++) /* mostly in the order of ranks */
        if (s[(rank + k) % count].rank == rank) return &s[(rank + k) % count];
    return NULL;
}

/* A rank that has entered the operation and waits for nobody is stuck inside it. */
static bool blocks(const rank_state *s, const activity *e)
{
    return !rank_has_entered(s, e) || (!s->waits && s->presence == RANK_PRESENT);
}

static bool is_busy(const rank_state *s) { return s->presence == RANK_PRESENT && !s->waits && !rank_is_unreachable(s); }

/* Returns how well a rank is excused: 0 not at all, 1 because it is unreachable, 2 because it waits. */
static int excuse(const rank_state *s) { return s->waits ? 2 : rank_is_unreachable(s); }

/* Returns a rank that keeps rank i waiting, or -1. Prefers one that waits for nobody, then the last one that waits,
 * then an unreachable one. */
static int awaited_by(const rank_state *s, int count, int i)
{
    int found = -1;
    const activity *e = &s[i].waiting;
    if (!s[i].waits || !e->group.key) return -1;
    for (int m = 0; m < e->group.size; m++) {
        const rank_state *other = state_of_rank(s, count, rank_of_member(&e->group, m));
        if (!other || other == &s[i] || !blocks(other, e)) continue;
        if (found < 0 || (excuse(&s[found]) && !rank_is_unreachable(other))) found = (int)(other - s);
    }
    return found;
}

static int waiter_for(const rank_state *s, int count, int blamed)
{
    int any = -1;
    for (int i = 0; i < count; i++) {
        if (i == blamed || !s[i].waits) continue;
        if (awaited_by(s, count, i) == blamed) return i;
        any = any < 0 ? i : any;
    }
    return any;
}

static int first_with(const rank_state *s, int count, bool (*is)(const rank_state *s))
{
    for (int i = 0; i < count; i++)
        if (is(&s[i])) return i;
    return -1;
}

/* Each waiting rank blames one rank. Picks the rank with the least excuse; among equals the most blamed; among these
 * the one that completed most, because it skipped an operation. */
static int most_blamed(const rank_state *s, int count)
{
    int *votes = calloc((size_t)count, sizeof *votes), best = -1;
    for (int i = 0; votes && i < count; i++) {
        int blamed = awaited_by(s, count, i);
        if (blamed >= 0) votes[blamed]++;
    }
    for (int i = 0; votes && i < count; i++) {
        if (votes[i] == 0) continue;
        bool better = best < 0 || excuse(&s[i]) < excuse(&s[best]);
        bool equal = best >= 0 && excuse(&s[i]) == excuse(&s[best]);
        better = better ||
                 (equal && (votes[i] > votes[best] || (votes[i] == votes[best] && s[i].heartbeat > s[best].heartbeat)));
        if (better) best = i;
    }
    free(votes);
    return best;
}

static bool others_have_completed(const rank_state *s, int count, int i)
{
    const activity *e = &s[i].waiting;
    for (int m = 0; m < e->group.size; m++) {
        const rank_state *other = state_of_rank(s, count, rank_of_member(&e->group, m));
        if (other && other != &s[i] && rank_entered(other, e->group.key) <= e->order) return false;
    }
    return e->group.key != 0;
}

/* Follows the chain of waits. If all have entered its last operation, that operation is not delivered. */
static culprit follow(const rank_state *s, int count, int blamed)
{
    int from = waiter_for(s, count, blamed), at = blamed;
    if (rank_is_unreachable(&s[blamed])) return (culprit){ CAUSE_UNREACHABLE, blamed, from };
    for (int hop = 0; hop < count && s[at].waits; hop++) {
        int next = awaited_by(s, count, at);
        if (next < 0 && others_have_completed(s, count, at)) return (culprit){ CAUSE_OTHERS_COMPLETED, blamed, from };
        if (next < 0) return (culprit){ CAUSE_UNDELIVERED, at, at };
        at = next;
    }
    return (culprit){ CAUSE_NOT_ENTERED, blamed, from };
}

static int longest_waiting(const rank_state *s, int count)
{
    int found = -1;
    for (int i = 0; i < count; i++)
        if (s[i].waits && (found < 0 || s[i].waiting.since < s[found].waiting.since)) found = i;
    return found;
}

culprit culprit_find(const rank_state *s, int count)
{
    static bool (*const is[])(const rank_state *s) = { rank_is_dead, rank_is_stopped, rank_is_absent };
    for (int i = 0; i < 3; i++) {
        int blamed = first_with(s, count, is[i]);
        if (blamed >= 0) return (culprit){ (cause)i, blamed, waiter_for(s, count, blamed) };
    }
    int blamed = most_blamed(s, count);
    if (blamed >= 0) return follow(s, count, blamed);
    blamed = first_with(s, count, is_busy);
    if (blamed >= 0) return (culprit){ CAUSE_NOT_ENTERED, blamed, waiter_for(s, count, blamed) };
    blamed = longest_waiting(s, count);
    return (culprit){ CAUSE_UNDELIVERED, blamed < 0 ? 0 : blamed, blamed };
}
