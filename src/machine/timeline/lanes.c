/* The lanes and meetings of a timeline. */
#include "machine/timeline/lanes.h"
#include "base/memory.h"
#include <stdio.h>

const submitted *head_of(const actor *a, const lane *l) { return &a->input->work->order->list[l->index[l->position]]; }

static work_item item_of(const actor *a, const lane *l) { return a->input->work->order->item[head_of(a, l)->item]; }

const price *price_of(const actor *a, const lane *l) { return &a->input->price[head_of(a, l)->item]; }

bool is_transfer(const actor *a, const lane *l) { return item_of(a, l).group >= 0; }

bool dependencies_complete(const actor *a, const lane *l)
{
    const submitted *s = head_of(a, l);
    const dependency *w = &a->input->work->order->wait[s->first_wait];
    for (int i = 0; i < s->waits; i++)
        if (a->completed[w[i].queue] < w[i].serial) return false;
    return true;
}

meeting *meeting_of(const actor *a, const lane *l)
{
    meeting *m = a->meeting[item_of(a, l).group];
    return m->members > 1 ? m : NULL;
}

int member_of(const meeting *m, int rank)
{
    int i = 0;
    while (m->rank[i] != rank) i++;
    return i;
}

/* ---- opening ---- */

/* Sorts the submissions by lane. */
static void open_lanes(actor *a)
{
    const submissions *s = a->input->work->order;
    int64_t first[HAZARD_QUEUES + 1] = { 0 }, at[HAZARD_QUEUES];
    for (int i = 0; i < HAZARD_QUEUES; i++) at[i] = first[i], first[i + 1] = first[i] + s->in_queue[i];
    a->index = allocate(s->length, sizeof *a->index, "the queues of a rank on paper");
    for (int64_t i = 0; i < s->length; i++) a->index[at[s->list[i].queue]++] = (int32_t)i;
    for (int i = 0; i < HAZARD_QUEUES; i++)
        a->lane[i] =
            (lane){ .index = a->index + first[i], .length = s->in_queue[i], .stage = s->in_queue[i] ? WAITS : OVER };
}

/* Adds the rank to the meeting of its group, which the first rank makes. */
static void join(timeline *t, int rank, int group_at)
{
    const group *g = &t->actor[rank].input->work->order->group[group_at];
    int i = 0;
    while (i < t->meetings && !group_same(t->meeting[i].group, g)) i++;
    if (i == t->meetings) t->meeting[t->meetings++] = (meeting){ .group = g };
    t->meeting[i].rank[t->meeting[i].members++] = rank;
    t->actor[rank].meeting[group_at] = &t->meeting[i];
}

static int64_t groups_of(const timeline_rank *rank, int ranks)
{
    int64_t groups = 0;
    for (int r = 0; r < ranks; r++) groups += rank[r].work->order->groups;
    return groups;
}

void timeline_open(timeline *t, const timeline_rank *rank, int ranks, const timeline_options *o)
{
    *t = (timeline){ .options = o, .ranks = ranks };
    t->actor = allocate(ranks, sizeof *t->actor, "ranks on paper");
    t->meeting = allocate(groups_of(rank, ranks), sizeof *t->meeting, "meetings on paper");
    for (int r = 0; r < ranks; r++) {
        int groups = rank[r].work->order->groups;
        t->actor[r] = (actor){ .rank = r, .input = &rank[r], .ended = true };
        t->actor[r].meeting = allocate(groups, sizeof(meeting *), "the groups of a rank on paper");
        open_lanes(&t->actor[r]);
        for (int i = 0; i < groups; i++) join(t, r, i);
    }
}

void timeline_close(timeline *t)
{
    for (int r = 0; r < t->ranks; r++) {
        free(t->actor[r].index);
        free(t->actor[r].meeting);
    }
    free(t->actor);
    free(t->meeting);
}

/* ---- operations that can never run ---- */

static void describe(const actor *a, const lane *l, char *text, size_t length)
{
    const submitted *s = head_of(a, l);
    work_item x = item_of(a, l);
    snprintf(text, length, "rank %d: %s of step %d, microbatch %d, layer %d waits for %s", a->rank, x.name, s->step,
             s->microbatch, s->layer,
             l->stage == MEETS   ? "its peers"
             : l->stage == READY ? "multiprocessors"
                                 : "another queue");
}

bool timeline_over(const timeline *t, char *why, size_t length)
{
    size_t used = 0;
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < HAZARD_QUEUES; i++) {
            const lane *l = &t->actor[r].lane[i];
            char text[160];
            if (l->stage == OVER) continue;
            describe(&t->actor[r], l, text, sizeof text);
            if (used < length) used += (size_t)snprintf(why + used, length - used, "%s%s", used ? "; " : "", text);
        }
    return used == 0;
}
