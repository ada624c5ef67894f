/* facts/: what was observed of a case and what follows from it.
 *
 * What was observed of one case, as plain data; sentences in it are those of who observed. bench/run fills it, from
 * what health/, launch/, check/ and the machine return. Figures (figures.h) and the ruling (result.h) follow from it
 * and the case. */
#pragma once
#include "base/arena.h"
#include "base/sha256.h"
#include "bench/check/findings.h"
#include "bench/health/rank_times.h"
#include "bench/health/samples.h"
#include "bench/launch/placement.h"

/* What a mixture of experts reports of a step (train/trainer.h). */
typedef enum { ROUTED_BALANCE, ROUTED_DROPS, ROUTED_LEAST, ROUTED_MOST, ROUTED_VARIATION, ROUTED_FACTS } routed_fact;

/* Of a kind of tensor of an FP8 case: parts of its values that became 0 without being it, and the largest number of the
 * format for being larger; smallest and largest scale of a tensor. */
typedef struct {
    double underflowed, saturated, scale_least, scale_most;
} fp8_facts;

/* What bench/checkpoint saw, the same on all ranks. Seconds are of the slowest rank, by its clock. Of several saves
 * these are the last one's. */
typedef struct {
    int64_t loaded_step; /* steps that were done before this case: it goes on from there; 0: nothing was loaded */
    int64_t rate_warmup, rate_steps; /* its rule of the learning rate: steps until the largest, and all */
    double loaded_bytes, load_seconds;
    char loaded_sha256[SHA256_HEX];         /* of its index */
    char refused[REASON_LENGTH];            /* why nothing could be loaded; empty: it was, or was not asked for */
    int64_t saves, first_saved, saved_step; /* first_saved: steps of the first one */
    double bytes, seconds, write_seconds, sync_seconds, read_seconds; /* whole; write: sync included; read: 0: not */
    double rank_rate, node_rate; /* bytes/s of the slowest rank's write, and of a node, on average */
    double free_bytes;           /* before it, where rank 0 writes */
    char file_system[32], sha256[SHA256_HEX];
    char failed[REASON_LENGTH]; /* why the first save that failed did; empty: none did */
} checkpoint_facts;

/* What the deck's machine sheet says of rank 0's timed steps: seconds of a step; of all of them by phase and axis,
 * which are the tally's. */
typedef struct {
    char why[REASON_LENGTH]; /* why it says nothing; empty: it does, or there is no sheet */
    double seconds, least, most;
    double phase[PHASES], exposed[TALLY_AXES];
} expected_steps;

/* Lists are owned. What is gathered (bench/run/gather_case.c) is complete on rank 0 only. */
typedef struct {
    int64_t total;        /* steps that the lists have: warmup + steps; of a soak that runs there is room for so many */
    int64_t completed;    /* steps that finished */
    int stopped;          /* why not all (bench/run/stop.h); 0: nobody asked to stop */
    double total_seconds; /* wall time of the case, checks included; this rank's */
    double begin_seconds; /* when it began, since the record was opened; this rank's */

    /* Of each step, warm-up first, [total]; the same on all ranks that take part, but for own_seconds and begin. */
    double *loss, *gradient_norm, *learning_rate, *routed[ROUTED_FACTS];
    double *own_seconds;      /* by this rank's clock */
    double *begin;            /* when the step began, since the case did; by this rank's clock */
    double *pause;            /* seconds that a checkpoint took before the step; rank 0's clock */
    fp8_facts fp8[FP8_KINDS]; /* of the timed steps; NaN in other precisions */
    double *fp8_scale;        /* [total, fp8_tensors] */
    int64_t fp8_tensors;      /* 0 in other precisions */

    /* Of each rank that takes part; gathered. */
    rank_times ranks;
    machine_device
        *devices; /* [ranks, 2]: as the timed steps began and ended, in the midst of work; NULL: none began */
    sample_set samples;

    /* Of this rank; the record has rank 0's. */
    size_t arena_bytes, bytes_by_kind[ARENA_KINDS];
    tally tally; /* counts and seconds of the timed steps */
    span *spans; /* operations of the last step in order of completion, from the first's begin */
    int64_t span_count;
    char engines[8192];  /* of attention and products: a line in words, then one for each product */
    char transfers[512]; /* how they are made, and what products leave free for them; empty on the host */
    int sms_left_free;   /* by products */

    /* Of all ranks: maxima, sums, the first of them. */
    placement placement;                                           /* on nodes */
    host_load load;                                                /* of the run */
    double outside_bytes, own_outside_bytes, device_outside_bytes; /* maxima; bench/paper/memory.h */
    char libraries_differ[REASON_LENGTH]; /* the first rank that has other libraries than rank 0; empty: none */
    char preloaded[REASON_LENGTH];        /* the first preloaded library that answers calls of the program */
    char profiled[REASON_LENGTH];         /* the first profiler or trace that a rank has; empty: there is none */
    int libraries_rank, preloaded_rank, profiled_rank; /* that have these sentences; -1: none */
    char weights_digest[17];                           /* of all ranks' weights after the last step */
    char struck[OP_TEXT];                              /* which operation a planted fault struck in the timed steps */
    machine_findings machine;
    delivery_report replay_delivery; /* transfers of the replayed steps */
    double replay_seconds;           /* the longest of all ranks */
    check_result check;
    conservation conserved;
    checkpoint_facts checkpoint;
    expected_steps expected; /* seconds 0: nothing is; rank 0 */
} facts;

/* Allocates the lists; numbers are NaN until they are observed. */
facts facts_open(const bench_case *c);
/* Of a case that does not run: there are no lists. */
facts facts_none(void);
void facts_close(facts *f);
/* Other lists of steps, of which the first entries are the old ones'. */
void facts_resize(facts *f, int64_t total);
/* Adds what FP8 did in a step, all ranks': one entry a kind. Called once for each timed step, in their order; timed:
 * its number, from 0. */
void facts_add_fp8(facts *f, int64_t timed, const fp8_facts kind[FP8_KINDS]);
/* Keeps the spans of one step, and what was idle in so many seconds: no operation ran, no transfer was waited for. On
 * the host, posting messages and adding what they brought count as idle. */
void facts_add_time(facts *f, const machine *m, int64_t step, double seconds);
