/* Where a run comes from, as the report's banner and the record's provenance tell it. */
#pragma once
#include "machine/queue/machine.h"
#include "plan/deck/deck.h"

/* Of each rank's host and switches, in lists of them. */
enum { HOST_NAME_BYTES = 64, SWITCHES_BYTES = 256 };

typedef struct {
    const deck *deck;
    const char *deck_name, *deck_text;
    size_t deck_length;
    int argc;
    char **argv;
    bool terminal;                        /* somebody watches stdout */
    const char *json;                     /* file for an object of each case, "-" is stdout; NULL: none */
    const char *timeline;                 /* file for the trace of each case's last step; NULL: none */
    bool strict;                          /* a case that is SKIPPED or NOT VALID is a failure */
    bool verbose;                         /* the report has all lines */
    int ranks, threads;                   /* OpenMP threads per rank */
    const char *hosts;                    /* [ranks] names of HOST_NAME_BYTES each; rank 0 only */
    const char *switches;                 /* [ranks] SLURM_TOPOLOGY_ADDR, of SWITCHES_BYTES each; rank 0 only */
    const char *mpi, *products;           /* libraries as loaded */
    const char *cuda;                     /* of a run on devices; NULL or empty: of none */
    const machine_device *devices;        /* [ranks] of such a run, rank 0 only; else NULL */
    const struct library_list *libraries; /* as the program started (bench/launch/libraries.h); NULL: not known */
    struct record_place *place;           /* of the record; rank 0 only */
    struct provenance *provenance;        /* what the record says of it; rank 0 only */
} run_source;
