/* What Linux tells of a node in its files: load, clocks and time of its cores, energy of its packages. */
#pragma once
#include <stdbool.h>

/* NODE_CORES: those with larger numbers are not looked at. */
enum { NODE_CORES = 1024, NODE_PACKAGES = 16, NODE_TEXT = 1 << 17 };

/* NaN: not told. */
typedef struct {
    double load;         /* processes and threads that run or could run, of the whole node */
    double core_hertz;   /* mean of up to 16 of the cores, as they are now; of a virtual machine as it was told */
    double busy_seconds; /* that the cores were not idle, since the node started; taken away by a hypervisor included */
    double joules;       /* of all packages, since node_open: RAPL's counters */
} node_state;

typedef struct {
    int number;
    double joules, range; /* what the counter last said, and at which it begins again */
} node_package;
typedef struct {
    const char *proc, *sys;
    int cores;
    short core[NODE_CORES];
    bool uses[NODE_CORES];
    int packages; /* 0: no counter can be read */
    node_package package[NODE_PACKAGES];
    double joules;
    char text[NODE_TEXT]; /* of a file */
} node_meter;

/* proc, sys: "/proc" and "/sys", kept. A counter must be read before it has gone round once: some minutes. */
void node_open(node_meter *m, const char *proc, const char *sys);
void node_add_core(node_meter *m, int core);
node_state node_read(node_meter *m);
