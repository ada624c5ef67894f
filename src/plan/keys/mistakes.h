/* A deck as given, and what is wrong with it: the first fifty mistakes in the order of their lines, each once. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* With what is known of the machine. */
typedef struct {
    const char *name; /* as given, for messages */
    const char *text;
    size_t length;      /* the file's bytes */
    int ranks;          /* of the world */
    const char *device; /* name of the GPU whose recipe rows are used; NULL: PAPER_DEVICE's */
    bool dry_run;       /* backend auto means cuda unless cuda_missing says why not; memory and devices do not matter */
    bool host_by_option; /* backend auto never means host: a slice of a large model would take hours there */
    bool cuda_usable;    /* a usable GPU for every rank */
    /* Clauses: why not (the first rank without one), which ranks share one, whose multiplies no FP8; NULL: not said,
     * none do, all do. */
    const char *cuda_missing, *cuda_shared, *cuda_without_fp8, *cuda_without_links;
} deck_source;

enum { DECK_MESSAGES = 50 };
typedef struct {
    char line[1536];
} deck_message; /* "DECK:LINE: key: sentence" */

typedef struct {
    const char *deck; /* name as given, not owned */
    int count;
    int line[DECK_MESSAGES];
    deck_message message[DECK_MESSAGES];
} mistakes;

/* "DECK:LINE: key: sentence". Of more than fifty those of the last lines are left out. */
void mistake(mistakes *m, int line, const char *key, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Nothing on this line or a later one would be kept. */
bool mistakes_full(const mistakes *m, int line);
