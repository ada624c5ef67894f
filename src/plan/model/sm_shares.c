/* Division of SMs between products and transfers. */
#include "plan/model/sm_shares.h"
#include <stdio.h>

/* LINKS: links of a stage, one to and one from each of two neighbours. ONE_LINK, NEXT_TO_LINKS, ALONE: thread blocks of
 * a communicator for which SMs are left free. A link moves one activation during an action, so one block is enough. A
 * gather of keys and values next to links needs four (405B on paper: 57.4 % MFU with 16 SMs left free, 60.7 % with 8).
 * Weights of shard ranks need eight. UNRESERVED: no SM is left free. NCCL rounds blocks of sends up to powers of two.
 */
enum { LINKS = 4, ONE_LINK = 1, NEXT_TO_LINKS = 4, ALONE = 8, UNRESERVED_LINK = 8, UNRESERVED = 16, MOST = 32 };

static int power_of_two(int most)
{
    int n = 1;
    while (2 * n <= most && n < MOST) n *= 2;
    return n;
}

static int degree(const mesh_layout *l, mesh_axis axis) { return l->degree[axis]; }

/* Counts two links to each neighbour. With several chunks, the last stage and the first are neighbours. */
static int links_of(const mesh_layout *l, int stage)
{
    int stages = degree(l, AXIS_PIPELINE);
    if (stages == 1) return 0;
    bool is_end = stage == 0 || stage == stages - 1;
    return is_end && l->chunks_per_stage == 1 ? LINKS / 2 : LINKS;
}

static bool has_kind(const mesh_layout *l, transfer_kind kind)
{
    const bool has[TRANSFER_KINDS] = { degree(l, AXIS_PIPELINE) > 1, degree(l, AXIS_TENSOR) > 1 || l->expert > 1,
                                       degree(l, AXIS_CONTEXT) > 1, degree(l, AXIS_SHARD) > 1 };
    return has[kind];
}

/* Links get a quarter of the deck's SMs. Tensor, context and shared communicators divide the rest. */
static void share_by_deck(sm_shares *s, const bench_case *c)
{
    const mesh_layout *l = &c->layout;
    int sms = c->transfer_sms, links = has_kind(l, LINK_TRANSFERS) ? LINKS : 0;
    int communicators = 1 + has_kind(l, TENSOR_TRANSFERS) + has_kind(l, CONTEXT_TRANSFERS);
    if (links) s->link_blocks = power_of_two(sms / 4 / links);
    s->separate_blocks = s->shared_blocks = power_of_two((sms - links * s->link_blocks) / communicators);
}

static void share_by_need(sm_shares *s, const mesh_layout *l)
{
    s->link_blocks = ONE_LINK;
    s->separate_blocks = has_kind(l, LINK_TRANSFERS) ? NEXT_TO_LINKS : ALONE;
    s->shared_blocks = has_kind(l, SHARD_TRANSFERS) ? ALONE : UNRESERVED;
}

sm_shares sm_shares_of(const bench_case *c, int stage, unsigned copied)
{
    const mesh_layout *l = &c->layout;
    sm_shares s = { UNRESERVED_LINK, UNRESERVED, UNRESERVED, .by_deck = c->transfer_sms_given };
    if (!s.by_deck) share_by_need(&s, l);
    else if (c->transfer_sms > 0) share_by_deck(&s, c);
    const int blocks[TRANSFER_KINDS] = { links_of(l, stage) * s.link_blocks, s.separate_blocks, s.separate_blocks,
                                         s.shared_blocks };
    for (transfer_kind k = 0; k < TRANSFER_KINDS; k++) {
        s.copied[k] = has_kind(l, k) && (copied >> k & 1u);
        s.held[k] = has_kind(l, k) && !s.copied[k] ? blocks[k] : 0;
        if (!s.by_deck) s.left_free += s.held[k];
    }
    if (s.by_deck && l->ranks > 1) s.left_free = c->transfer_sms;
    return s;
}

/* Ranks of a tensor group are adjacent; the other groups span adjacent tensor groups. */
unsigned copy_engine_kinds(const mesh_layout *l, int domain)
{
    int tensor = degree(l, AXIS_TENSOR), context = tensor * degree(l, AXIS_CONTEXT);
    int shard = context * degree(l, AXIS_SHARD), experts = tensor * l->expert;
    return (unsigned)(experts <= domain && domain % experts == 0) << TENSOR_TRANSFERS |
           (unsigned)(context <= domain && domain % context == 0) << CONTEXT_TRANSFERS |
           (unsigned)(shard <= domain && domain % shard == 0) << SHARD_TRANSFERS;
}

/* Appends the kinds that copy engines move, or those that hold SMs, with their SMs. Returns the new length. */
static int list_kinds(const sm_shares *s, bool copied, const char *before, char text[SM_SHARES_TEXT], int used)
{
    static const char *const name[TRANSFER_KINDS] = { "pipeline links", "tensor/expert", "context", "shard" };
    char sms[16] = "";
    for (transfer_kind k = 0; k < TRANSFER_KINDS; k++) {
        if (copied ? !s->copied[k] : !s->held[k]) continue;
        if (!copied) snprintf(sms, sizeof sms, " %d", s->held[k]);
        used += snprintf(text + used, SM_SHARES_TEXT - (size_t)used, "%s%s%s", before, name[k], sms);
        before = ", ";
    }
    return used;
}

const char *sm_shares_text(const sm_shares *s, char text[SM_SHARES_TEXT])
{
    int used = snprintf(text, SM_SHARES_TEXT, "%d SMs left free%s", s->left_free, s->by_deck ? " by transfer_sms" : "");
    if (!s->by_deck) used = list_kinds(s, false, ": ", text, used);
    list_kinds(s, true, "; copy engines move ", text, used);
    return text;
}
