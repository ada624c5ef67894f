/* What deviates from its peers: ranks that compute more slowly, pairs of ranks with a slow link, and ranks or nodes
 * most of whose links are slow. The rule is that of bench/health/outliers.h. */
#pragma once
#include "bench/calibrate/links.h"
#include "bench/calibrate/operations.h"

/* What is known of a rank, gathered. */
typedef struct {
    char host[64], device[48]; /* device: what identifies it, or empty */
} rank_identity;

typedef enum { SLOW_COMPUTING, SLOW_LINKS, SLOW_PAIR } deviation_kind;
typedef struct {
    deviation_kind kind;
    int rank, peer;       /* peer: of a pair; else -1 */
    double excess, error; /* of a rank's links: the mean of the slow ones */
} deviation;
typedef struct {
    deviation *list; /* owned */
    int count;
} deviations;

/* On rank 0. operations and links are its tables. */
deviations deviations_find(const operation_table *operations, const link_table *links, int ranks);
/* Prints a line for each, or that there is none. */
void deviations_print(const deviations *d, const rank_identity *of);
/* Writes the hosts of all that deviates, each once, a line each. Returns false if it cannot. */
bool deviations_exclude(const deviations *d, const rank_identity *of, const char *path);
