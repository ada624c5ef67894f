/* The order of a calibration, and what it prints. */
#include "bench/calibrate/calibrate.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/calibrate/calibration_files.h"
#include "bench/launch/case_machine.h"
#include "bench/project/price.h"
#include "machine/op/activity.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

static int domain_of(const calibration *c) { return c->base ? sheet_domain(c->base) : HOST_DOMAIN; }

static bool is_refused(const deck *d, char *why, size_t length)
{
    for (int64_t i = 0; i < d->cases; i++) {
        const bench_case *c = &d->item[i];
        if (c->skipped[0]) snprintf(why, length, "case %d cannot be laid out: %s", c->number, c->skipped);
        else if (c->backend != d->item[0].backend)
            snprintf(why, length, "case %d has another backend than case 1: calibrate them separately", c->number);
        else continue;
        return true;
    }
    return false;
}

static rank_identity *gather_identities(machine_kind kind)
{
    rank_identity own;
    machine_device device = machine_device_of(kind);
    snprintf(own.host, sizeof own.host, "%.63s", world_host());
    snprintf(own.device, sizeof own.device, "%s", device.identity);
    return world_gather(&own, sizeof own);
}

/* Returns the bytes that a rank sends in a ring, divided by the bytes of the operand (bus bandwidth of nccl-tests). */
static double bus_factor(const char *key)
{
    int ranks = 2;
    sscanf(key, "%*s %d", &ranks);
    if (strncmp(key, "exchange", 8) == 0) return 1.0;
    return (strncmp(key, "all_reduce", 10) == 0 ? 2.0 : 1.0) * (ranks - 1) / ranks;
}

/* Prints the bandwidth of each kind of transfer with its largest operand. */
static void print_transfers(const listed_times *t)
{
    for (int i = 0; i < t->count; i++) {
        const listed_time *x = &t->list[i];
        if (i + 1 < t->count && x[1].work > x->work) continue;
        say("transfer    %-24s bus bandwidth %.1f GB/s, operand %.1f MB\n", x->key,
            bus_factor(x->key) * x->work / x->seconds / 1e9, x->work / 1e6);
    }
}

static void print_rates(const operation_table *t)
{
    double products = 0.0, memory = 0.0;
    for (int i = 0; i < t->operations; i++) {
        double rate = t->listed[i].work / t->listed[i].seconds;
        bool product = strncmp(t->listed[i].key, "matmul", 6) == 0, moves = strncmp(t->listed[i].key, "adamw", 5) == 0;
        if (product && rate > products) products = rate;
        if (moves && rate > memory) memory = rate;
    }
    say("rates       products up to %.4g TFLOP/s, AdamW moves up to %.4g GB/s\n", products / 1e12, memory / 1e9);
}

static void print_measured(const calibration_data *m)
{
    say("operations  %d different ones, on %d rank%s at the same time\n", m->operations.operations, m->operations.ranks,
        plural(m->operations.ranks));
    print_rates(&m->operations);
    say("links       %d pair%s of ranks\n", m->links.pairs, plural(m->links.pairs));
    print_transfers(&m->transfers);
}

static void measure_all(const calibration *c, calibration_data *m)
{
    transfer_bench b;
    const bench_case *first = &c->deck->item[0];
    machine_kind kind = case_machine(first).kind;
    rank_map map = rank_map_open(world_ranks(), world_node);
    watch_limit(first->stall_seconds);
    activity_doing("timing operations", -1);
    m->operations = operations_measure(c->deck, c->seconds);
    activity_doing("timing transfers", -1);
    transfer_bench_open(&b, kind, case_blocks(first));
    m->gap = transfer_gap(&b);
    m->links = links_measure(&b, &map);
    m->transfers = transfers_measure(&b, c->deck, domain_of(c));
    m->identity = gather_identities(kind);
    transfer_bench_close(&b);
    rank_map_close(&map);
}

static void free_all(calibration_data *m)
{
    operations_free(&m->operations);
    free(m->links.pair);
    free(m->transfers.list);
    free(m->identity);
    free(m->deviations.list);
}

static void judge_and_write(const calibration *c, calibration_data *m, char *why, size_t length)
{
    m->deviations = deviations_find(&m->operations, &m->links, world_ranks());
    print_measured(m);
    deviations_print(&m->deviations, m->identity);
    if (calibration_write(m, c->name, c->base, why, length))
        say("written     %s.sheet, %s.exclude, %s.calibration.h5\n", c->name, c->name, c->name);
}

int calibrate(const calibration *c, char *why, size_t length)
{
    calibration_data m = { .gap = 0.0 };
    if (is_refused(c->deck, why, length)) return STATUS_REFUSED;
    if (world_rank() == 0) calibration_prepare_files(c->name, why, length);
    if (world_share_sentence(why, length) >= 0) return STATUS_REFUSED;
    measure_all(c, &m);
    if (world_rank() == 0) judge_and_write(c, &m, why, length);
    bool written = world_share_sentence(why, length) < 0,
         deviates = world_first(m.deviations.count > 0) < world_ranks();
    free_all(&m);
    return !written ? STATUS_RECORD : deviates ? STATUS_FAILED : STATUS_PASSED;
}
