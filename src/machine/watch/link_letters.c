/* Letters. Sockets are read and written as far as that goes now, the rest at the next look. */
#include "machine/watch/link_letters.h"
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const double PERIOD = 1.0;

void link_close(int *s)
{
    if (*s >= 0) close(*s);
    *s = -1;
}

int link_socket(void) { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

/* ---- to the node that judges ---- */

static void try_address(links *l, double now)
{
    const link_address *a = &l->node[l->judge].address;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = a->port };
    to.sin_addr.s_addr = a->address[l->address];
    link_close(&l->socket);
    l->tried = now;
    l->question.done = l->question.length;
    l->sent = 0.0;
    l->got = 0;
    if (!a->port || !to.sin_addr.s_addr || (l->socket = link_socket()) < 0) return;
    if (connect(l->socket, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) link_close(&l->socket);
}

/* The next address of the judge, after its last one the next judge. */
void link_try_next(links *l, double now)
{
    l->address++;
    if (l->known || l->address == LINK_ADDRESSES || !l->node[l->judge].address.address[l->address]) {
        l->address = 0;
        l->judge = (l->judge + 1) % l->nodes;
    }
    l->answered = now;
    l->known = false;
    if (l->judge == l->own && l->listening >= 0) link_close(&l->socket);
    else try_address(l, now);
}

static void write_letter(const links *l, run_state state, post *p)
{
    const node *own = &l->node[l->own];
    letter head = { l->run, own->address.board, own->word, own->address.slots, (int32_t)state };
    rank_state *states = (rank_state *)(void *)(p->bytes + sizeof head);
    memcpy(p->bytes, &head, sizeof head);
    memcpy(states, own->states, own->address.slots * sizeof *states);
    states_turn(states, own->address.slots, own->heard);
    p->done = 0;
}

void link_keep(node *of, const node_word *word, const void *states, double now)
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
static bool send_rest(post *p, int socket)
{
    while (p->done < p->length) {
        ssize_t n = send(socket, p->bytes + p->done, p->length - p->done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        p->done += (size_t)n;
    }
    return true;
}

static bool read_answer(links *l, double now)
{
    node *judge = &l->node[l->judge];
    const letter *head = (const letter *)(const void *)l->answer;
    l->got = 0;
    if (!is_of(head, l, judge)) return false;
    link_keep(judge, &head->word, l->answer + sizeof *head, now);
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

void link_ask(links *l, double now)
{
    if (l->socket < 0 && now - l->tried > PERIOD) try_address(l, now);
    if (l->socket >= 0 && l->question.done == l->question.length && now - l->sent > PERIOD) {
        write_letter(l, RUN_GOES_ON, &l->question);
        l->sent = now;
    }
    if (l->socket >= 0 && (!send_rest(&l->question, l->socket) || !hear_answer(l, now))) link_close(&l->socket);
    if (now - l->answered > LINK_SILENT) link_try_next(l, now);
}

/* ---- from other nodes ---- */

static void accept_guests(links *l)
{
    for (int i = 0; i < LINK_GUESTS; i++)
        if (l->guest[i] < 0) l->guest[i] = accept4(l->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* Who says which node it is, in the words of this run, is heard from then on. */
static void know_guests(links *l)
{
    for (int i = 0; i < LINK_GUESTS; i++) {
        letter head;
        if (l->guest[i] < 0) continue;
        ssize_t n = recv(l->guest[i], &head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) continue;
        if (n > 0 && n < (ssize_t)sizeof head) continue;
        for (int k = 0; n > 0 && head.run == l->run && k < l->nodes; k++) {
            node *from = &l->node[k];
            if (from->address.board != head.board) continue;
            link_close(&from->socket);
            from->socket = l->guest[i];
            from->got = 0;
            from->reply.done = from->reply.length;
            l->guest[i] = -1;
        }
        link_close(&l->guest[i]);
    }
}

/* Not before what it is sent already has gone. */
void link_answer(const links *l, node *to, run_state state)
{
    if (to->socket < 0) return;
    if (to->reply.done == to->reply.length) write_letter(l, state, &to->reply);
    if (!send_rest(&to->reply, to->socket)) link_close(&to->socket);
}

static void read_letter(links *l, node *from, double now)
{
    const letter *head = (const letter *)(const void *)from->letter;
    from->got = 0;
    if (!is_of(head, l, from)) {
        link_close(&from->socket);
        return;
    }
    link_keep(from, &head->word, from->letter + sizeof *head, now);
    if (l->judges) link_answer(l, from, l->says);
}

static void hear_node(links *l, node *from, double now)
{
    if (from->socket >= 0 && !send_rest(&from->reply, from->socket)) link_close(&from->socket);
    while (from->socket >= 0) {
        ssize_t n = recv(from->socket, from->letter + from->got, from->length - from->got, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            link_close(&from->socket);
            return;
        }
        from->got += (size_t)n;
        if (from->got == from->length) read_letter(l, from, now);
    }
}

void link_hear(links *l, double now)
{
    accept_guests(l);
    know_guests(l);
    for (int i = 0; i < l->nodes; i++) hear_node(l, &l->node[i], now);
}
