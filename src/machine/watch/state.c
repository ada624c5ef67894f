/* Groups and names of what ranks do. */
#include "machine/watch/state.h"
#include <string.h>

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
    size_t used = from ? strnlen(from, length - 1) : 0;
    if (used) memcpy(to, from, used);
    memset(to + used, 0, length - used);
}
