/* Every node listens. The first that answers is spoken to by all others, and judges; a node that hears nothing from it
 * tries the next one. All is done by the watching thread of the rank that speaks for its node, without waiting. */
#include "machine/watch/link.h"
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* SILENT: then a node is not heard of, and who judges is given up. UNREACHED: it never will be. */
enum { GUESTS = 16 };
static const double PERIOD = 1.0, SILENT = 3.0, UNREACHED = 5.0;

/* What goes to the node that judges, with the states of `slots` ranks behind it, and the same of that node back, which
 * says how the run goes on: so that who judges after it knows its ranks. */
typedef enum { RUN_GOES_ON, RUN_UNSEEN, RUN_ENDS } run_state;
typedef struct {
    uint64_t run, board;
    node_word word;
    int32_t slots, state;
} letter;

/* Of another node: what it sent, whole, and what of its next letter has come. */
typedef struct {
    link_address address;
    int socket; /* -1: none */
    node_word word;
    double heard;       /* 0: never */
    rank_state *states; /* [slots] */
    size_t length, got;
    char *letter;
} node;

struct links {
    uint64_t run;                          /* the first node's board: told to nobody else */
    int nodes, own, judge, address, ranks; /* judge: the node that is believed to; address: which of its was tried */
    node *node;
    int guest[GUESTS]; /* that have not said who they are */
    int socket;        /* to the judge */
    double tried, sent, answered, opened;
    char *outgoing, *answer; /* [length] of this node, of the judge */
    size_t length, done, got;
    bool known, alone, ends; /* known: the address has answered */
};

/* The listening socket is the process's, as its port is. */
static int listening = -1;

static void close_socket(int *s)
{
    if (*s >= 0) close(*s);
    *s = -1;
}

static int open_socket(void) { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

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
    listening = open_socket();
    if (listening < 0) return here;
    if (bind(listening, (struct sockaddr *)&any, length) || listen(listening, SOMAXCONN) ||
        getsockname(listening, (struct sockaddr *)&any, &length) || !local_addresses(here.address))
        close_socket(&listening);
    else here.port = any.sin_port;
    return here;
}

links *link_open(const link_address *everybody, int ranks, uint64_t own)
{
    links *l = calloc(1, sizeof *l);
    if (l) l->node = calloc((size_t)ranks, sizeof *l->node);
    if (!l || !l->node) return NULL;
    for (int i = 0; i < ranks; i++) {
        if (!everybody[i].board) continue;
        node *n = &l->node[l->nodes];
        n->address = everybody[i];
        n->socket = -1;
        n->length = sizeof(letter) + n->address.slots * sizeof *n->states;
        n->states = calloc(n->address.slots, sizeof *n->states);
        n->letter = malloc(n->length);
        if (!n->states || !n->letter) return NULL;
        if (n->address.board == own) l->own = l->nodes;
        l->nodes++;
    }
    l->run = l->node[0].address.board;
    l->ranks = ranks;
    l->socket = -1;
    for (int i = 0; i < GUESTS; i++) l->guest[i] = -1;
    size_t longest = 0;
    for (int i = 0; i < l->nodes; i++) longest = l->node[i].length > longest ? l->node[i].length : longest;
    l->length = l->node[l->own].length;
    l->outgoing = calloc(1, l->length);
    l->answer = malloc(longest);
    return l->outgoing && l->answer ? l : NULL;
}

/* ---- to the node that judges ---- */

static void try_address(links *l, double now)
{
    const link_address *a = &l->node[l->judge].address;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = a->port };
    to.sin_addr.s_addr = a->address[l->address];
    close_socket(&l->socket);
    l->tried = now;
    l->done = l->length;
    l->sent = 0.0;
    l->got = 0;
    if (!a->port || !to.sin_addr.s_addr || (l->socket = open_socket()) < 0) return;
    if (connect(l->socket, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) close_socket(&l->socket);
}

/* The next address of the judge, after its last one the next judge. */
static void try_next(links *l, double now)
{
    l->address++;
    if (l->known || l->address == LINK_ADDRESSES || !l->node[l->judge].address.address[l->address]) {
        l->address = 0;
        l->judge = (l->judge + 1) % l->nodes;
    }
    l->answered = now;
    l->known = false;
    if (l->judge == l->own && listening >= 0) close_socket(&l->socket);
    else try_address(l, now);
}

void states_turn(rank_state *s, int count, double now)
{
    for (int i = 0; i < count; i++) {
        s[i].waiting.since = now - s[i].waiting.since;
        s[i].completed.since = now - s[i].completed.since;
    }
}

static void write_letter(links *l, run_state state)
{
    const node *own = &l->node[l->own];
    letter head = { l->run, own->address.board, own->word, own->address.slots, state };
    rank_state *states = (rank_state *)(void *)(l->outgoing + sizeof head);
    memcpy(l->outgoing, &head, sizeof head);
    memcpy(states, own->states, own->address.slots * sizeof *states);
    states_turn(states, own->address.slots, own->heard);
}

static void keep(node *of, const node_word *word, const void *states, double now)
{
    of->word = *word;
    of->heard = now;
    memcpy(of->states, states, of->address.slots * sizeof *of->states);
    states_turn(of->states, of->address.slots, now);
}

static bool is_of(const letter *head, const links *l, const node *n)
{
    return head->run == l->run && head->board == n->address.board && head->slots == n->address.slots;
}

/* False: the connection is lost. */
static bool send_rest(links *l)
{
    struct pollfd ready = { .fd = l->socket, .events = POLLOUT };
    if (l->done == l->length || poll(&ready, 1, 0) < 1) return true;
    ssize_t n = send(l->socket, l->outgoing + l->done, l->length - l->done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    l->done += (size_t)n;
    return true;
}

static bool read_answer(links *l, double now)
{
    node *judge = &l->node[l->judge];
    const letter *head = (const letter *)(const void *)l->answer;
    l->got = 0;
    if (!is_of(head, l, judge)) return false;
    keep(judge, &head->word, l->answer + sizeof *head, now);
    l->answered = now;
    l->known = true;
    l->alone = head->state == RUN_UNSEEN;
    l->ends = l->ends || head->state == RUN_ENDS;
    return true;
}

static bool hear_answer(links *l, double now)
{
    size_t length = l->node[l->judge].length;
    for (;;) {
        ssize_t n = recv(l->socket, l->answer + l->got, length - l->got, MSG_DONTWAIT);
        if (n < 0) return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        if (n == 0) return false;
        l->got += (size_t)n;
        if (l->got == length && !read_answer(l, now)) return false;
    }
}

static void talk_to_judge(links *l, double now)
{
    if (l->socket < 0 && now - l->tried > PERIOD) try_address(l, now);
    if (l->socket >= 0 && l->done == l->length && now - l->sent > PERIOD) {
        write_letter(l, RUN_GOES_ON);
        l->sent = now;
        l->done = 0;
    }
    if (l->socket >= 0 && (!send_rest(l) || !hear_answer(l, now))) close_socket(&l->socket);
    if (now - l->answered > SILENT) try_next(l, now);
}

/* ---- from other nodes ---- */

static void accept_guests(links *l)
{
    for (int i = 0; i < GUESTS; i++)
        if (l->guest[i] < 0) l->guest[i] = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* Who says which node it is, in the words of this run, is heard from then on. */
static void know_guests(links *l)
{
    for (int i = 0; i < GUESTS; i++) {
        letter head;
        if (l->guest[i] < 0) continue;
        ssize_t n = recv(l->guest[i], &head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) continue;
        if (n > 0 && n < (ssize_t)sizeof head) continue;
        for (int k = 0; n > 0 && head.run == l->run && k < l->nodes; k++) {
            node *from = &l->node[k];
            if (from->address.board != head.board) continue;
            close_socket(&from->socket);
            from->socket = l->guest[i];
            from->got = 0;
            l->guest[i] = -1;
        }
        close_socket(&l->guest[i]);
    }
}

/* What does not go whole leaves a connection that the other end makes anew. */
static void answer(links *l, node *to, run_state state)
{
    if (to->socket < 0) return;
    write_letter(l, state);
    if (send(to->socket, l->outgoing, l->length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)l->length)
        close_socket(&to->socket);
}

static void read_letter(links *l, node *from, double now)
{
    const letter *head = (const letter *)(const void *)from->letter;
    from->got = 0;
    if (!is_of(head, l, from)) {
        close_socket(&from->socket);
        return;
    }
    keep(from, &head->word, from->letter + sizeof *head, now);
    if (link_judges(l)) answer(l, from, link_unreached(l, now) ? RUN_UNSEEN : RUN_GOES_ON);
}

static void hear_node(links *l, node *from, double now)
{
    while (from->socket >= 0) {
        ssize_t n = recv(from->socket, from->letter + from->got, from->length - from->got, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            close_socket(&from->socket);
            return;
        }
        from->got += (size_t)n;
        if (from->got == from->length) read_letter(l, from, now);
    }
}

bool link_talk(links *l, const node_word *word, rank_state *states, double now)
{
    if (l->opened == 0.0) l->opened = l->answered = now;
    if (l->judge == l->own && listening < 0) try_next(l, now);
    keep(&l->node[l->own], word, states, now);
    if (listening >= 0) {
        accept_guests(l);
        know_guests(l);
    }
    for (int i = 0; listening >= 0 && i < l->nodes; i++) hear_node(l, &l->node[i], now);
    if (!link_judges(l)) talk_to_judge(l, now);
    return l->ends;
}

/* ---- what is known ---- */

bool link_judges(const links *l) { return l->judge == l->own && listening >= 0; }

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
            if (now - n->heard > SILENT && s.presence == RANK_HERE) s.process = 'L';
            all[s.rank] = s;
        }
    }
}

void link_end(links *l)
{
    for (int i = 0; i < l->nodes; i++) answer(l, &l->node[i], RUN_ENDS);
}

bool link_made(const links *l)
{
    for (int i = 0; link_judges(l) && i < l->nodes; i++)
        if (l->node[i].heard == 0.0) return false;
    return link_judges(l) || l->known;
}

int link_unreached(const links *l, double now)
{
    int n = 0;
    for (int i = 0; i < l->nodes; i++) n += l->node[i].heard == 0.0;
    return now - l->opened > UNREACHED ? n : 0;
}

bool link_is_alone(const links *l, double now)
{
    return link_judges(l) ? link_unreached(l, now) > 0 : l->alone || (!l->known && now - l->opened > UNREACHED);
}
