/* The file system may hang: then this thread does, and the thread that watches judges in time what this node knows.
 * A file begins with text for people; after a zero byte follow a word and the states of the node's ranks. */
#include "machine/watch/nodes.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/replace.h"
#include "machine/watch/process.h"
#include "machine/watch/verdict.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Between looks: seconds while the node of rank 0 asks, else so many patiences. SILENT: seconds after which a node that
 * answered before is not heard of any more. */
static const double ASKED = 0.4, IDLE = 0.125, SILENT = 3.0;

typedef enum { RUN_GOES_ON, RUN_ASKS, RUN_ENDS } run_state; /* what the node of rank 0 says */
typedef struct {
    uint64_t run;
    double stamp, quiet, limit; /* stamp: another one each time; quiet, limit: as watch.quiet, watch_exceeded */
    int32_t says, slots;
} node_word;
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
    bool asks; /* the node of rank 0 does */
    pthread_t thread;
    atomic_bool over;
} files;

/* ---- files ---- */

static bool path_of(const char *name, char path[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/%s", files.folder, name) < PATH_MAX;
}

/* Returns a word and the states that follow it, to be freed; NULL: there is none of this run. */
static node_word *read_node(const node *n)
{
    char path[PATH_MAX];
    struct stat is = { .st_size = 0 };
    size_t length = sizeof(node_word) + (size_t)n->slots * sizeof(rank_state);
    node_word *w = calloc(1, length);
    int file = path_of(n->name, path) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    bool whole = w && file >= 0 && fstat(file, &is) == 0 &&
                 pread(file, w, length, is.st_size - (off_t)length) == (ssize_t)length;
    if (file >= 0) close(file);
    if (whole && w->run == watch.place[0].board && w->slots == n->slots) return w;
    free(w);
    return NULL;
}

static void write_node(run_state says, double now)
{
    char path[PATH_MAX], reason[PATH_MAX + 256];
    node *own = &files.node[files.own];
    size_t states = (size_t)own->slots * sizeof(rank_state);
    node_word word = { watch.place[0].board, now,       watch.quiet, watch_exceeded(watch.board, false, now),
                       (int32_t)says,        own->slots };
    char *bytes = malloc(VERDICT_BYTES + sizeof word + states);
    rank_state *s = malloc(states);
    if (bytes && s && path_of(own->name, path)) {
        watch_read_board(watch.board, now, s);
        verdict_table(s, own->slots, now, bytes);
        states_turn(s, own->slots, now);
        size_t text = strlen(bytes) + 1;
        memcpy(bytes + text, &word, sizeof word);
        memcpy(bytes + text + sizeof word, s, states);
        if (replace_file(path, bytes, text + sizeof word + states, reason, sizeof reason)) own->heard = now;
    }
    free(bytes);
    free(s);
}

/* ---- the node of rank 0 ---- */

/* Takes the states of a node's ranks into those of all. */
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
        if (now - n->heard > SILENT && s[k].presence == RANK_HERE) rank_lose(&s[k]);
        all[s[k].rank] = s[k];
    }
    free(w);
}

/* Tells whether no rank of any node has completed anything for longer than one that waits would wait. A node whose file
 * was seen has some time to answer; one that never was judges by itself. */
static bool run_stalls(double now, double *quiet)
{
    bool sees_all = true;
    double least = 0.0;
    *quiet = watch.quiet;
    for (int i = 1; i < files.nodes; i++) {
        const node *n = &files.node[i];
        sees_all = sees_all && n->heard > 0.0;
        if (n->heard > 0.0 && n->heard < files.asked_at && now - files.asked_at < watch_lateness()) return false;
        if (n->heard < files.asked_at) continue;
        double of_node = n->word.quiet + now - n->heard, limit = n->word.limit;
        if (of_node < *quiet) *quiet = of_node;
        if (limit > 0.0 && (least == 0.0 || limit < least)) least = limit;
    }
    double own = watch_exceeded(watch.board, !sees_all, now);
    if (own > 0.0 && (least == 0.0 || own < least)) least = own;
    return least > 0.0 && *quiet > least;
}

static void lead(double now)
{
    bool asks = watch.quiet > 0.5 * watch_patience();
    double quiet;
    if (asks && !files.asks) files.asked_at = now;
    files.asks = asks;
    write_node(asks ? RUN_ASKS : RUN_GOES_ON, now);
    rank_state *all = watch_all_states(watch.board, now);
    for (int i = 1; i < files.nodes; i++)
        if (asks || files.node[i].heard == 0.0) hear(&files.node[i], all);
    if (asks && run_stalls(clock_seconds(), &quiet)) {
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
    else if (files.asks || files.node[files.own].heard == 0.0) write_node(RUN_GOES_ON, now);
}

static void *look(void *unused)
{
    double last = 0.0;
    for (; !files.over && !watch.over; watch_rest()) {
        double now = clock_seconds(), idle = IDLE * watch_patience();
        if (now - last < (files.asks && ASKED < idle ? ASKED : idle) || !watch_speaks(watch.board, now)) continue;
        if (files.own == 0) lead(now);
        else follow(now);
        last = now;
    }
    return unused;
}

/* ---- from the first to the last ---- */

/* Two nodes may have one host name. */
static void name_node(node *n, int rank)
{
    const node_place *p = &watch.place[rank];
    bool taken = false;
    for (int i = 0; i < rank && !taken; i++) taken = watch.place[i].slots && strcmp(watch.place[i].host, p->host) == 0;
    snprintf(n->name, sizeof n->name, taken ? "%s-%d" : "%s", p->host, rank);
    n->slots = p->slots;
}

void nodes_make(const char *folder)
{
    nodes_remove(folder);
    mkdir(folder, 0777);
}

void nodes_open(const char *folder)
{
    board *b = watch.board;
    snprintf(files.folder, sizeof files.folder, "%s", folder);
    files.node = calloc((size_t)watch.ranks, sizeof *files.node);
    if (!files.node) FAIL("no memory for %d nodes", watch.ranks);
    for (int i = 0; i < watch.ranks; i++) {
        if (!watch.place[i].slots) continue;
        if (watch.place[i].board == b->identity) files.own = files.nodes;
        name_node(&files.node[files.nodes++], i);
    }
    watch_begin_thread(&files.thread, look);
}

void nodes_close(void)
{
    files.over = true;
    pthread_join(files.thread, NULL);
    watch.shares = false;
}

void nodes_remove(const char *folder)
{
    char path[PATH_MAX];
    DIR *opened = opendir(folder);
    for (const struct dirent *e; opened && (e = readdir(opened));)
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < PATH_MAX) unlink(path);
    if (opened) closedir(opened);
    rmdir(folder);
}
