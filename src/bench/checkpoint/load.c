/* A load: every rank reads the elements that it owns from the files that have them, and all ranks compare sums. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/say.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/checkpoint/index.h"
#include "machine/op/activity.h"
#include "machine/world.h"
#include "model/fp8.h"
#include <stdio.h>
#include <string.h>

/* Received words of a block: sums over its elements, and their number. They are stored at the index of the block's
 * first saved fragment. */
enum { ELEMENTS = STATES * SUMS, WORDS };
typedef struct {
    trainer *trainer;
    own_fragments own;
    checkpoint_index index;
    rank_files files;
    uint64_t (*received)[WORDS]; /* [fragments] */
    double bytes;
    char reason[CHECKPOINT_SENTENCE];
} loading;

static bool refuse(loading *l, const own_fragment *o)
{
    snprintf(l->reason, sizeof l->reason, "%s lacks a part of %s that rank %d needs, or has it in another type",
             l->index.folder, o->p->name, world_rank());
    return false;
}

/* Fills a piece of a fragment; its elements may be in several files. */
static bool read_piece(loading *l, const own_fragment *o, const piece *p, char *to)
{
    int64_t saved, received = 0, bytes = o->saved.bytes[p->state];
    const saved_fragment *f = index_find(&l->index, &o->saved, &saved);
    for (int64_t i = 0; i < saved && received < p->count; i++)
        for (shared_run r = { 0 }; fragment_next_run(&o->saved, p->from, p->count, &f[i], &r); received += r.count)
            if (!rank_file_read(&l->files, f[i].rank, to + (r.own - p->from) * bytes, r.count * bytes,
                                f[i].at[p->state] + r.saved * bytes))
                return false;
    return received == p->count || refuse(l, o);
}

static bool read_state(loading *l, const own_fragment *o, saved_state s, uint64_t sum[SUMS])
{
    machine *m = l->trainer->machine;
    bool read = true;
    for (piece p = { .fragment = &o->saved, .state = s, .width = o->p->rule.columns }; read && piece_next(&p);) {
        tensor t = piece_view(o, &p), x = machine_view(m, t);
        read = read_piece(l, o, &p, x.data);
        if (read) machine_view_store(m, t, &x);
        if (read) piece_sums(&p, x.data, sum);
        machine_view_end(m, &x);
        l->bytes += (double)piece_bytes(&p);
    }
    return read;
}

static bool read_all(loading *l)
{
    int64_t saved;
    for (const own_fragment *o = l->own.list; o < l->own.list + l->own.count; o++) {
        const saved_fragment *f = index_find(&l->index, &o->saved, &saved);
        if (!f || memcmp(f->bytes, o->saved.bytes, sizeof f->bytes) != 0) return refuse(l, o);
        uint64_t *received = l->received[f - l->index.fragment];
        received[ELEMENTS] += (uint64_t)o->saved.count;
        for (int s = 0; s < STATES; s++)
            if (!read_state(l, o, (saved_state)s, &received[s * (int)SUMS])) return false;
    }
    return true;
}

/* Every element arrives on the same number of ranks, so the sums must be that multiple of the saved sums. */
static bool sums_match(const saved_fragment *f, int64_t count, saved_state s, const uint64_t received[WORDS])
{
    uint64_t elements = 0, sum[SUMS] = { 0 };
    for (int64_t i = 0; i < count; i++) {
        elements += (uint64_t)f[i].count;
        for (int k = 0; k < SUMS; k++) sum[k] += f[i].sum[s][k];
    }
    uint64_t copies = received[ELEMENTS] / elements;
    bool right = copies > 0 && copies * elements == received[ELEMENTS];
    for (int k = 0; k < SUMS; k++) right &= received[(int)s * SUMS + k] == copies * sum[k];
    return right;
}

/* Finds the damaged file: the ranks that own a part of the block read all its saved fragments again. */
static void find_damage(loading *l, const saved_fragment *f, int64_t count, saved_state s)
{
    const own_fragment *o = l->own.list, *end = o + l->own.count;
    while (o < end && fragment_order(&o->saved, f) != 0) o++;
    for (int64_t i = 0; o < end && i < count && !l->reason[0]; i++)
        rank_file_verify(&l->files, &f[i], s, o->p->name, o->p->rule.columns);
    if (!folder_agree(l->reason)) return;
    snprintf(l->reason, sizeof l->reason,
             "%s: the files are intact, but the %s of parameter %lld changed on the way into memory", l->index.folder,
             state_names[s], (long long)f->logical);
}

static void compare_sums(loading *l)
{
    checkpoint_index *x = &l->index;
    world_sum_words(l->received[0], x->fragments * WORDS);
    for (int64_t i = 0, count; i < x->fragments && !l->reason[0]; i += count) {
        index_find(x, &x->fragment[i], &count);
        for (int s = 0; s < STATES && !l->reason[0]; s++)
            if (!sums_match(&x->fragment[i], count, (saved_state)s, l->received[i]))
                find_damage(l, &x->fragment[i], count, (saved_state)s);
    }
}

static void restore(loading *l)
{
    trainer *t = l->trainer;
    int64_t values = FP8_HISTORY * tensor_elements(&t->stage.work.fp8.amax);
    int32_t *amaxes = allocate(values, sizeof *amaxes, "the history of FP8");
    for (int64_t i = 0; i < l->index.amaxes && i < values; i++) amaxes[i] = (int32_t)l->index.amax[i];
    trainer_restore(t, l->index.step, l->index.rate, amaxes);
    free(amaxes);
}

/* Reads the index on rank 0. If that fails, all ranks get the sentence. Collective over the world. */
static bool find_index(checkpoint_index *x, const bench_case *c, char reason[CHECKPOINT_SENTENCE])
{
    if (world_rank() == 0) index_read(x, c, c->load, reason);
    return folder_agree(reason);
}

bool checkpoint_suits(const bench_case *c, char reason[REASON_LENGTH])
{
    char sentence[CHECKPOINT_SENTENCE] = "";
    checkpoint_index x = { 0 };
    const char *key = "load";
    bool suits = !checkpoint_is_asked(c->load) || find_index(&x, c, sentence);
    if (suits && checkpoint_is_asked(c->checkpoint)) {
        key = "checkpoint";
        if (world_rank() == 0) folder_is_fresh(c->checkpoint, x.step, sentence);
        suits = folder_agree(sentence);
    }
    if (!suits) snprintf(reason, REASON_LENGTH, "%s: %.*s", key, REASON_LENGTH - 16, sentence);
    index_free(&x);
    return suits;
}

static void load_state(loading *l)
{
    index_broadcast(&l->index);
    l->files = rank_files_open(l->index.folder, false, l->reason);
    l->own = fragments_of(l->trainer);
    l->received = allocate(l->index.fragments, sizeof *l->received, "sums of a checkpoint");
    read_all(l);
    if (folder_agree(l->reason)) compare_sums(l);
    if (!l->reason[0] && l->trainer) restore(l);
    free(l->received);
    fragments_free(&l->own);
    rank_files_close(&l->files);
}

/* Prints the line of the Llama 3.1 recipe, because its users search for it. */
static void note_load(loading *l, checkpoint_facts *f, double date)
{
    f->loaded_step = l->index.step;
    f->rate_warmup = l->index.rate.warmup;
    f->rate_steps = l->index.rate.total;
    f->loaded_bytes = l->bytes;
    memcpy(f->loaded_sha256, l->index.sha256, sizeof l->index.sha256);
    say("Global Checkpoint Load : Rank : 0 : Start time : %.3fs : Time spent in load_checkpoint: %.3fs\n", date,
        f->load_seconds);
}

bool checkpoint_load(const bench_case *c, trainer *t, checkpoint_facts *f)
{
    loading l = { .trainer = t };
    activity_doing("loading a checkpoint", -1);
    world_barrier();
    double begin = clock_seconds(), date = clock_date();
    if (find_index(&l.index, c, l.reason)) load_state(&l);
    f->load_seconds = clock_seconds() - begin;
    world_maximum(&f->load_seconds, 1);
    world_sum(&l.bytes, 1);
    if (l.reason[0]) snprintf(f->refused, sizeof f->refused, "load: %.*s", REASON_LENGTH - 8, l.reason);
    else note_load(&l, f, date);
    index_free(&l.index);
    return !l.reason[0];
}
