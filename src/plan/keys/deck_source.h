/* A deck as given, with what is known of the machine. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name; /* as given, for messages */
    const char *text;
    size_t length;    /* the file's bytes */
    int ranks;        /* of the world */
    bool dry_run;     /* backend auto means cuda; memory and devices do not matter */
    bool cuda_usable; /* a usable GPU for every rank */
    /* Clauses: why not (the first rank without one), and which ranks share one; NULL: not said, none do. */
    const char *cuda_missing, *cuda_shared;
} deck_source;
