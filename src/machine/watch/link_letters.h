/* The letters of a link: what one node sends another, and how far each has come. Nothing here waits. */
#pragma once
#include "machine/watch/state.h"
#include <stddef.h>

enum { LINK_GUESTS = 16 };
/* SILENT: then a node is not heard of, and who judges is given up. UNREACHED: it never will be. */
static const double LINK_SILENT = 3.0, LINK_UNREACHED = 5.0;

/* What goes to the node that judges, with the states of `slots` ranks behind it, and the same of that node back, which
 * says how the run goes on: so that who judges after it knows its ranks. */
typedef enum { RUN_GOES_ON, RUN_UNSEEN, RUN_ENDS } run_state;
typedef struct {
    uint64_t run, board;
    node_word word;
    int32_t slots, state;
} letter;

/* A letter under way; done == length: there is none. */
typedef struct {
    char *bytes;
    size_t length, done;
} post;

/* Of another node: what it sent, whole, what of its next letter has come, and what goes to it. */
typedef struct {
    link_address address;
    int socket; /* -1: none */
    node_word word;
    double heard;       /* 0: never */
    rank_state *states; /* [slots] */
    size_t length, got;
    char *letter;
    post reply;
} node;

typedef struct links {
    uint64_t run;                          /* the first node's board: told to nobody else */
    int nodes, own, judge, address, ranks; /* judge: the node that is believed to; address: which of its was tried */
    node *node;
    int guest[LINK_GUESTS]; /* that have not said who they are */
    int listening, socket;  /* -1: none; socket: to the judge */
    double tried, sent, answered, opened;
    post question; /* to the judge */
    char *answer;  /* of the judge, of which so much has come */
    size_t got;
    run_state says;                  /* to who writes to this node while it judges */
    bool judges, known, alone, ends; /* known: the address has answered */
} links;

int link_socket(void);
void link_close(int *socket);
/* What a node says, as of now. */
void link_keep(node *of, const node_word *word, const void *states, double now);
/* To the node that judges, and back; where nothing comes, the next one is tried. */
void link_ask(links *l, double now);
void link_try_next(links *l, double now);
/* From all others; where this node judges it answers each. */
void link_hear(links *l, double now);
void link_answer(const links *l, node *to, run_state state);
