/* A deck's text, and its mistakes in the order of their lines. */
#pragma once
#include "plan/bench_case.h"
#include <stdbool.h>
#include <stddef.h>

/* The text of a deck, and what is known about the machine. */
typedef struct {
    const char *name; /* file name for messages */
    const char *text;
    size_t length;       /* bytes of the text */
    int ranks;           /* ranks in the world */
    int node_ranks;      /* ranks of a node; 0: unknown */
    const char *device;  /* GPU whose recipe rows and FP8 are used; NULL: PAPER_DEVICE */
    double device_bytes; /* memory of a GPU */
    /* Returns the most bytes that a rank takes on a GPU. NULL: any case fits. */
    double (*rank_bytes)(const bench_case *c);
    bool dry_run;        /* backend auto is cuda unless cuda_missing is set; this machine's GPUs do not matter */
    bool host_by_option; /* backend auto is never host: --slice would take hours; --on-host asks for it */
    bool cuda_usable;    /* every rank has a usable GPU */
    /* Clauses for messages, or NULL: why a rank has no usable GPU, which ranks share a GPU, which GPUs have no FP8
     * products, which have no links for a pipeline. */
    const char *cuda_missing, *cuda_shared, *cuda_without_fp8, *cuda_without_links;
} deck_source;

enum { DECK_MESSAGES = 50 };
typedef struct {
    char line[1536];   /* "DECK:LINE: key: sentence" */
    int key, sentence; /* their places in the line */
} deck_message;

typedef struct {
    const char *deck; /* name as given; borrowed */
    int count;
    int line[DECK_MESSAGES];
    deck_message message[DECK_MESSAGES];
} mistakes;

/* Adds "DECK:LINE: key: sentence", unless it was added before. If there are more than fifty, drops the last ones. */
void mistake(mistakes *m, int line, const char *key, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Adds the mistakes of another list. */
void mistakes_add(mistakes *m, const mistakes *other);
/* Returns whether a mistake on this line or a later one would be dropped. */
bool mistakes_full(const mistakes *m, int line);
