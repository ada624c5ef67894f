/* SMs left free for transfers. */
#include "plan/model/room.h"
#include <stdio.h>

/* LINKS: links of a stage, one to and one from each of two neighbours. SHARED: thread blocks of a communicator for
 * which no SM is left free. The numbers are powers of two, because NCCL rounds those of sends up. A link moves one
 * activation during an action, so one block is enough. A gather of keys and values next to links needs four (405B on
 * paper: 57.4 % MFU with 16 SMs left free, 60.7 % with 8). Weights of shard ranks need eight. */
enum { LINKS = 4, ONE_LINK = 1, NEXT_TO_LINKS = 4, ALONE = 8, SHARED_LINK = 8, SHARED = 16, MOST = 32 };

static int power_of_two(int most)
{
    int n = 1;
    while (2 * n <= most && n < MOST) n *= 2;
    return n;
}

static int degree(const mesh_layout *l, mesh_axis axis) { return l->degree[axis]; }

/* Counts the links of a stage: two to each neighbour. With several chunks the last stage and the first are
 * neighbours. */
static int links_of(const mesh_layout *l, int stage)
{
    int stages = degree(l, AXIS_PIPELINE);
    if (stages == 1) return 0;
    bool is_end = stage == 0 || stage == stages - 1;
    return is_end && l->chunks_per_stage == 1 ? LINKS / 2 : LINKS;
}

static bool has_part(const mesh_layout *l, room_part part)
{
    const bool has[ROOM_PARTS] = { degree(l, AXIS_PIPELINE) > 1, degree(l, AXIS_TENSOR) > 1 || l->expert > 1,
                                   degree(l, AXIS_CONTEXT) > 1, degree(l, AXIS_SHARD) > 1 };
    return has[part];
}

/* Gives links a quarter of the deck's SMs. The other kinds and the groups that take turns share the rest. */
static void share_given(transfer_room *r, const bench_case *c)
{
    const mesh_layout *l = &c->layout;
    int sms = c->transfer_sms, links = has_part(l, ROOM_LINKS) ? LINKS : 0;
    int groups = 1 + has_part(l, ROOM_STRIPS) + has_part(l, ROOM_CONTEXT);
    if (links) r->link = power_of_two(sms / 4 / links);
    r->apart = r->turns = power_of_two((sms - links * r->link) / groups);
}

static void share_by_need(transfer_room *r, const mesh_layout *l)
{
    r->link = ONE_LINK;
    r->apart = has_part(l, ROOM_LINKS) ? NEXT_TO_LINKS : ALONE;
    r->turns = has_part(l, ROOM_SHARD) ? ALONE : SHARED;
}

transfer_room room_of(const bench_case *c, int stage, unsigned moved)
{
    const mesh_layout *l = &c->layout;
    transfer_room r = { .link = SHARED_LINK, .apart = SHARED, .turns = SHARED, .given = c->transfer_sms_given };
    if (!r.given) share_by_need(&r, l);
    else if (c->transfer_sms > 0) share_given(&r, c);
    const int blocks[ROOM_PARTS] = { links_of(l, stage) * r.link, r.apart, r.apart, r.turns };
    for (room_part p = 0; p < ROOM_PARTS; p++) {
        r.moved[p] = has_part(l, p) && (moved >> p & 1u);
        r.holds[p] = has_part(l, p) && !r.moved[p] ? blocks[p] : 0;
        if (!r.given) r.left += r.holds[p];
    }
    if (r.given && l->ranks > 1) r.left = c->transfer_sms;
    return r;
}

/* Ranks of a tensor group are adjacent. A context, shard or expert group spans a block of adjacent tensor groups. */
unsigned room_moved_within(const mesh_layout *l, int domain)
{
    int tensor = degree(l, AXIS_TENSOR), context = tensor * degree(l, AXIS_CONTEXT);
    int shard = context * degree(l, AXIS_SHARD), experts = tensor * l->expert;
    return (unsigned)(experts <= domain && domain % experts == 0) << ROOM_STRIPS |
           (unsigned)(context <= domain && domain % context == 0) << ROOM_CONTEXT |
           (unsigned)(shard <= domain && domain % shard == 0) << ROOM_SHARD;
}

/* Appends the names of the parts that copy engines move, or of those that hold SMs, with their number. Returns the
 * length of the text. */
static int list_parts(const transfer_room *r, bool moved, const char *before, char text[ROOM_TEXT], int used)
{
    static const char *const name[ROOM_PARTS] = { "pipeline links", "tensor/expert", "context", "shard" };
    char sms[16] = "";
    for (room_part p = 0; p < ROOM_PARTS; p++) {
        if (moved ? !r->moved[p] : !r->holds[p]) continue;
        if (!moved) snprintf(sms, sizeof sms, " %d", r->holds[p]);
        used += snprintf(text + used, ROOM_TEXT - (size_t)used, "%s%s%s", before, name[p], sms);
        before = ", ";
    }
    return used;
}

const char *room_words(const transfer_room *r, char text[ROOM_TEXT])
{
    int used = snprintf(text, ROOM_TEXT, "%d SMs left free%s", r->left, r->given ? " by transfer_sms" : "");
    if (!r->given) used = list_parts(r, false, ": ", text, used);
    list_parts(r, true, "; copy engines move ", text, used);
    return text;
}
