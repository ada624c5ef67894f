/* Conditions of a rank's state. */
#include "machine/watch/state.h"
#include <string.h>

uint64_t rank_entered(const rank_state *s, uint64_t key)
{
    for (int i = 0; i < ACTIVITY_GROUPS; i++)
        if (s->entered[i].key == key) return s->entered[i].order;
    return 0;
}

bool rank_has_entered(const rank_state *s, const activity *e)
{
    return s->presence != RANK_ABSENT && rank_entered(s, e->group.key) >= e->order;
}

bool rank_is_dead(const rank_state *s) { return s->presence == RANK_PRESENT && s->process == 'X'; }
bool rank_is_stopped(const rank_state *s) { return s->presence == RANK_PRESENT && strchr("Tt", s->process); }
bool rank_is_absent(const rank_state *s) { return s->presence == RANK_ABSENT; }
bool rank_is_unreachable(const rank_state *s) { return s->presence == RANK_PRESENT && s->process == 'L'; }

void rank_set_unreachable(rank_state *s)
{
    s->presence = RANK_PRESENT;
    s->process = 'L';
    s->waits = false;
}

void states_convert_times(rank_state *s, int count, double now)
{
    for (int i = 0; i < count; i++) {
        s[i].waiting.since = now - s[i].waiting.since;
        s[i].completed.since = now - s[i].completed.since;
    }
}
