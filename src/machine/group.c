/* Groups of ranks. */
#include "machine/group.h"

group group_line(const char *axis, int first, int stride, int size, int rank)
{
    return (group){ .axis = axis,
                    .size = size,
                    .rank = rank,
                    .first = first,
                    .dims = 1,
                    .dim = { { size, stride } },
                    .handle = -1,
                    .handle_step = 1 };
}

int group_world_rank(const group *g, int member)
{
    int rank = g->first;
    for (int i = 0; i < g->dims; i++) {
        rank += member % g->dim[i].count * g->dim[i].stride;
        member /= g->dim[i].count;
    }
    return rank;
}
