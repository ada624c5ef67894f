/* A save: all files, then the index, then the name. */
#include "base/clock.h"
#include "base/say.h"
#include "bench/checkpoint/index.h"
#include "machine/op/activity.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const bench_case *given;
    trainer *trainer;
    checkpoint_facts *facts;
    checkpoint_folder folder;
    own_fragments own;
    char reason[CHECKPOINT_SENTENCE];
} saving;

static bool agree(saving *s)
{
    world_hear(s->reason, sizeof s->reason);
    return !s->reason[0];
}

/* Times of this save: the slowest rank's, and how fast that one was. */
static void add_times(checkpoint_facts *f, double bytes, double write, double sync)
{
    double slowest[] = { write, sync }, all = bytes;
    world_maximum(slowest, 2);
    world_sum(&all, 1);
    double of_slowest = write == slowest[0] ? bytes : 0.0, leaders = world_node(world_rank()) == world_rank();
    world_maximum(&of_slowest, 1);
    world_sum(&leaders, 1);
    f->bytes = all;
    f->write_seconds = slowest[0];
    f->sync_seconds = slowest[1];
    f->rank_rate = of_slowest / slowest[0];
    f->node_rate = all / slowest[0] / leaders;
}

static bool write_files(saving *s)
{
    double bytes = shard_bytes(&s->own), sync = 0.0;
    if (!folder_has_room(&s->folder, bytes, &s->facts->free_bytes, s->reason, sizeof s->reason)) return false;
    double begin = clock_seconds();
    if (s->trainer) shard_write(s->folder.made, s->trainer, &s->own, &sync, s->reason);
    add_times(s->facts, bytes, clock_seconds() - begin, sync);
    return agree(s);
}

static bool write_index(saving *s, checkpoint_index *x)
{
    *x = index_gather(s->trainer, &s->own, s->folder.step);
    if (world_rank() == 0) index_write(x, s->given, s->folder.made, s->reason);
    memcpy(s->facts->sha256, x->sha256, sizeof x->sha256);
    return agree(s);
}

/* Every rank reads the file that the same rank of the next node wrote, on one node that of the next rank: no cache of
 * its own can have it. */
static bool read_back(saving *s, checkpoint_index *x)
{
    int64_t from = (world_rank() + (world_node_ranks() < world_ranks() ? world_node_ranks() : 1)) % world_ranks();
    index_broadcast(x);
    world_barrier();
    double begin = clock_seconds(), seconds;
    shard_files files = shard_files_open(s->folder.whole, true);
    for (int64_t i = 0; i < x->fragments && !files.reason[0]; i++) {
        const saved_fragment *f = &x->fragment[i];
        const saved_block *b = index_block(x, f);
        for (int k = 0; k < STATES && f->rank == from && !files.reason[0]; k++)
            shard_prove(&files, f, (saved_state)k, x->name[b - x->block], b->columns, (size_t)b->bytes[k]);
    }
    shard_files_close(&files);
    seconds = clock_seconds() - begin;
    world_maximum(&seconds, 1);
    s->facts->read_seconds = seconds;
    memcpy(s->reason, files.reason, sizeof s->reason);
    return agree(s);
}

static bool save(saving *s, checkpoint_index *x)
{
    const bench_case *c = s->given;
    if (!folder_make(&s->folder, c->checkpoint, s->folder.step, s->reason, sizeof s->reason)) return false;
    bool made = write_files(s) && write_index(s, x);
    if (!made) return folder_abandon(&s->folder), false;
    return folder_commit(&s->folder, s->reason, sizeof s->reason) && (!c->checkpoint_read || read_back(s, x));
}

/* The line of the Llama 3.1 recipe, by which its users find the time. */
static void say_as_the_recipe(const checkpoint_facts *f)
{
    say("Global Checkpoint Save : Rank: 0 : Iteration: %lld : Start time: %.3fs : Save duration: %.3fs\n",
        (long long)f->saved_step, f->save_began, f->seconds);
}

void checkpoint_save(const bench_case *c, trainer *t, int64_t step, checkpoint_facts *f)
{
    world_broadcast(&step, sizeof step, 0);
    saving s = { .given = c, .trainer = t, .facts = f, .folder = { .step = step }, .own = fragments_of(t) };
    checkpoint_index x = { 0 };
    activity_doing("saving a checkpoint", step);
    world_barrier();
    double begin = clock_seconds();
    f->save_began = clock_date();
    bool saved = save(&s, &x);
    f->seconds = clock_seconds() - begin;
    world_broadcast(&f->seconds, sizeof f->seconds, 0);
    if (saved) {
        f->saves++;
        f->saved_step = step;
        folder_file_system(s.folder.parent, f->file_system);
        folder_prune(&s.folder, c->checkpoint_keep);
        say_as_the_recipe(f);
    } else if (!f->failed[0])
        snprintf(f->failed, sizeof f->failed, "step %lld: %.*s", (long long)step, REASON_LENGTH - 32, s.reason);
    index_free(&x);
    fragments_free(&s.own);
}
