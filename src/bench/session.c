/* A run. */
#include "bench/session.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/say.h"
#include "bench/record/record.h"
#include "bench/report.h"
#include "bench/run_case.h"
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

/* On rank 0, and NULL elsewhere. False, said, and on all ranks: it could not be written. */
static bool open_record(const session *s, const deck *d, const surroundings *a, record **opened)
{
    char reason[512];
    record_source source = { .path = d->item[0].record,
                             .deck_name = s->deck_name,
                             .deck_text = s->deck_text,
                             .deck_length = s->deck_length,
                             .argc = s->argc,
                             .argv = s->argv,
                             .ranks = world_ranks(),
                             .hosts = a->hosts,
                             .threads = a->load.threads,
                             .mpi = a->mpi,
                             .products = a->products,
                             .cuda = a->cuda,
                             .devices = s->devices.device,
                             .cases = d->cases };
    *opened = world_rank() == 0 ? record_open(&source, reason, sizeof reason) : NULL;
    if (world_rank() == 0 && !*opened)
        fprintf(stderr, "%s: record: %s; record = PATH names another file, record = none keeps none\n", s->deck_name,
                reason);
    world_wait_for_root();
    return world_all(world_rank() != 0 || *opened);
}

/* When the record was written last, and how long that took: it is rewritten whole, so a deck of many short cases is
 * written when writing costs at most a twentieth of the time since; the end of the run always writes. Until a case has
 * run nothing is: an older record stays. */
typedef struct {
    double ended, seconds;
} last_commit;
enum { COMMIT_SHARE = 20 };

static void commit_record(record *r, last_commit *last, bool always)
{
    char reason[512];
    double begin = clock_seconds();
    if (!r || (!always && begin - last->ended < COMMIT_SHARE * last->seconds)) return;
    if (!record_commit(r, reason, sizeof reason)) FAIL_STATUS(STATUS_RECORD, "record: %s", reason);
    last->ended = clock_seconds();
    last->seconds = last->ended - begin;
}

/* A skipped case is recorded with the reason found when it was tried. */
static void skip_one(const bench_case *c, record *rec, const char *reason)
{
    bench_case kept = *c;
    report_skipped(c, reason);
    snprintf(kept.skipped, sizeof kept.skipped, "%s", reason);
    if (rec) record_add(rec, &kept, NULL, VERDICT_SKIPPED);
}

static verdict train_one(const bench_case *c, const measure *share, const surroundings *a, record *rec, final_counts *n)
{
    case_result r;
    result_open(&r, c);
    verdict v = run_case(c, share, &a->load, &r);
    report_case_ends(&r);
    if (rec) record_add(rec, c, &r, v);
    n->valid += r.valid;
    result_close(&r);
    return v;
}

static void run_one(const bench_case *c, const surroundings *a, record *rec, final_counts *n)
{
    char reason[REASON_LENGTH];
    verdict v = VERDICT_SKIPPED;
    measure share;
    if (case_can_run(c, &a->load, &share, reason)) v = train_one(c, &share, a, rec, n);
    else skip_one(c, rec, reason);
    measure_free(&share);
    n->passed += v == VERDICT_PASSED;
    n->failed += v == VERDICT_FAILED;
    n->skipped += v == VERDICT_SKIPPED;
}

static int run_cases(const session *s, const deck *d, const surroundings *a, record *rec)
{
    final_counts n = { 0 };
    last_commit last = { 0.0, 0.0 };
    report_banner(d, s->deck_name, world_ranks(), a->load.threads, a->products, a->mpi);
    if (a->cuda[0]) report_devices(s->devices.device, a->hosts, world_ranks(), a->cuda);
    for (int64_t i = 0; i < d->cases; i++) {
        run_one(&d->item[i], a, rec, &n);
        if (n.passed + n.failed) commit_record(rec, &last, i + 1 == d->cases);
        world_wait_for_root();
    }
    report_end(&n, strcmp(d->item[0].record, "none") ? d->item[0].record : NULL);
    return n.failed ? STATUS_FAILED : STATUS_PASSED;
}

int session_run(const session *s, const deck *d)
{
    record *rec;
    surroundings a = look_around(s, deck_on_cuda(d));
    machine_share_devices(a.load.sharing > 1);
    int status = open_record(s, d, &a, &rec) ? run_cases(s, d, &a, rec) : STATUS_REFUSED;
    if (rec) record_close(rec);
    free(a.hosts);
    return status;
}
