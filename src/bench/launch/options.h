/* The command line: options in any order, and the deck, the one argument that is not an option. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define DEFAULT_DECK "gsw.dat"
enum { OPTION_RANKS = 64 };
typedef struct {
    bool help, version, keys, fields, rules, list, dry_run, project, calibrate, schedule, slice, stages;
    const char *deck, *replay, *json;     /* NULL if not given; a run on ranks or on paper then has DEFAULT_DECK */
    bool no_deck;                         /* the command line names no deck */
    const char *name;                     /* the key or workload to print; NULL for all */
    int ranks[OPTION_RANKS], rank_counts; /* --ranks N[,N...]; 0 counts if not given */
    int node_ranks;                       /* --node-ranks N; 0: those of the device's node */
    double step_seconds;                  /* --step-seconds X; 0 if not given */
    double sustained;     /* --seconds X, time for each operation of --slice and --calibrate; 0 if not given */
    int64_t rank;         /* --rank R; -1 if not given */
    bool strict;          /* a case that is SKIPPED or NOT VALID counts as a failure */
    bool verbose;         /* the report prints all lines */
    const char *timeline; /* --timeline FILE for a trace; NULL if not given */
    const char *from;     /* --from RECORD, with --project; NULL if not given */
    const char *vary;     /* --vary TERM of a sheet; NULL if not given */
    const char *sheet;    /* --sheet NAME in inputs/machines/; NULL if not given */
    const char *device;   /* --device NAME in plan/catalogue/devices.h */
    double device_bytes;  /* --device-memory GB in bytes; otherwise the memory of `device` */
    bool on_host;         /* backend = auto means the host in a dry run */
    bool progress;        /* stdout is a terminal, although the launcher hides it */
    char mistake[256];    /* why the command line is refused; empty if it is not */
} options;

/* Reads the command line. The texts point into argv. */
options options_read(int argc, char **argv);
/* Returns the option of a mode that runs without MPI, as "--dry-run"; NULL for a run or a calibration. */
const char *options_serial_mode(const options *o);
void options_print_help(void);
