/* Groups and names of what ranks do. */
#include "machine/watch/state.h"

int watch_member(const watch_group *g, int32_t member)
{
    int rank = g->first;
    for (int i = 0; i < g->dims; i++) {
        rank += member % g->count[i] * g->stride[i];
        member /= g->count[i];
    }
    return rank;
}

void watch_text(char *to, uint64_t length, const char *from)
{
    uint64_t i = 0;
    for (; from && from[i] && i + 1 < length; i++) to[i] = from[i];
    for (; i < length; i++) to[i] = 0;
}
