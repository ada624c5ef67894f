/* Origin of a run, for the report's first lines and the record's provenance. */
#pragma once
#include "machine/queue/machine.h"
#include "plan/deck/deck.h"

/* Bytes of each rank's entry in the lists of hosts and switches. */
enum { HOST_NAME_BYTES = 64, SWITCHES_BYTES = 256 };

typedef struct {
    const deck *deck;
    const char *deck_name, *deck_text;
    size_t deck_length;
    int argc;
    char **argv;
    bool terminal;                        /* stdout is a terminal */
    const char *json;                     /* file for one JSON object per case, "-" is stdout; NULL if none */
    const char *timeline;                 /* file for the trace of each case's last step; NULL if none */
    bool strict;                          /* a case that is SKIPPED or NOT VALID is a failure */
    bool verbose;                         /* the report prints all lines */
    int ranks, threads;                   /* OpenMP threads per rank */
    const char *hosts;                    /* [ranks] names of HOST_NAME_BYTES each; rank 0 only */
    const char *switches;                 /* [ranks] switches above the node, of SWITCHES_BYTES each; rank 0 only */
    const char *mpi, *products;           /* names and versions of the libraries */
    const char *cuda;                     /* the same for CUDA; NULL or empty without devices */
    const machine_device *devices;        /* [ranks] on rank 0 of a run on devices; else NULL */
    const struct library_list *libraries; /* loaded at the start (bench/launch/libraries.h); NULL if unknown */
    struct record_place *place;           /* place of the record; rank 0 only */
    struct provenance *provenance;        /* provenance of the record; rank 0 only */
} run_source;
