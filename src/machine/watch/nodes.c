/* The files of nodes. If the file system hangs, only this thread hangs; the watching thread then judges from the states
 * on its node. A file has text for people, a zero byte, a node_message, the states of the node's ranks and a seal. */
#include "machine/watch/nodes.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/replace.h"
#include "machine/watch/culprit.h"
#include "machine/watch/process.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Between checks of files: IDLE_PATIENCES, or a quarter of it if states are requested, but at least REQUEST_SECONDS. */
static const double IDLE_PATIENCES = 0.125, REQUEST_SECONDS = 0.4, CLOSE_SECONDS = 3.0;

typedef enum { REQUEST_NONE, REQUEST_STATES, REQUEST_END } node_request; /* of rank 0's node; the others repeat it */
typedef struct {
    uint64_t run;
    double stamp, idle_seconds; /* stamp: different in each message; idle_seconds: as in watch */
    double limit, limit_alone;  /* watch_exceeded with alone false, and with alone true */
    int32_t request, slots;
} node_message;
/* The seal is this number XOR the length of the file: a file that somebody has edited has no valid seal. */
static const uint64_t SEAL = UINT64_C(0x7867737773746c31);
typedef struct {
    char name[RANK_HOST + 16];
    int32_t slots;
    double message_at; /* time of its last new message; 0: none */
    node_message message;
} node;

static struct {
    char folder[PATH_MAX];
    node *node; /* [nodes], the first is that of rank 0 */
    int nodes, own;
    double requested_at;
    bool requested; /* the node of rank 0 requests states */
    pthread_t thread;
    atomic_bool over;
} files;

/* ---- files ---- */

static bool path_of(const char *name, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s", files.folder, name) < PATH_MAX;
}

/* Returns a node_message with its states, which the caller frees; NULL if there is none of this run. */
static node_message *read_node(const node *n)
{
    char path[PATH_MAX];
    struct stat status = { .st_size = 0 };
    size_t length = sizeof(node_message) + (size_t)n->slots * sizeof(rank_state);
    node_message *w = calloc(1, length);
    int file = path_of(n->name, path) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    bool complete = w && file >= 0 && fstat(file, &status) == 0 &&
                    pread(file, w, length, status.st_size - (off_t)(length + sizeof SEAL)) == (ssize_t)length;
    if (file >= 0) close(file);
    if (complete && w->run == watch.place[0].board && w->slots == n->slots) return w;
    free(w);
    return NULL;
}

/* Syncs only messages with a new request to disk, to keep the last states. */
static void write_node(node_request request, double now)
{
    char path[PATH_MAX], reason[PATH_MAX + 256];
    node *own = &files.node[files.own];
    size_t states = (size_t)own->slots * sizeof(rank_state);
    node_message message = { watch.place[0].board, now, watch.idle_seconds, 0.0, 0.0, (int32_t)request, own->slots };
    message.limit = watch_exceeded(watch.board, false, now);
    message.limit_alone = watch_exceeded(watch.board, true, now);
    char *bytes = malloc(CULPRIT_BYTES + sizeof message + states + sizeof SEAL);
    rank_state *s = malloc(states);
    if (bytes && s && path_of(own->name, path)) {
        watch_read_board(watch.board, now, s);
        culprit_table(s, own->slots, now, bytes);
        states_convert_times(s, own->slots, now);
        size_t text = strlen(bytes) + 1, length = text + sizeof message + states + sizeof SEAL;
        uint64_t seal = SEAL ^ length;
        memcpy(bytes + text, &message, sizeof message);
        memcpy(bytes + text + sizeof message, s, states);
        memcpy(bytes + length - sizeof seal, &seal, sizeof seal);
        if (message.request == own->message.request ? replace_file_unsynced(path, bytes, length)
                                                    : replace_file(path, bytes, length, reason, sizeof reason))
            own->message_at = now, own->message = message;
    }
    free(bytes);
    free(s);
}

/* ---- the node of rank 0 ---- */

static bool has_answered(const node *n, double now)
{
    return n->message_at >= files.requested_at && now - n->message_at <= watch_node_timeout();
}

static void read_states(node *n, rank_state *all)
{
    node_message *w = read_node(n);
    double now = clock_seconds();
    if (!w) return;
    if (w->stamp != n->message.stamp) n->message_at = now;
    n->message = *w;
    rank_state *s = (rank_state *)(void *)(w + 1);
    states_convert_times(s, n->slots, n->message_at);
    for (int k = 0; k < n->slots; k++) {
        if (s[k].rank < 0 || s[k].rank >= watch.ranks) continue;
        if (!has_answered(n, now) && s[k].presence == RANK_PRESENT) rank_set_unreachable(&s[k]);
        all[s[k].rank] = s[k];
    }
    free(w);
}

/* Returns whether no rank of any node has completed anything for longer than the patience of a waiting rank. A node
 * whose file was read before gets time to answer; any other node judges by itself. */
static bool run_stalls(bool sees_all, double now, double *idle)
{
    double least = 0.0;
    *idle = watch.idle_seconds;
    for (int i = 1; i < files.nodes; i++) {
        const node *n = &files.node[i];
        double limit = sees_all ? n->message.limit : n->message.limit_alone;
        if (n->message_at > 0.0 && n->message_at < files.requested_at &&
            now - files.requested_at < watch_node_timeout())
            return false;
        if (!has_answered(n, now)) continue;
        if (n->message.idle_seconds < *idle) *idle = n->message.idle_seconds; /* it may have progressed since */
        if (limit > 0.0 && (least == 0.0 || limit < least)) least = limit;
    }
    double own = watch_exceeded(watch.board, !sees_all, now);
    if (own > 0.0 && (least == 0.0 || own < least)) least = own;
    return least > 0.0 && *idle > least;
}

static void check_all_nodes(double now)
{
    bool requested = watch.idle_seconds > 0.5 * watch_patience(), sees_all = true;
    double idle;
    if (requested && !files.requested) files.requested_at = now;
    files.requested = requested;
    write_node(requested ? REQUEST_STATES : REQUEST_NONE, now);
    rank_state *all = watch_all_states(watch.board, now);
    for (int i = 1; i < files.nodes; i++) {
        if (requested || files.node[i].message_at == 0.0) read_states(&files.node[i], all);
        sees_all = sees_all && has_answered(&files.node[i], clock_seconds());
    }
    if (requested && !files.over && run_stalls(sees_all, clock_seconds(), &idle)) {
        write_node(REQUEST_END, clock_seconds());
        watch_report_and_end(watch.board, all, idle);
    }
    free(all);
    watch.first_node_known = true;
    watch.first_node_read = now;
}

/* ---- the other nodes ---- */

static void answer_first_node(double now)
{
    node *first = &files.node[0];
    board *b = watch.board;
    node_message *w = read_node(first);
    if (w && w->stamp != first->message.stamp) {
        first->message = *w;
        watch.first_node_known = true;
        watch.first_node_read = now;
    }
    free(w);
    files.requested = first->message.request == REQUEST_STATES;
    if (first->message.request == REQUEST_END) b->printer = b->exit_status = STATUS_HANG;
    else if (watch.first_node_known && (files.requested || files.node[files.own].message_at == 0.0))
        write_node(first->message.request, now);
    else files.node[files.own].message.request = REQUEST_NONE; /* so that the next answer is synced */
}

static void *exchange_files(void *unused)
{
    double last = 0.0;
    for (; !files.over && !watch.over; watch_sleep()) {
        double now = clock_seconds(), interval = IDLE_PATIENCES * watch_patience();
        if (now - last < (files.requested ? fmin(interval, fmax(REQUEST_SECONDS, 0.25 * interval)) : interval) ||
            !watch_leads_node(watch.board, now))
            continue;
        if (files.own == 0) check_all_nodes(now);
        else answer_first_node(now);
        last = now;
    }
    return unused;
}

/* ---- opening and closing ---- */

/* Two nodes can have the same host name. */
static void name_node(node *n, int rank)
{
    const node_place *p = &watch.place[rank];
    bool taken = false;
    for (int i = 0; i < rank && !taken; i++) taken = watch.place[i].slots && strcmp(watch.place[i].host, p->host) == 0;
    snprintf(n->name, sizeof n->name, taken ? "%s-%d" : "%s", p->host, rank);
    n->slots = p->slots;
}

static bool is_of_node(int folder, const char *name)
{
    uint64_t seal;
    struct stat status;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool ours = file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                pread(file, &seal, sizeof seal, status.st_size - (off_t)sizeof seal) == sizeof seal &&
                seal == (SEAL ^ (uint64_t)status.st_size);
    if (file >= 0) close(file);
    return ours;
}

/* Returns whether the folder is no link and has only files of nodes. Removes these files if `removes`. */
static bool check_folder(const char *folder, bool removes)
{
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *opened = file < 0 ? NULL : fdopendir(file);
    bool clean = opened;
    for (const struct dirent *e; opened && (e = readdir(opened));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        bool ours = is_of_node(file, e->d_name);
        clean = clean && ours;
        if (ours && removes) unlinkat(file, e->d_name, 0);
    }
    if (opened) closedir(opened);
    return clean;
}

bool nodes_make(const char *folder)
{
    return mkdir(folder, 0777) == 0 || (errno == EEXIST && check_folder(folder, false) && check_folder(folder, true));
}

void nodes_open(const char *folder)
{
    board *b = watch.board;
    snprintf(files.folder, sizeof files.folder, "%s", folder);
    files.node = allocate(watch.ranks, sizeof *files.node, "the nodes");
    for (int i = 0; i < watch.ranks; i++) {
        if (!watch.place[i].slots) continue;
        if (watch.place[i].board == b->identity) files.own = files.nodes;
        name_node(&files.node[files.nodes++], i);
    }
    watch_begin_thread(&files.thread, exchange_files);
}

void nodes_close(void)
{
    double began = clock_seconds(), bound = fmin(CLOSE_SECONDS, 0.5 * watch_patience()); /* the other ranks wait */
    files.over = true;
    while (pthread_tryjoin_np(files.thread, NULL) && clock_seconds() - began < bound) watch_sleep();
    watch.first_node_known = false;
}

void nodes_remove(const char *folder)
{
    check_folder(folder, true);
    rmdir(folder);
}
