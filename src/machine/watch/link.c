/* Every node listens. The first that answers is spoken to by all others, and judges; a node that hears nothing from it
 * tries the next one. All is done by the watching thread of the rank that speaks for its node, without waiting. */
#include "machine/watch/link.h"
#include "machine/watch/link_letters.h"
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The listening socket is the process's, as its port is. */
static int listening = -1;

static int local_addresses(uint32_t *found)
{
    struct ifaddrs *all = NULL;
    int n = 0;
    if (getifaddrs(&all)) return 0;
    for (int loops = 0; loops < 2; loops++)
        for (struct ifaddrs *a = all; a && n < LINK_ADDRESSES; a = a->ifa_next) {
            if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP)) continue;
            bool is_loop = a->ifa_flags & IFF_LOOPBACK;
            if (is_loop == (loops == 1) && (!is_loop || n == 0))
                found[n++] = ((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr.s_addr;
        }
    freeifaddrs(all);
    return n;
}

link_address link_listen(void)
{
    link_address here = { .port = 0 };
    struct sockaddr_in any = { .sin_family = AF_INET };
    socklen_t length = sizeof any;
    listening = link_socket();
    if (listening < 0) return here;
    if (bind(listening, (struct sockaddr *)&any, length) || listen(listening, SOMAXCONN) ||
        getsockname(listening, (struct sockaddr *)&any, &length) || !local_addresses(here.address))
        link_close(&listening);
    else here.port = any.sin_port;
    return here;
}

static bool open_post(post *p, size_t length)
{
    *p = (post){ calloc(1, length), length, length };
    return p->bytes;
}

static bool open_node(node *n, const link_address *address)
{
    *n = (node){ .address = *address, .socket = -1 };
    n->length = sizeof(letter) + n->address.slots * sizeof *n->states;
    n->states = calloc(n->address.slots, sizeof *n->states);
    n->letter = malloc(n->length);
    return n->states && n->letter;
}

static bool open_posts(links *l)
{
    size_t own = l->node[l->own].length, longest = own;
    bool opened = open_post(&l->question, own);
    for (int i = 0; i < l->nodes; i++) {
        opened = opened && open_post(&l->node[i].reply, own);
        if (l->node[i].length > longest) longest = l->node[i].length;
    }
    return opened && (l->answer = malloc(longest));
}

links *link_open(const link_address *everybody, int ranks, uint64_t own)
{
    links *l = calloc(1, sizeof *l);
    if (l) l->node = calloc((size_t)ranks, sizeof *l->node);
    if (!l || !l->node) return NULL;
    for (int i = 0; i < ranks; i++) {
        if (!everybody[i].board) continue;
        if (!open_node(&l->node[l->nodes], &everybody[i])) return NULL;
        if (everybody[i].board == own) l->own = l->nodes;
        l->nodes++;
    }
    l->run = l->node[0].address.board;
    l->ranks = ranks;
    l->listening = listening;
    l->socket = -1;
    for (int i = 0; i < LINK_GUESTS; i++) l->guest[i] = -1;
    return open_posts(l) ? l : NULL;
}

bool link_judges(const links *l) { return l->judge == l->own && l->listening >= 0; }

int link_unreached(const links *l, double now)
{
    int n = 0;
    for (int i = 0; i < l->nodes; i++) n += l->node[i].heard == 0.0;
    return now - l->opened > LINK_UNREACHED ? n : 0;
}

bool link_talk(links *l, const node_word *word, rank_state *states, double now)
{
    if (l->opened == 0.0) l->opened = l->answered = now;
    if (l->judge == l->own && l->listening < 0) link_try_next(l, now);
    link_keep(&l->node[l->own], word, states, now);
    l->judges = link_judges(l);
    l->says = link_unreached(l, now) ? RUN_UNSEEN : RUN_GOES_ON;
    if (l->listening >= 0) link_hear(l, now);
    if (!l->judges) link_ask(l, now);
    return l->ends;
}

/* ---- what is known ---- */

/* The silence of a node counts from when it was heard last; of one that never was nothing is known. */
node_word link_word(const links *l, double now)
{
    node_word all = { .quiet = 1e9 };
    for (int i = 0; i < l->nodes; i++) {
        const node *n = &l->node[i];
        double quiet = n->heard > 0.0 ? n->word.quiet + now - n->heard : 0.0;
        if (quiet < all.quiet) all.quiet = quiet;
        if (n->word.limit > 0.0 && (all.limit == 0.0 || n->word.limit < all.limit)) all.limit = n->word.limit;
        all.gone = all.gone || n->word.gone;
    }
    return all;
}

void link_states(const links *l, double now, rank_state *all)
{
    for (int i = 0; i < l->ranks; i++) all[i] = (rank_state){ .rank = i, .process = 'L', .presence = RANK_HERE };
    for (int i = 0; i < l->nodes; i++) {
        const node *n = &l->node[i];
        for (int k = 0; n->heard > 0.0 && k < n->address.slots; k++) {
            rank_state s = n->states[k];
            if (s.rank < 0 || s.rank >= l->ranks) continue;
            if (now - n->heard > LINK_SILENT && s.presence == RANK_HERE) s.process = 'L';
            all[s.rank] = s;
        }
    }
}

void link_end(links *l)
{
    for (int i = 0; i < l->nodes; i++) link_answer(l, &l->node[i], RUN_ENDS);
}

bool link_made(const links *l)
{
    for (int i = 0; link_judges(l) && i < l->nodes; i++)
        if (l->node[i].heard == 0.0) return false;
    return link_judges(l) || l->known;
}

bool link_is_alone(const links *l, double now)
{
    return link_judges(l) ? link_unreached(l, now) > 0 : l->alone || (!l->known && now - l->opened > LINK_UNREACHED);
}
