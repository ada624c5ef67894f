/* State of a node from files of Linux: load, clocks and busy time of its cores, energy of its packages. */
#pragma once
#include <stdbool.h>

/* NODE_CORES: cores with larger numbers are ignored. */
enum { NODE_CORES = 1024, NODE_PACKAGES = 16, NODE_TEXT = 1 << 17 };

/* NaN if unknown. */
typedef struct {
    double load;         /* runnable threads of the whole node, except the caller */
    double core_hertz;   /* current mean of up to 16 of the cores; without cpufreq, of /proc/cpuinfo */
    double busy_seconds; /* busy time of the cores since the boot, including time taken by the hypervisor */
    double joules;       /* energy of all packages since node_open, from RAPL's counters */
} node_state;

typedef struct {
    int number;
    double joules, range; /* last value of the counter, and the value at which it wraps */
} node_package;
typedef struct {
    const char *proc, *sys;
    int cores;
    short core[NODE_CORES];
    bool is_used[NODE_CORES];
    int packages; /* 0 if no counter can be read */
    node_package package[NODE_PACKAGES];
    double joules;
    char text[NODE_TEXT]; /* contents of a file */
} node_meter;

/* proc, sys: "/proc" and "/sys", kept by pointer. Read the meter at least once a minute: its counters wrap. */
void node_open(node_meter *m, const char *proc, const char *sys);
void node_add_core(node_meter *m, int core);
node_state node_read(node_meter *m);
