/* Opening and closing of a run, and its cases. */
#include "bench/run/session.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/say.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/facts/accept.h"
#include "bench/launch/preloaded.h"
#include "bench/record/json.h"
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
} environment;

/* Writes the switches above this node: "s0.s4" for Slurm's "s0.s4.node7". Ignores the address of another node, because
 * some launchers copy the environment of the node on which they start. */
static void write_switches(char switches[SWITCHES_BYTES])
{
    const char *address = getenv("SLURM_TOPOLOGY_ADDR"), *node = address ? strrchr(address, '.') : NULL;
    if (node && strncmp(node + 1, world_host(), strlen(node + 1)) == 0)
        snprintf(switches, SWITCHES_BYTES, "%.*s", (int)(node - address), address);
}

/* Gathers hosts and switches on rank 0, and finds the load of the most crowded node. Collective over the world. */
static environment gather_environment(const session *s, bool cuda)
{
    environment e = { .load = { .threads = machine_threads(MACHINE_HOST) } };
    char own[HOST_NAME_BYTES] = "", switches[SWITCHES_BYTES] = "";
    snprintf(own, sizeof own, "%s", world_host());
    write_switches(switches);
    e.hosts = world_gather(own, sizeof own);
    e.switches = world_gather(switches, sizeof switches);
    double extremes[4] = { world_node_ranks(), -(double)world_node_cores(), e.load.threads,
                           -cgroup_limits_here().cpus };
    world_maximum(extremes, 4);
    e.load = (host_load){ (int)extremes[0], (int)-extremes[1], (int)extremes[2], s->devices.sharing, -extremes[3] };
    world_library(e.mpi, sizeof e.mpi);
    machine_library(MACHINE_HOST, e.products, sizeof e.products);
    if (cuda) machine_library(MACHINE_CUDA, e.cuda, sizeof e.cuda);
    return e;
}

/* A case whose checkpoint cannot be loaded or saved counts as SKIPPED, because it was not trained. */
static void refuse_checkpoint(case_result *r, const bench_case *c, const char *reason)
{
    result_skip(r, c, reason);
    r->ruling.refused = true;
    if (world_rank() == 0) fprintf(stderr, "xgsw: %s\n", reason);
}

static void train_one(const bench_case *c, const measure *share, case_result *r, const run_state *state)
{
    char reason[REASON_LENGTH];
    result_open(r, c);
    run_case(c, share, r, state);
    snprintf(reason, sizeof reason, "%s", r->seen.checkpoint.refused);
    if (!reason[0]) return;
    result_close(r);
    refuse_checkpoint(r, c, reason);
}

/* Skips the case if the run was stopped. */
static void run_one(const bench_case *c, case_result *r, const run_state *state, int *stopped)
{
    char reason[REASON_LENGTH];
    measure share = { .parameters = 0 };
    if (!*stopped) *stopped = stop_agreed(&state->stop, c);
    if (*stopped) snprintf(reason, sizeof reason, "the run stopped before it: %s", stop_words(*stopped));
    bool can_run = !*stopped && case_can_run(c, &state->load, &share, reason);
    if (!can_run) result_skip(r, c, reason);
    else if (checkpoint_suits(c, reason)) train_one(c, &share, r, state);
    else refuse_checkpoint(r, c, reason);
    if (can_run) *stopped = r->seen.stopped;
    if (world_rank() == 0) accept_case(r);
    measure_free(&share);
    activity_doing("writing the record", -1);
    sinks_end(&state->sinks, r);
}

/* Reserves memory for the largest case before the first, because NCCL registers the memory only once. */
static void reserve_memory(const deck *d, const host_load *load)
{
    if (world_ranks() == 1 || d->cases == d->item[0].repeats) return;
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) case_reserve(&d->item[i], load);
}

/* Rank 0 keeps all results if it writes a record. Otherwise each result is freed after its case. */
static final_counts run_cases(const deck *d, const run_state *state, bool strict)
{
    final_counts n = { .strict = strict };
    bool keeps_all = world_rank() == 0 && strcmp(d->item[0].record, "none") != 0;
    int64_t kept = keeps_all ? d->cases : 1;
    int stopped = 0;
    case_result *result = allocate(kept, sizeof *result, "results");
    reserve_memory(d, &state->load);
    for (int64_t i = 0; i < d->cases; i++) {
        case_result *r = &result[keeps_all ? i : 0];
        run_one(&d->item[i], r, state, &stopped);
        if (world_rank() == 0) accept_count(&n, r, stopped != 0);
        if (!keeps_all) result_close(r);
        world_barrier();
    }
    for (int64_t i = 0; keeps_all && i < kept; i++) result_close(&result[i]);
    free(result);
    return n;
}

/* Opens the file of the key output, after all other files, so that a refused run leaves it as it was. */
static bool open_output(const run_source *run)
{
    char why[2 * PATH_LENGTH] = "- is no file";
    const char *path = run->deck->item[0].output;
    if (strcmp(path, "none") == 0) return true;
    FILE *file = json_open_in_run(path, run, why, sizeof why);
    bool opened = file && file != stdout;
    if (opened) say_copy(file);
    else fprintf(stderr, "%s: output: %s; give output = FILE, or none\n", run->deck_name, why);
    return opened;
}

/* Call it on rank 0. On failure prints the reason on stderr and returns false. */
static bool open_sinks(sinks *s, record_place *place, run_source *run)
{
    char why[2048];
    if (!place_reserve(place, run->deck->item[0].record, why, sizeof why)) {
        fprintf(stderr, "%s: record: %s; give record = PATH of another file, or record = none\n", run->deck_name, why);
        return false;
    }
    run->place = place;
    run->provenance = provenance_open(run);
    if (sinks_open(s, run) && open_output(run)) return true;
    place_delete_journal(place);
    return false;
}

/* Sets the last line that a rank prints after a stall, which names the journal. Collective over the world. */
static void set_watch_sentence(const record_place *place, char sentence[WATCH_SENTENCE])
{
    sentence[0] = 0;
    if (!place->none)
        snprintf(sentence, WATCH_SENTENCE,
                 "the steps printed so far are in %s: validation/validate.py --recover %s makes a record of them",
                 place->journal, place->journal);
    world_broadcast(sentence, WATCH_SENTENCE, 0);
    watch_set_last_sentence(sentence[0] ? sentence : NULL);
}

/* Creates a folder next to the record, in which nodes exchange information on a stall. Returns false if there is only
 * one node or no folder. Collective over the world. */
static bool open_stall_folder(const record_place *place, char folder[PLACE_LENGTH + PLACE_END])
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

static void close_stall_folder(const char *folder)
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
    char sentence[WATCH_SENTENCE], folder[PLACE_LENGTH + PLACE_END];
    repeat_means repeats = { .first = 0 };
    run_state state = { .stop = stop_open(), .repeats = &repeats, .sheet = s->sheet };
    record_place place = { .none = true, .file = -1 };
    environment e = gather_environment(s, deck_on_cuda(d));
    run_source run = s->run;
    run.deck = d, run.devices = s->devices.device, run.hosts = e.hosts, run.switches = e.switches;
    run.ranks = world_ranks(), run.threads = e.load.threads;
    run.mpi = e.mpi, run.products = e.products, run.cuda = e.cuda;
    state.load = e.load;
    libraries_compare(run.libraries, true, state.libraries_differ);
    preloaded_complaint(run.libraries, state.preloaded);
    machine_share_devices(e.load.sharing > 1);
    machine_repeat_bits(is_deterministic(d));
    int status = STATUS_REFUSED;
    activity_doing("opening the record", -1);
    bool opened = world_rank() != 0 || open_sinks(&state.sinks, &place, &run);
    world_barrier();
    state.began = clock_seconds();
    if (world_all(opened)) {
        set_watch_sentence(&place, sentence);
        bool files = open_stall_folder(&place, folder);
        if (world_rank() == 0) say_title(&run);
        final_counts n = run_cases(d, &state, run.strict);
        activity_doing("writing the record", -1);
        watch_set_last_sentence(NULL);
        sinks_close(&state.sinks, &n);
        if (files) close_stall_folder(folder);
        status = accept_status(&n);
        world_broadcast(&status, sizeof status, 0);
    } else sinks_close(&state.sinks, NULL);
    provenance_close(run.provenance);
    place_close(&place);
    free(e.hosts);
    free(e.switches);
    return status;
}
