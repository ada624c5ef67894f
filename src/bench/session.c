/* A run. */
#include "bench/session.h"
#include "base/fail.h"
#include "bench/run_case.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIBRARY_LENGTH = 512 };
typedef struct {
    char *hosts, mpi[LIBRARY_LENGTH], products[LIBRARY_LENGTH], cuda[LIBRARY_LENGTH];
    host_load load;
} surroundings;

/* Host names of all ranks on rank 0, and the load of the most crowded node. Collective. */
static surroundings look_around(const session *s, bool cuda)
{
    surroundings a = { .load = { .threads = machine_threads(MACHINE_HOST) } };
    char own[HOST_NAME_BYTES] = "";
    snprintf(own, sizeof own, "%s", world_host());
    size_t bytes = (size_t)world_ranks() * HOST_NAME_BYTES;
    a.hosts = world_rank() == 0 ? malloc(bytes) : NULL;
    if (world_rank() == 0 && !a.hosts) FAIL("no memory for the names of %d hosts", world_ranks());
    world_gather(own, sizeof own, a.hosts, 0);
    double crowd[3] = { world_node_ranks(), -(double)world_node_cores(), a.load.threads };
    world_maximum(crowd, 3);
    a.load = (host_load){ (int)crowd[0], (int)-crowd[1], (int)crowd[2], s->devices.sharing };
    world_library(a.mpi, sizeof a.mpi);
    machine_library(MACHINE_HOST, a.products, sizeof a.products);
    if (cuda) machine_library(MACHINE_CUDA, a.cuda, sizeof a.cuda);
    return a;
}

static verdict run_one(const bench_case *c, case_result *r, const host_load *load, const sinks *told)
{
    char reason[REASON_LENGTH];
    measure share;
    bool can = case_can_run(c, load, &share, reason);
    if (can) result_open(r, c);
    else result_skip(r, c, reason);
    verdict v = can ? run_case(c, &share, load, r, told) : VERDICT_SKIPPED;
    measure_free(&share);
    watch_doing("writing the record", -1);
    sinks_case_ends(told, r);
    return v;
}

/* Rank 0 keeps all results while there is a record to write; else there is one at a time. */
static final_counts run_cases(const deck *d, const host_load *load, const sinks *told)
{
    final_counts n = { 0 };
    bool keeps = world_rank() == 0 && strcmp(d->item[0].record, "none") != 0;
    int64_t kept = keeps ? d->cases : 1;
    case_result *result = calloc((size_t)kept, sizeof *result);
    if (!result) FAIL("out of memory for %lld results", (long long)kept);
    for (int64_t i = 0; i < d->cases; i++) {
        case_result *r = &result[keeps ? i : 0];
        verdict v = run_one(&d->item[i], r, load, told);
        n.passed += v == VERDICT_PASSED, n.failed += v == VERDICT_FAILED, n.skipped += v == VERDICT_SKIPPED;
        n.valid += r->valid;
        if (!keeps) result_close(r);
        world_barrier();
    }
    for (int64_t i = 0; keeps && i < kept; i++) result_close(&result[i]);
    free(result);
    return n;
}

int session_run(const session *s, const deck *d)
{
    sinks told = { .open = 0 };
    surroundings a = look_around(s, deck_on_cuda(d));
    run_source run = s->run;
    run.deck = d, run.devices = s->devices.device, run.hosts = a.hosts;
    run.ranks = world_ranks(), run.threads = a.load.threads;
    run.mpi = a.mpi, run.products = a.products, run.cuda = a.cuda;
    machine_share_devices(a.load.sharing > 1);
    int status = STATUS_REFUSED;
    watch_doing("opening the record", -1);
    bool opened = world_rank() != 0 || sinks_open(&told, &run);
    world_barrier();
    if (world_all(opened)) {
        sinks_run_begins(&told, &run);
        final_counts n = run_cases(d, &a.load, &told);
        watch_doing("writing the record", -1);
        sinks_run_ends(&told, &run, &n);
        status = n.failed ? STATUS_FAILED : STATUS_PASSED;
    }
    sinks_close(&told);
    free(a.hosts);
    return status;
}
