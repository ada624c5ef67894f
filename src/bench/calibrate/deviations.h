/* Deviations: ranks that compute more slowly than their peers, slow links between two ranks, and ranks most of whose
 * links are slow. bench/health/outliers.h has the rule. */
#pragma once
#include "bench/calibrate/links.h"
#include "bench/calibrate/operations.h"

typedef struct {
    char host[64], device[48]; /* device: its identity, or empty */
} rank_identity;

typedef enum { SLOW_COMPUTING, SLOW_LINKS, SLOW_PAIR } deviation_kind;
typedef struct {
    deviation_kind kind;
    int rank, peer;       /* peer: other rank of a slow pair; otherwise -1 */
    double excess, error; /* SLOW_LINKS: mean excess of the slow pairs, error 0 */
} deviation;
typedef struct {
    deviation *list; /* owned */
    int count;
} deviations;

/* Finds the deviations in the tables of rank 0. The list is owned by the caller. */
deviations deviations_find(const operation_table *operations, const link_table *links, int ranks);
/* Prints a line for each deviation, or that there are none. id: [ranks]. */
void deviations_print(const deviations *d, const rank_identity *id);
/* Writes the hosts of all deviations to a file, each host once, one in a line. Returns false if it cannot. */
bool deviations_exclude(const deviations *d, const rank_identity *id, const char *path);
