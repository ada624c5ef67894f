/* What was observed of saving and loading, as plain data. */
#pragma once
#include "base/sha256.h"
#include "plan/bench_case.h"

/* The same on all ranks. Seconds are of the slowest rank, by its clock. Of several saves these are the last one's. */
typedef struct {
    int64_t loaded_step; /* steps that were done before this case: it goes on from there; 0: nothing was loaded */
    int64_t rate_warmup, rate_steps; /* its rule of the learning rate: steps until the largest, and all */
    double loaded_bytes, load_seconds;
    char loaded_sha256[SHA256_HEX]; /* of its index */
    char refused[REASON_LENGTH];    /* why nothing could be loaded; empty: it was, or was not asked for */
    int64_t saves, saved_step;
    double bytes, seconds, write_seconds, sync_seconds, read_seconds; /* whole; write: sync included; read: 0: not */
    double rank_rate, node_rate; /* bytes/s of the slowest rank's write, and of a node, on average */
    double free_bytes;           /* before it, where rank 0 writes */
    char file_system[32], sha256[SHA256_HEX];
    char failed[REASON_LENGTH]; /* why the first save that failed did; empty: none did */
} checkpoint_facts;
