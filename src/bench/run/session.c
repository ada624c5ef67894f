/* Opening and closing of a run, and its cases. */
#include "bench/run/session.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/facts/accept.h"
#include "bench/launch/preloaded.h"
#include "bench/record/place.h"
#include "bench/record/provenance.h"
#include "bench/report/title_lines.h"
#include "bench/run/run_case.h"
#include "machine/op/activity.h"
#include "machine/watch/nodes.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIBRARY_LENGTH = 512 };
typedef struct {
    char *hosts, *switches, mpi[LIBRARY_LENGTH], products[LIBRARY_LENGTH], cuda[LIBRARY_LENGTH];
    host_load load;
} surroundings;

/* Writes the switches above this node: "s0.s4" of Slurm's "s0.s4.node7". Writes nothing if the address is another
 * node's, because some launchers copy the environment of the node on which they start. */
static void write_switches(char switches[SWITCHES_BYTES])
{
    const char *address = getenv("SLURM_TOPOLOGY_ADDR"), *node = address ? strrchr(address, '.') : NULL;
    if (node && strncmp(node + 1, world_host(), strlen(node + 1)) == 0)
        snprintf(switches, SWITCHES_BYTES, "%.*s", (int)(node - address), address);
}

/* Gathers hosts and switches on rank 0, and finds the load of the most crowded node. Collective over the world. */
static surroundings look_around(const session *s, bool cuda)
{
    surroundings a = { .load = { .threads = machine_threads(MACHINE_HOST) } };
    char own[HOST_NAME_BYTES] = "", switches[SWITCHES_BYTES] = "";
    snprintf(own, sizeof own, "%s", world_host());
    write_switches(switches);
    a.hosts = world_gather(own, sizeof own);
    a.switches = world_gather(switches, sizeof switches);
    double crowd[4] = { world_node_ranks(), -(double)world_node_cores(), a.load.threads, -cgroup_limits_here().cpus };
    world_maximum(crowd, 4);
    a.load = (host_load){ (int)crowd[0], (int)-crowd[1], (int)crowd[2], s->devices.sharing, -crowd[3] };
    world_library(a.mpi, sizeof a.mpi);
    machine_library(MACHINE_HOST, a.products, sizeof a.products);
    if (cuda) machine_library(MACHINE_CUDA, a.cuda, sizeof a.cuda);
    return a;
}

/* A case whose checkpoint cannot be loaded or saved counts as SKIPPED, because it was not trained. */
static void refuse_load(case_result *r, const bench_case *c, const char *reason)
{
    result_skip(r, c, reason);
    r->ruling.refused = true;
    if (world_rank() == 0) fprintf(stderr, "xgsw: %s\n", reason);
}

static void train_one(const bench_case *c, const measure *share, case_result *r, const run_state *in)
{
    char reason[REASON_LENGTH];
    result_open(r, c);
    run_case(c, share, r, in);
    snprintf(reason, sizeof reason, "%s", r->seen.checkpoint.refused);
    if (!reason[0]) return;
    result_close(r);
    refuse_load(r, c, reason);
}

/* After a case was stopped, the others do not begin. */
static void run_one(const bench_case *c, case_result *r, const run_state *in, int *stopped)
{
    char reason[REASON_LENGTH];
    measure share = { .parameters = 0 };
    if (!*stopped) *stopped = stop_agreed(&in->stop, c);
    if (*stopped) snprintf(reason, sizeof reason, "the run stopped before it: %s", stop_words(*stopped));
    bool can = !*stopped && case_can_run(c, &in->load, &share, reason);
    if (!can) result_skip(r, c, reason);
    else if (checkpoint_suits(c, reason)) train_one(c, &share, r, in);
    else refuse_load(r, c, reason);
    if (can) *stopped = r->seen.stopped;
    if (world_rank() == 0) accept_case(r);
    measure_free(&share);
    activity_doing("writing the record", -1);
    sinks_end(&in->told, r);
}

/* Makes the first case take memory that is large enough for all cases, because NCCL registers it only once. */
static void reserve_memory(const deck *d, const host_load *load)
{
    if (world_ranks() == 1 || d->cases == d->item[0].repeats) return;
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) case_reserve(&d->item[i], load);
}

/* Rank 0 keeps all results if it writes a record. Otherwise memory has one result at a time. */
static final_counts run_cases(const deck *d, const run_state *in, bool strict)
{
    final_counts n = { .strict = strict };
    bool keeps = world_rank() == 0 && strcmp(d->item[0].record, "none") != 0;
    int64_t kept = keeps ? d->cases : 1;
    int stopped = 0;
    case_result *result = allocate(kept, sizeof *result, "results");
    reserve_memory(d, &in->load);
    for (int64_t i = 0; i < d->cases; i++) {
        case_result *r = &result[keeps ? i : 0];
        run_one(&d->item[i], r, in, &stopped);
        if (world_rank() == 0) accept_count(&n, r, stopped != 0);
        if (!keeps) result_close(r);
        world_barrier();
    }
    for (int64_t i = 0; keeps && i < kept; i++) result_close(&result[i]);
    free(result);
    return n;
}

/* Call it on rank 0. Returns false if it fails, after printing the reason on stderr. */
static bool open_sinks(sinks *told, record_place *place, run_source *run)
{
    char why[2048];
    if (!place_take(place, run->deck->item[0].record, why, sizeof why)) {
        fprintf(stderr, "%s: record: %s; give record = PATH of another file, or record = none\n", run->deck_name, why);
        return false;
    }
    run->place = place;
    run->provenance = provenance_open(run);
    if (sinks_open(told, run)) return true;
    place_forget_journal(place);
    return false;
}

/* Sends the place of the journal to all ranks, because any rank may print the last line after a stall. Collective over
 * the world. */
static void tell_watch(const record_place *place, char sentence[WATCH_SENTENCE])
{
    sentence[0] = 0;
    if (!place->none)
        snprintf(sentence, WATCH_SENTENCE,
                 "the steps printed so far are in %s: validation/validate.py --recover %s makes a record of them",
                 place->journal, place->journal);
    world_broadcast(sentence, WATCH_SENTENCE, 0);
    watch_set_last_sentence(sentence[0] ? sentence : NULL);
}

/* Creates a folder next to the record, in which nodes exchange what they know of a stall. Returns false if there is
 * only one node or no folder. Collective over the world. */
static bool open_nodes(const record_place *place, char folder[PLACE_LENGTH + PLACE_END])
{
    folder[0] = 0;
    if (world_node_ranks() == world_ranks()) return false;
    if (!place->none) place_end(folder, place->record, ".stall");
    if (folder[0] && !nodes_make(folder)) {
        fprintf(stderr, "xgsw: %s cannot be made, is a link or holds other files: each node judges a stall by itself\n",
                folder);
        folder[0] = 0;
    }
    world_broadcast(folder, PLACE_LENGTH + PLACE_END, 0);
    if (folder[0]) nodes_open(folder);
    return folder[0];
}

static void close_nodes(const char *folder)
{
    nodes_close();
    world_barrier();
    if (world_rank() == 0) nodes_remove(folder);
}

static bool is_deterministic(const deck *d)
{
    bool any = false;
    for (int64_t i = 0; i < d->cases; i++) any = any || d->item[i].deterministic;
    return any;
}

int session_run(const session *s, const deck *d)
{
    char left[WATCH_SENTENCE], folder[PLACE_LENGTH + PLACE_END];
    repeat_means repeats = { .first = 0 };
    run_state in = { .stop = stop_open(), .repeats = &repeats, .sheet = s->sheet };
    record_place place = { .none = true, .file = -1 };
    surroundings a = look_around(s, deck_on_cuda(d));
    run_source run = s->run;
    run.deck = d, run.devices = s->devices.device, run.hosts = a.hosts, run.switches = a.switches;
    run.ranks = world_ranks(), run.threads = a.load.threads;
    run.mpi = a.mpi, run.products = a.products, run.cuda = a.cuda;
    in.load = a.load;
    libraries_compare(run.libraries, true, in.libraries_differ);
    preloaded_complaint(run.libraries, in.preloaded);
    machine_share_devices(a.load.sharing > 1);
    machine_repeat_bits(is_deterministic(d));
    int status = STATUS_REFUSED;
    activity_doing("opening the record", -1);
    bool opened = world_rank() != 0 || open_sinks(&in.told, &place, &run);
    world_barrier();
    in.began = clock_seconds();
    if (world_all(opened)) {
        tell_watch(&place, left);
        bool files = open_nodes(&place, folder);
        if (world_rank() == 0) say_title(&run);
        final_counts n = run_cases(d, &in, run.strict);
        activity_doing("writing the record", -1);
        watch_set_last_sentence(NULL);
        sinks_close(&in.told, &n);
        if (files) close_nodes(folder);
        status = accept_status(&n);
        world_broadcast(&status, sizeof status, 0);
    } else sinks_close(&in.told, NULL);
    provenance_close(run.provenance);
    place_leave(&place);
    free(a.hosts);
    free(a.switches);
    return status;
}
