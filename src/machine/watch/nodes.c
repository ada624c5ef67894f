/* The files of nodes. If the file system hangs, only this thread hangs; the watching thread then judges by what its
 * node knows. A file has text for people, a zero byte, a node_word, the states of the node's ranks and a seal. */
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

/* Between looks: IDLE patiences, or a quarter (at least ASKED seconds) if rank 0's node asks. CLOSING: seconds. */
static const double IDLE = 0.125, ASKED = 0.4, CLOSING = 3.0;

typedef enum { RUN_GOES_ON, RUN_ASKS, RUN_ENDS } run_state; /* of the node of rank 0; the others repeat it */
typedef struct {
    uint64_t run;
    double stamp, quiet;    /* stamp: different in each message; quiet: as watch.quiet */
    double limit, of_alone; /* watch_exceeded with alone false, and with alone true */
    int32_t says, slots;
} node_word;
/* The seal is this number XOR the length of the file: a file that somebody has edited has no valid seal. */
static const uint64_t SEAL = UINT64_C(0x7867737773746c31);
typedef struct {
    char name[RANK_HOST + 16];
    int32_t slots;
    double heard; /* 0: its file was never seen */
    node_word word;
} node;

static struct {
    char folder[PATH_MAX];
    node *node; /* [nodes], the first is that of rank 0 */
    int nodes, own;
    double asked_at;
    bool asks; /* the node of rank 0 asks */
    pthread_t thread;
    atomic_bool over;
} files;

/* ---- files ---- */

static bool path_of(const char *name, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s", files.folder, name) < PATH_MAX;
}

/* Returns a node_word with its states, which the caller frees; NULL if there is none of this run. */
static node_word *read_node(const node *n)
{
    char path[PATH_MAX];
    struct stat is = { .st_size = 0 };
    size_t length = sizeof(node_word) + (size_t)n->slots * sizeof(rank_state);
    node_word *w = calloc(1, length);
    int file = path_of(n->name, path) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    bool whole = w && file >= 0 && fstat(file, &is) == 0 &&
                 pread(file, w, length, is.st_size - (off_t)(length + sizeof SEAL)) == (ssize_t)length;
    if (file >= 0) close(file);
    if (whole && w->run == watch.place[0].board && w->slots == n->slots) return w;
    free(w);
    return NULL;
}

/* Syncs only new messages to disk, where the last states remain. Repeated ones only have to reach the other nodes. */
static void write_node(run_state says, double now)
{
    char path[PATH_MAX], reason[PATH_MAX + 256];
    node *own = &files.node[files.own];
    size_t states = (size_t)own->slots * sizeof(rank_state);
    node_word word = { watch.place[0].board, now, watch.quiet, 0.0, 0.0, (int32_t)says, own->slots };
    word.limit = watch_exceeded(watch.board, false, now);
    word.of_alone = watch_exceeded(watch.board, true, now);
    char *bytes = malloc(CULPRIT_BYTES + sizeof word + states + sizeof SEAL);
    rank_state *s = malloc(states);
    if (bytes && s && path_of(own->name, path)) {
        watch_read_board(watch.board, now, s);
        culprit_table(s, own->slots, now, bytes);
        states_turn(s, own->slots, now);
        size_t text = strlen(bytes) + 1, length = text + sizeof word + states + sizeof SEAL;
        uint64_t seal = SEAL ^ length;
        memcpy(bytes + text, &word, sizeof word);
        memcpy(bytes + text + sizeof word, s, states);
        memcpy(bytes + length - sizeof seal, &seal, sizeof seal);
        if (word.says == own->word.says ? replace_file_unsynced(path, bytes, length)
                                        : replace_file(path, bytes, length, reason, sizeof reason))
            own->heard = now, own->word = word;
    }
    free(bytes);
    free(s);
}

/* ---- the node of rank 0 ---- */

/* Returns whether the node has answered the present question, and recently. */
static bool answers(const node *n, double now)
{
    return n->heard >= files.asked_at && now - n->heard <= watch_lateness();
}

/* Reads the file of a node and copies the states of its ranks into those of all. */
static void hear(node *n, rank_state *all)
{
    node_word *w = read_node(n);
    double now = clock_seconds();
    if (!w) return;
    if (w->stamp != n->word.stamp) n->heard = now;
    n->word = *w;
    rank_state *s = (rank_state *)(void *)(w + 1);
    states_turn(s, n->slots, n->heard);
    for (int k = 0; k < n->slots; k++) {
        if (s[k].rank < 0 || s[k].rank >= watch.ranks) continue;
        if (!answers(n, now) && s[k].presence == RANK_HERE) rank_lose(&s[k]);
        all[s[k].rank] = s[k];
    }
    free(w);
}

/* Returns whether no rank of any node has completed anything for longer than the patience of a waiting rank. A node
 * whose file was seen gets some time to answer; a node that was never seen judges by itself. */
static bool run_stalls(bool sees_all, double now, double *quiet)
{
    double least = 0.0;
    *quiet = watch.quiet;
    for (int i = 1; i < files.nodes; i++) {
        const node *n = &files.node[i];
        double limit = sees_all ? n->word.limit : n->word.of_alone;
        if (n->heard > 0.0 && n->heard < files.asked_at && now - files.asked_at < watch_lateness()) return false;
        if (!answers(n, now)) continue;
        if (n->word.quiet < *quiet) *quiet = n->word.quiet; /* not aged: the node may have gone on since its answer */
        if (limit > 0.0 && (least == 0.0 || limit < least)) least = limit;
    }
    double own = watch_exceeded(watch.board, !sees_all, now);
    if (own > 0.0 && (least == 0.0 || own < least)) least = own;
    return least > 0.0 && *quiet > least;
}

static void lead(double now)
{
    bool asks = watch.quiet > 0.5 * watch_patience(), sees_all = true;
    double quiet;
    if (asks && !files.asks) files.asked_at = now;
    files.asks = asks;
    write_node(asks ? RUN_ASKS : RUN_GOES_ON, now);
    rank_state *all = watch_all_states(watch.board, now);
    for (int i = 1; i < files.nodes; i++) {
        if (asks || files.node[i].heard == 0.0) hear(&files.node[i], all);
        sees_all = sees_all && answers(&files.node[i], clock_seconds());
    }
    if (asks && !files.over && run_stalls(sees_all, clock_seconds(), &quiet)) {
        write_node(RUN_ENDS, clock_seconds());
        watch_tell(watch.board, all, quiet);
    }
    free(all);
    watch.shares = true;
    watch.heard = now;
}

/* ---- the other nodes ---- */

static void follow(double now)
{
    node *first = &files.node[0];
    board *b = watch.board;
    node_word *w = read_node(first);
    if (w && w->stamp != first->word.stamp) {
        first->word = *w;
        watch.shares = true;
        watch.heard = now;
    }
    free(w);
    files.asks = first->word.says == RUN_ASKS;
    if (first->word.says == RUN_ENDS) b->alarm = b->told = STATUS_HANG;
    else if (watch.shares && (files.asks || files.node[files.own].heard == 0.0)) write_node(first->word.says, now);
    else files.node[files.own].word.says = RUN_GOES_ON; /* so the next answer is a new message */
}

static void *look(void *unused)
{
    double last = 0.0;
    for (; !files.over && !watch.over; watch_rest()) {
        double now = clock_seconds(), idle = IDLE * watch_patience();
        if (now - last < (files.asks ? fmin(idle, fmax(ASKED, 0.25 * idle)) : idle) || !watch_speaks(watch.board, now))
            continue;
        if (files.own == 0) lead(now);
        else follow(now);
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
    struct stat is;
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool ours = file >= 0 && fstat(file, &is) == 0 && S_ISREG(is.st_mode) &&
                pread(file, &seal, sizeof seal, is.st_size - (off_t)sizeof seal) == sizeof seal &&
                seal == (SEAL ^ (uint64_t)is.st_size);
    if (file >= 0) close(file);
    return ours;
}

/* Removes the files of nodes from the folder if `removes`. Returns whether it is no link and has no other files. */
static bool clear(const char *folder, bool removes)
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
    return mkdir(folder, 0777) == 0 || (errno == EEXIST && clear(folder, false) && clear(folder, true));
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
    watch_begin_thread(&files.thread, look);
}

void nodes_close(void)
{
    double began = clock_seconds(), bound = fmin(CLOSING, 0.5 * watch_patience()); /* the other ranks wait */
    files.over = true;
    while (pthread_tryjoin_np(files.thread, NULL) && clock_seconds() - began < bound) watch_rest();
    watch.shares = false;
}

void nodes_remove(const char *folder)
{
    clear(folder, true);
    rmdir(folder);
}
