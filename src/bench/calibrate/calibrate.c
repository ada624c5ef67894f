/* Calibration and pre-flight. */
#include "bench/calibrate/calibrate.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/calibrate/calibration_files.h"
#include "bench/launch/case_machine.h"
#include "bench/project/price.h"
#include "machine/world.h"
#include <stdio.h>

/* A host has no NVLink domain: its ranks share one. */
static int domain_of(const calibration *of) { return of->base ? of->base->device->domain : HOST_DOMAIN; }

static const bench_case *obstacle(const deck *d)
{
    for (int64_t i = 0; i < d->cases; i++)
        if (d->item[i].skipped[0]) return &d->item[i];
    return NULL;
}

static rank_identity *gather_identities(machine_kind kind)
{
    rank_identity own;
    machine_device device = machine_device_of(kind);
    snprintf(own.host, sizeof own.host, "%.63s", world_host());
    snprintf(own.device, sizeof own.device, "%s", device.identity);
    return world_gather(&own, sizeof own);
}

/* Of each kind of transfer the last line, of most bytes. */
static void print_transfers(const listed_times *t)
{
    for (int i = 0; i < t->count; i++) {
        const listed_time *x = &t->list[i];
        if (i + 1 < t->count && x[1].work > x->work) continue;
        say("transfer    %-24s %6.1f GB/s of %.1f MB\n", x->key, x->work / x->seconds / 1e9, x->work / 1e6);
    }
}

static void print_measured(const measured *m)
{
    say("operations  %d distinct ones on %d rank%s, each for itself and at the same time\n", m->operations.operations,
        m->operations.ranks, plural(m->operations.ranks));
    say("links       %d pair%s of ranks\n", m->links.pairs, plural(m->links.pairs));
    print_transfers(&m->transfers);
}

static void measure_all(const calibration *of, measured *m)
{
    transfer_bench b;
    const bench_case *first = &of->deck->item[0];
    machine_kind kind = case_machine(first).kind;
    rank_map map = rank_map_open(world_ranks(), world_node);
    m->operations = operations_measure(of->deck, of->seconds);
    transfer_bench_open(&b, kind, case_blocks(first));
    m->gap = transfer_gap(&b);
    m->links = links_measure(&b, &map);
    m->transfers = transfers_measure(&b, of->deck, domain_of(of));
    m->identity = gather_identities(kind);
    transfer_bench_close(&b);
    rank_map_close(&map);
}

static void free_all(measured *m)
{
    operations_free(&m->operations);
    free(m->links.pair);
    free(m->transfers.list);
    free(m->identity);
    free(m->found.list);
}

/* What rank 0 makes of it. */
static void judge_and_write(const calibration *of, measured *m, char *why, size_t length)
{
    m->found = deviations_find(&m->operations, &m->links, world_ranks());
    print_measured(m);
    deviations_print(&m->found, m->identity);
    if (calibration_write(m, of->name, of->base, why, length))
        say("written     %s.sheet, %s.exclude, %s.calibration.h5\n", of->name, of->name, of->name);
}

int calibrate(const calibration *of, char *why, size_t length)
{
    measured m = { .gap = 0.0 };
    const bench_case *skipped = obstacle(of->deck);
    if (skipped) snprintf(why, length, "case %d cannot be laid out: %s", skipped->number, skipped->skipped);
    if (skipped) return STATUS_REFUSED;
    measure_all(of, &m);
    if (world_rank() == 0) judge_and_write(of, &m, why, length);
    bool written = world_hear(why, length) < 0, deviates = world_first(m.found.count > 0) < world_ranks();
    free_all(&m);
    return !written ? STATUS_RECORD : deviates ? STATUS_FAILED : STATUS_PASSED;
}
