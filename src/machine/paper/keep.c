/* Submissions, kept in order. */
#include "machine/paper/keep.h"
#include "base/memory.h"
#include <stdio.h>
#include <string.h>

submissions *submissions_open(void) { return allocate(1, sizeof(submissions), "submissions in order"); }

void submissions_close(submissions *s)
{
    if (!s) return;
    free(s->list);
    free(s->item);
    free(s->wait);
    free(s->group);
    free(s);
}

static int group_index(submissions *s, const group *g)
{
    int i = 0;
    while (i < s->groups && !group_same(&s->group[i], g)) i++;
    if (i == s->groups) {
        s->group = reallocate(s->group, ++s->groups, sizeof *s->group, "groups of transfers");
        s->group[i] = *g;
    }
    return i;
}

static bool items_alike(const work_item *a, const work_item *b)
{
    return a->note == b->note && a->group == b->group && a->phase == b->phase && strcmp(a->name, b->name) == 0;
}

static int item_index(submissions *s, work_item x)
{
    int i = 0;
    while (i < s->items && !items_alike(&s->item[i], &x)) i++;
    if (i == s->items) {
        s->item = reallocate(s->item, ++s->items, sizeof *s->item, "items of work");
        s->item[i] = x;
    }
    return i;
}

static void *grown(void *list, int64_t *capacity, int64_t needed, size_t bytes)
{
    if (needed <= *capacity) return list;
    *capacity = 2 * needed;
    return reallocate(list, *capacity, bytes, "submissions in order");
}

void submissions_add(submissions *s, const submission *x, int note)
{
    const origin *from = &x->op->origin;
    int group_number = op_is_transfer(x->op->kind) ? group_index(s, x->op->args.fabric.group) : -1;
    work_item item = { note, group_number, from->phase };
    snprintf(item.name, sizeof item.name, "%s", from->name ? from->name : "");
    s->list = grown(s->list, &s->capacity, s->length + 1, sizeof *s->list);
    s->wait = grown(s->wait, &s->wait_capacity, s->waits + x->waits, sizeof *s->wait);
    s->list[s->length++] = (submitted){ .item = item_index(s, item),
                                        .microbatch = (int32_t)from->microbatch,
                                        .first_wait = (uint32_t)s->waits,
                                        .layer = (int16_t)from->layer,
                                        .step = (int8_t)from->step,
                                        .chunk = (int8_t)from->chunk,
                                        .queue = (uint8_t)x->queue,
                                        .waits = (uint8_t)x->waits };
    for (int i = 0; i < x->waits; i++) s->wait[s->waits++] = x->wait[i];
    s->in_queue[x->queue]++;
    s->yields[x->queue] = x->yields;
}
