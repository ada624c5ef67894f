/* A save: writes the files of all ranks, then the index, then renames the folder. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/say.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/checkpoint/index.h"
#include "machine/op/activity.h"
#include "machine/world.h"
#include "plan/model/params.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const bench_case *given;
    trainer *trainer;
    checkpoint_facts *facts;
    checkpoint_folder folder;
    own_fragments own;
    checkpoint_index index;
    char reason[CHECKPOINT_SENTENCE];
} saving;

bool checkpoint_is_asked(const char *folder) { return strcmp(folder, "none") != 0; }

double checkpoint_bytes(const bench_case *c)
{
    param_list l = params_of_case(c);
    double bytes = 0.0;
    for (const param_rule *p = l.rule; p < l.rule + l.count; p++) {
        kept_format weight = p->kept.master == KEPT_NOT ? p->kept.weight : p->kept.master;
        double copies = (double)param_repeats(p, c->model.layers) * (p->experts ? (double)p->experts : 1.0);
        bytes += (kept_bytes(weight) + 2 * kept_bytes(p->kept.moment)) * copies * (double)(p->rows * p->columns);
    }
    return bytes;
}

/* Times and rate are those of the slowest rank. */
static void add_times(checkpoint_facts *f, double bytes, double write, double sync)
{
    double slowest[] = { write, sync }, sums[] = { bytes, world_node(world_rank()) == world_rank() };
    world_maximum(slowest, 2);
    world_sum(sums, 2);
    double slowest_bytes = write == slowest[0] ? bytes : 0.0;
    world_maximum(&slowest_bytes, 1);
    f->bytes = sums[0];
    f->write_seconds = slowest[0];
    f->sync_seconds = slowest[1];
    f->rank_rate = slowest_bytes / slowest[0];
    f->node_rate = sums[0] / slowest[0] / sums[1];
}

static bool write_files(saving *s)
{
    double sync = 0.0;
    if (!folder_has_space(&s->folder, s->own.bytes, &s->facts->free_bytes, s->reason)) return false;
    double begin = clock_seconds();
    rank_file_write(s->folder.temporary, s->trainer, &s->own, &sync, s->reason);
    add_times(s->facts, s->own.bytes, clock_seconds() - begin, sync);
    return folder_agree(s->reason);
}

static bool write_index(saving *s)
{
    s->index = index_gather(s->trainer, &s->own, s->folder.step);
    if (world_rank() == 0) index_write(&s->index, s->given, s->folder.temporary, s->reason);
    memcpy(s->facts->sha256, s->index.sha256, sizeof s->index.sha256);
    return folder_agree(s->reason);
}

/* Returns the smallest shift of ranks for which most ranks read a file that another node wrote. */
static int64_t reader_shift(void)
{
    int64_t ranks = world_ranks(), best = 0;
    double *on_node = allocate(ranks, sizeof *on_node, "ranks of nodes");
    for (int64_t k = 0; k < ranks; k++) on_node[k] = world_on_node((int)((world_rank() + k) % ranks));
    world_sum(on_node, ranks);
    for (int64_t k = 1; k < ranks; k++)
        if (best == 0 || on_node[k] < on_node[best]) best = k;
    free(on_node);
    return best;
}

/* Each rank reads the file of another rank and compares its sums. */
static bool read_back(saving *s)
{
    int64_t from = (world_rank() + reader_shift()) % world_ranks();
    char name[NAME_LENGTH];
    index_broadcast(&s->index);
    if (s->folder.owner != 0)
        snprintf(s->reason, sizeof s->reason, "checkpoint_read: the folder %s on %s is not rank 0's",
                 s->given->checkpoint, world_host());
    if (!folder_agree(s->reason)) return false;
    double begin = clock_seconds();
    rank_files files = rank_files_open(s->folder.temporary, true, s->reason);
    for (const saved_fragment *f = s->index.fragment; f < s->index.fragment + s->index.fragments; f++) {
        snprintf(name, sizeof name, "parameter %lld", (long long)f->logical);
        for (int k = 0; k < STATES && f->rank == from && !s->reason[0]; k++)
            rank_file_verify(&files, f, (saved_state)k, name, s->index.columns[f->logical]);
    }
    rank_files_close(&files);
    s->facts->read_seconds = clock_seconds() - begin;
    world_maximum(&s->facts->read_seconds, 1);
    return folder_agree(s->reason);
}

/* The folder is renamed last, so a checkpoint that fails the reading back never gets its final name. */
static bool save(saving *s, int64_t step)
{
    return folder_make(&s->folder, s->given->checkpoint, step, s->reason) && write_files(s) && write_index(s) &&
           (!s->given->checkpoint_read || read_back(s)) && folder_commit(&s->folder, s->reason);
}

/* Removes the oldest checkpoint of this run if there are too many. Saves are checkpoint_every steps apart, except the
 * last. */
static void remove_oldest(const saving *s)
{
    const checkpoint_facts *f = s->facts;
    int64_t oldest = f->saves - s->given->checkpoint_keep,
            step = f->first_saved + (oldest - 1) * s->given->checkpoint_every;
    if (oldest == f->saves) folder_remove(&s->folder, f->saved_step);
    else if (oldest > 0) folder_remove(&s->folder, step);
}

/* Prints the line of the Llama 3.1 recipe, because its users search for it. */
static void note_save(saving *s, double date)
{
    checkpoint_facts *f = s->facts;
    if (f->saves++ == 0) f->first_saved = s->folder.step;
    f->saved_step = s->folder.step;
    folder_file_system(s->folder.parent, f->file_system);
    say("Global Checkpoint Save : Rank: 0 : Iteration: %lld : Start time: %.3fs : Save duration: %.3fs\n",
        (long long)f->saved_step, date, f->seconds);
}

/* Prints only the first failure of a case. */
static void note_failure(saving *s)
{
    checkpoint_facts *f = s->facts;
    folder_abandon(&s->folder);
    if (f->failed[0]) return;
    snprintf(f->failed, sizeof f->failed, "step %lld: %.*s", (long long)s->folder.step, REASON_LENGTH - 32, s->reason);
    say("Checkpoint NOT SAVED: %s\n", f->failed);
}

void checkpoint_save(const bench_case *c, trainer *t, int64_t step, checkpoint_facts *f)
{
    saving s = { .given = c, .trainer = t, .facts = f, .own = fragments_of(t) };
    activity_doing("saving a checkpoint", step);
    world_broadcast(&step, sizeof step, 0);
    world_barrier();
    double begin = clock_seconds(), date = clock_date();
    f->read_seconds = 0.0;
    bool saved = save(&s, step);
    f->seconds = clock_seconds() - begin - f->read_seconds;
    world_broadcast(&f->seconds, sizeof f->seconds, 0);
    if (saved) note_save(&s, date), remove_oldest(&s);
    else note_failure(&s);
    world_barrier();
    index_free(&s.index);
    fragments_free(&s.own);
}
