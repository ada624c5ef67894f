/* A load: every rank reads what it owns, from whichever files have it, and all compare the sums of what arrived. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/say.h"
#include "bench/checkpoint/index.h"
#include "machine/op/activity.h"
#include "machine/world.h"
#include "model/fp8.h"
#include <stdio.h>
#include <string.h>

enum {
    PIECE_ELEMENTS = 1 << 20,
    ELEMENTS = STATES * SUMS,
    WORDS
}; /* of a block: sums, and how many elements arrived */

typedef struct {
    trainer *trainer;
    own_fragments own;
    checkpoint_index index;
    shard_files files;
    uint64_t (*arrived)[WORDS]; /* [blocks] */
    double bytes;
} loading;

static bool refuse(loading *l, const own_fragment *o, const char *what)
{
    snprintf(l->files.reason, sizeof l->files.reason, "%s has no %s of %s for rank %d", l->index.folder, what,
             o->p->name, world_rank());
    return false;
}

/* Fills elements from to from + count - 1 of a fragment; they need not lie in one file. */
static bool read_piece(loading *l, const own_fragment *o, saved_state s, int64_t from, int64_t count, tensor *to)
{
    int64_t saved, arrived = 0, bytes = (int64_t)dtype_bytes(to->type);
    const saved_fragment *f = index_fragments(&l->index, &o->of, &saved);
    for (int64_t i = 0; i < saved && arrived < count; i++)
        for (shared_run r = { 0 }; fragment_next_run(&o->of, from, count, &f[i], &r); arrived += r.count)
            if (!shard_read(&l->files, f[i].rank, (char *)to->data + (r.own - from) * bytes, (size_t)(r.count * bytes),
                            f[i].at[s] + r.saved * bytes))
                return false;
    return arrived == count || refuse(l, o, state_names[s]);
}

static bool read_state(loading *l, const own_fragment *o, saved_state s, uint64_t arrived[WORDS])
{
    machine *m = l->trainer->machine;
    bool read = true;
    for (int64_t done = 0, n; done < o->of.count && read; done += n) {
        n = o->of.count - done < PIECE_ELEMENTS ? o->of.count - done : PIECE_ELEMENTS;
        tensor t = fragment_view(o, s, done, n), x = machine_view(m, t);
        read = read_piece(l, o, s, done, n, &x);
        if (read) machine_view_store(m, t, &x);
        if (read)
            fragment_sums(&o->of, o->p->rule.columns, done, n, x.data, dtype_bytes(x.type), &arrived[(int)s * SUMS]);
        l->bytes += (double)n * (double)dtype_bytes(x.type);
        machine_view_end(m, &x);
    }
    return read;
}

static bool read_all(loading *l)
{
    for (int64_t i = 0; i < l->own.count; i++) {
        const own_fragment *o = &l->own.list[i];
        const saved_block *b = index_block(&l->index, &o->of);
        if (!b) return refuse(l, o, "part");
        for (int s = 0; s < STATES; s++)
            if (b->bytes[s] != (int64_t)dtype_bytes(state_of(o->b, (saved_state)s).type))
                return refuse(l, o, "state of this type");
        uint64_t *arrived = l->arrived[b - l->index.block];
        arrived[ELEMENTS] += (uint64_t)o->of.count;
        for (int s = 0; s < STATES; s++)
            if (!read_state(l, o, (saved_state)s, arrived)) return false;
    }
    return true;
}

/* Every element arrived on equally many ranks, so its block's sums are the saved ones as many times. */
static bool is_right(const saved_block *b, saved_state s, const uint64_t arrived[WORDS])
{
    uint64_t elements = (uint64_t)(b->rows * b->columns), times = arrived[ELEMENTS] / elements;
    bool right = times > 0 && times * elements == arrived[ELEMENTS];
    for (int i = 0; i < SUMS; i++) right &= arrived[(int)s * SUMS + i] == times * b->sum[s][i];
    return right;
}

/* Names the damage, if this rank has read of it: the fragments are read whole. */
static void find_damage(loading *l, const saved_block *b, saved_state s)
{
    int64_t saved;
    for (int64_t i = 0; i < l->own.count && !l->files.reason[0]; i++) {
        const own_fragment *o = &l->own.list[i];
        const saved_fragment *f = index_fragments(&l->index, &o->of, &saved);
        tensor x = state_of(o->b, s);
        for (int64_t k = 0; index_block(&l->index, &o->of) == b && k < saved && !l->files.reason[0]; k++)
            shard_prove(&l->files, &f[k], s, o->p->name, o->p->rule.columns, dtype_bytes(x.type));
    }
}

/* Collective over the world. */
static void compare_sums(loading *l)
{
    char *reason = l->files.reason;
    checkpoint_index *x = &l->index;
    world_sum_words(l->arrived[0], x->blocks * WORDS);
    for (int64_t i = 0; i < x->blocks * STATES && !reason[0]; i++) {
        const saved_block *b = &x->block[i / STATES];
        saved_state s = (saved_state)(i % STATES);
        if (is_right(b, s, l->arrived[i / STATES])) continue;
        find_damage(l, b, s);
        world_hear(reason, CHECKPOINT_SENTENCE);
        if (!reason[0])
            snprintf(reason, CHECKPOINT_SENTENCE,
                     "%s: the files are whole, but parameter %lld (%s, rows %lld to %lld) arrived otherwise in memory",
                     x->folder, (long long)b->logical, state_names[s], (long long)b->first_row,
                     (long long)(b->first_row + b->rows - 1));
    }
}

/* The history of FP8 has room for more steps than there may have been. */
static void restore(loading *l)
{
    trainer *t = l->trainer;
    int64_t tensors = tensor_elements(&t->stage.work.fp8.amax);
    int32_t *past = allocate(FP8_HISTORY * tensors, sizeof *past, "the history of FP8");
    for (int64_t i = 0; i < l->index.amaxes && i < FP8_HISTORY * tensors; i++) past[i] = (int32_t)l->index.amax[i];
    trainer_restore(t, l->index.step, l->index.rate, past);
    free(past);
}

/* All ranks have rank 0's index, or its sentence. Collective over the world. */
static bool open_index(checkpoint_index *x, const bench_case *c, char reason[CHECKPOINT_SENTENCE])
{
    *x = (checkpoint_index){ 0 };
    reason[0] = 0;
    if (world_rank() == 0) index_read(x, c, c->load, reason);
    world_hear(reason, CHECKPOINT_SENTENCE);
    if (!reason[0]) index_broadcast(x);
    return !reason[0];
}

bool checkpoint_is_asked(const char *folder) { return strcmp(folder, "none") != 0; }

bool checkpoint_suits(const bench_case *c, char reason[REASON_LENGTH])
{
    char sentence[CHECKPOINT_SENTENCE];
    checkpoint_index x;
    if (!checkpoint_is_asked(c->load)) return true;
    bool suits = open_index(&x, c, sentence);
    if (!suits) snprintf(reason, REASON_LENGTH, "load: %.*s", REASON_LENGTH - 8, sentence);
    index_free(&x);
    return suits;
}

static void load_state(loading *l)
{
    l->own = fragments_of(l->trainer);
    l->arrived = allocate(l->index.blocks, sizeof *l->arrived, "sums of a checkpoint");
    read_all(l);
    world_hear(l->files.reason, CHECKPOINT_SENTENCE);
    if (!l->files.reason[0]) compare_sums(l);
    if (!l->files.reason[0] && l->trainer) restore(l);
    free(l->arrived);
    fragments_free(&l->own);
}

/* The line of the Llama 3.1 recipe, by which its users find the time. */
static void say_as_the_recipe(const checkpoint_facts *f)
{
    say("Global Checkpoint Load : Rank : 0 : Start time : %.3fs : Time spent in load_checkpoint: %.3fs\n",
        f->load_began, f->load_seconds);
}

bool checkpoint_load(const bench_case *c, trainer *t, checkpoint_facts *f)
{
    loading l = { .trainer = t };
    activity_doing("loading a checkpoint", -1);
    world_barrier();
    double begin = clock_seconds();
    f->load_began = clock_date();
    bool found = open_index(&l.index, c, l.files.reason);
    char reason[CHECKPOINT_SENTENCE];
    memcpy(reason, l.files.reason, sizeof reason);
    l.files = shard_files_open(l.index.folder, false);
    if (found) load_state(&l), memcpy(reason, l.files.reason, sizeof reason);
    shard_files_close(&l.files);
    double seconds = clock_seconds() - begin;
    world_maximum(&seconds, 1);
    world_sum(&l.bytes, 1);
    if (reason[0]) snprintf(f->refused, sizeof f->refused, "load: %.*s", REASON_LENGTH - 8, reason);
    f->loaded_step = l.index.step;
    f->rate_warmup = l.index.rate.warmup;
    f->rate_steps = l.index.rate.total;
    f->loaded_bytes = l.bytes;
    f->load_seconds = seconds;
    memcpy(f->loaded_sha256, l.index.sha256, sizeof l.index.sha256);
    if (!reason[0]) say_as_the_recipe(f);
    index_free(&l.index);
    return !reason[0];
}
