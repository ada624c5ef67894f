/* The command line: options in any order, the deck is the one argument that is no option. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { OPTION_RANKS = 64 };
typedef struct {
    bool help, version, keys, fields, rules, list, dry_run, project, calibrate, schedule, slice, stages;
    const char *deck, *replay, *json;     /* NULL: not given */
    const char *name;                     /* the one key or workload that is asked for; NULL: all */
    int ranks[OPTION_RANKS], rank_counts; /* --ranks N[,N...]; 0 counts: as many as there are */
    double step_seconds;                  /* --step-seconds X; 0: not given */
    double sustained;                     /* --seconds X that a slice runs each operation; 0: not given */
    int64_t rank;                         /* --rank R; -1: not given */
    bool strict;                          /* a case that is SKIPPED or NOT VALID is a failure */
    bool verbose;                         /* the report has all lines */
    const char *timeline;                 /* --timeline FILE of a trace; NULL: not given */
    const char *from;                     /* --from RECORD, of --project; NULL: not given */
    const char *vary;                     /* --vary TERM, of a sheet; NULL: not given */
    const char *sheet;                    /* --sheet NAME, of inputs/machines/; NULL: not given */
    const char *device;                   /* --device NAME, of plan/catalogue/devices.h */
    double device_bytes;                  /* --device-memory GB; else that of the device */
    bool on_host;                         /* backend = auto is the host in a dry run */
    bool progress;                        /* stdout is a terminal that a launcher hides */
    char mistake[256];                    /* non-empty: refused, why */
} options;

options options_read(int argc, char **argv);
/* The option that asks for what needs no ranks; NULL: a run is asked for. */
const char *options_asked(const options *o);
void options_print_help(void);
