/* A save: all files, then the index, then the name. */
#include "base/clock.h"
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

/* The slowest rank's times, and how fast that one was. */
static void add_times(checkpoint_facts *f, double bytes, double write, double sync)
{
    double slowest[] = { write, sync }, sums[] = { bytes, world_node(world_rank()) == world_rank() };
    world_maximum(slowest, 2);
    world_sum(sums, 2);
    double of_slowest = write == slowest[0] ? bytes : 0.0;
    world_maximum(&of_slowest, 1);
    f->bytes = sums[0];
    f->write_seconds = slowest[0];
    f->sync_seconds = slowest[1];
    f->rank_rate = of_slowest / slowest[0];
    f->node_rate = sums[0] / slowest[0] / sums[1];
}

static bool write_files(saving *s)
{
    double sync = 0.0;
    if (!folder_has_room(&s->folder, s->own.bytes, &s->facts->free_bytes, s->reason)) return false;
    double begin = clock_seconds();
    rank_file_write(s->folder.made, s->trainer, &s->own, &sync, s->reason);
    add_times(s->facts, s->own.bytes, clock_seconds() - begin, sync);
    return folder_agree(s->reason);
}

static bool write_index(saving *s)
{
    s->index = index_gather(s->trainer, &s->own, s->folder.step);
    if (world_rank() == 0) index_write(&s->index, s->given, s->folder.made, s->reason);
    memcpy(s->facts->sha256, s->index.sha256, sizeof s->index.sha256);
    return folder_agree(s->reason);
}

/* Every rank reads the file that the same rank of the next node wrote, on one node that of the next rank: no cache of
 * its own can have it. */
static bool read_back(saving *s)
{
    int64_t from = (world_rank() + (world_node_ranks() < world_ranks() ? world_node_ranks() : 1)) % world_ranks();
    char name[NAME_LENGTH];
    index_broadcast(&s->index);
    double begin = clock_seconds();
    rank_files files = rank_files_open(s->folder.whole, true, s->reason);
    for (const saved_fragment *f = s->index.fragment; f < s->index.fragment + s->index.fragments; f++) {
        snprintf(name, sizeof name, "parameter %lld", (long long)f->logical);
        for (int k = 0; k < STATES && f->rank == from && !s->reason[0]; k++)
            rank_file_prove(&files, f, (saved_state)k, name, s->index.columns[f->logical]);
    }
    rank_files_close(&files);
    s->facts->read_seconds = clock_seconds() - begin;
    world_maximum(&s->facts->read_seconds, 1);
    return folder_agree(s->reason);
}

static bool save(saving *s, int64_t step)
{
    return folder_make(&s->folder, s->given->checkpoint, step, s->reason) && write_files(s) && write_index(s) &&
           folder_commit(&s->folder, s->reason) && (!s->given->checkpoint_read || read_back(s));
}

/* The line of the Llama 3.1 recipe, by which its users find the time. */
static void note_save(saving *s, double began)
{
    checkpoint_facts *f = s->facts;
    f->saves++;
    f->saved_step = s->folder.step;
    folder_file_system(s->folder.parent, f->file_system);
    folder_prune(&s->folder, s->given->checkpoint_keep);
    say("Global Checkpoint Save : Rank: 0 : Iteration: %lld : Start time: %.3fs : Save duration: %.3fs\n",
        (long long)f->saved_step, began, f->seconds);
}

void checkpoint_save(const bench_case *c, trainer *t, int64_t step, checkpoint_facts *f)
{
    saving s = { .given = c, .trainer = t, .facts = f, .own = fragments_of(t) };
    activity_doing("saving a checkpoint", step);
    world_broadcast(&step, sizeof step, 0);
    world_barrier();
    double begin = clock_seconds(), began = clock_date();
    bool saved = save(&s, step);
    f->seconds = clock_seconds() - begin;
    world_broadcast(&f->seconds, sizeof f->seconds, 0);
    if (saved) note_save(&s, began);
    else folder_abandon(&s.folder);
    if (!saved && !f->failed[0])
        snprintf(f->failed, sizeof f->failed, "step %lld: %.*s", (long long)step, REASON_LENGTH - 32, s.reason);
    world_barrier();
    index_free(&s.index);
    fragments_free(&s.own);
}
