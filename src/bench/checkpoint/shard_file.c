/* Files of ranks. */
#include "bench/checkpoint/shard_file.h"
#include "base/clock.h"
#include "base/memory.h"
#include "bench/record/raw_file.h"
#include "machine/op/activity.h"
#include "machine/world.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_ELEMENTS = 1 << 20 }; /* that are read, summed and written at a time: they stay in the cache */

static bool refuse(char reason[CHECKPOINT_SENTENCE], const char *verb, const char *path)
{
    snprintf(reason, CHECKPOINT_SENTENCE, "rank %d on %s cannot %s %s: %s", world_rank(), world_host(), verb, path,
             strerror(errno));
    return false;
}

static size_t element_bytes(const own_fragment *o, saved_state s) { return dtype_bytes(state_of(o->b, s).type); }

double shard_bytes(const own_fragments *own)
{
    double bytes = 0.0;
    const bucket *last = NULL;
    for (int64_t i = 0; i < own->count; i++) {
        const own_fragment *o = &own->list[i];
        for (int s = 0; s < STATES && o->counts && o->b != last; s++)
            bytes += (double)o->b->shard_elements * (double)element_bytes(o, (saved_state)s);
        if (o->counts) last = o->b;
    }
    return bytes;
}

/* ---- writing ---- */

/* A dataset for each state of each bucket that counts: /bucket-0003/first_moment. */
static int64_t list_datasets(const trainer *t, const own_fragments *own, raw_dataset *d)
{
    int64_t count = 0;
    const bucket *last = NULL;
    for (int64_t i = 0; i < own->count; i++) {
        const own_fragment *o = &own->list[i];
        for (int s = 0; s < STATES && o->counts && o->b != last; s++) {
            tensor x = state_of(o->b, (saved_state)s);
            raw_dataset *to = &d[count++];
            *to = (raw_dataset){ .type = x.type, .elements = tensor_elements(&x) };
            snprintf(to->group, sizeof to->group, "bucket-%04d", (int)(o->b - t->stage.params.buckets));
            snprintf(to->name, sizeof to->name, "%s", state_names[s]);
        }
        if (o->counts) last = o->b;
    }
    return count;
}

/* Fragments follow the datasets, bucket by bucket. */
static void place_fragments(own_fragments *own, const raw_dataset *d)
{
    const bucket *last = NULL;
    for (int64_t i = 0; i < own->count; i++) {
        own_fragment *o = &own->list[i];
        if (!o->counts) continue;
        if (last && o->b != last) d += STATES;
        for (int s = 0; s < STATES; s++)
            o->of.at[s] = d[s].at + o->in_shard * (int64_t)element_bytes(o, (saved_state)s);
        last = o->b;
    }
}

static bool write_all(int file, const char *from, size_t bytes, int64_t at)
{
    while (bytes) {
        ssize_t done = pwrite(file, from, bytes, at);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        if (done <= 0) return false;
        from += done, at += done, bytes -= (size_t)done;
    }
    activity_progress();
    return true;
}

static bool write_state(int file, machine *m, own_fragment *o, saved_state s)
{
    size_t bytes = element_bytes(o, s);
    bool written = true;
    for (int64_t done = 0, n; done < o->of.count && written; done += n) {
        n = o->of.count - done < PIECE_ELEMENTS ? o->of.count - done : PIECE_ELEMENTS;
        tensor x = machine_view(m, fragment_view(o, s, done, n));
        fragment_sums(&o->of, o->p->rule.columns, done, n, x.data, bytes, o->of.sum[s]);
        written = write_all(file, x.data, (size_t)n * bytes, o->of.at[s] + done * (int64_t)bytes);
        machine_view_end(m, &x);
    }
    return written;
}

static bool write_fragments(int file, const trainer *t, own_fragments *own)
{
    for (int64_t i = 0; i < own->count; i++)
        for (int s = 0; s < STATES && own->list[i].counts; s++)
            if (!write_state(file, t->machine, &own->list[i], (saved_state)s)) return false;
    return true;
}

/* A file system that cannot reserve space learns of a full disk as it writes. */
static bool reserve(int file, int64_t bytes)
{
    return fallocate(file, 0, 0, bytes) == 0 || errno == EOPNOTSUPP || errno == ENOSYS;
}

static bool sync_file(int file, double *seconds)
{
    double begin = clock_seconds();
    bool synced = fsync(file) == 0;
    *seconds = clock_seconds() - begin;
    return synced;
}

bool shard_write(const char *folder, const trainer *t, own_fragments *own, double *sync,
                 char reason[CHECKPOINT_SENTENCE])
{
    char path[FOLDER_LENGTH];
    folder_rank_file(path, folder, world_rank());
    raw_dataset *d = allocate(own->count * STATES, sizeof *d, "the datasets of a checkpoint");
    int64_t count = list_datasets(t, own, d), length = 0;
    if (count) length = raw_file_create(path, d, count, reason, CHECKPOINT_SENTENCE);
    if (length) place_fragments(own, d);
    free(d);
    if (!length) return count == 0;
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return refuse(reason, "open", path);
    bool written = reserve(file, length) && write_fragments(file, t, own) && sync_file(file, sync);
    if (!written) refuse(reason, "write", path);
    return close(file) == 0 ? written : refuse(reason, "close", path);
}

/* ---- reading ---- */

shard_files shard_files_open(const char *folder, bool uncached)
{
    shard_files f = { .folder = folder, .uncached = uncached };
    for (int i = 0; i < SHARD_FILES; i++) f.file[i] = -1;
    return f;
}

static void close_one(shard_files *f, int i)
{
    if (f->file[i] >= 0) close(f->file[i]);
    f->file[i] = -1;
}

void shard_files_close(shard_files *f)
{
    for (int i = 0; i < SHARD_FILES; i++) close_one(f, i);
}

/* The oldest of the open files makes room. Returns -1 if it cannot be opened. */
static int file_of(shard_files *f, int64_t rank)
{
    char path[FOLDER_LENGTH];
    for (int i = 0; i < SHARD_FILES; i++)
        if (f->file[i] >= 0 && f->rank[i] == rank) return f->file[i];
    int i = f->next;
    f->next = (i + 1) % SHARD_FILES;
    close_one(f, i);
    folder_rank_file(path, f->folder, rank);
    f->rank[i] = rank;
    f->file[i] = open(path, O_RDONLY | O_CLOEXEC);
    if (f->file[i] < 0) refuse(f->reason, "open", path);
    else if (f->uncached) posix_fadvise(f->file[i], 0, 0, POSIX_FADV_DONTNEED);
    return f->file[i];
}

bool shard_read(shard_files *f, int64_t rank, void *to, size_t bytes, int64_t at)
{
    char path[FOLDER_LENGTH], *next = to;
    int file = file_of(f, rank);
    folder_rank_file(path, f->folder, rank);
    while (file >= 0 && bytes) {
        ssize_t got = pread(file, next, bytes, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refuse(f->reason, "read", path);
        if (got == 0) {
            snprintf(f->reason, sizeof f->reason, "%s ends at byte %lld, where the checkpoint goes on", path,
                     (long long)at);
            return false;
        }
        next += got, at += got, bytes -= (size_t)got;
    }
    activity_progress();
    return file >= 0;
}

bool shard_prove(shard_files *f, const saved_fragment *s, saved_state state, const char *name, int64_t whole,
                 size_t bytes)
{
    char path[FOLDER_LENGTH], *piece = allocate(PIECE_ELEMENTS, bytes, "a piece of a checkpoint");
    uint64_t sum[SUMS] = { 0 };
    bool read = true;
    for (int64_t done = 0, n; done < s->count && read; done += n) {
        n = s->count - done < PIECE_ELEMENTS ? s->count - done : PIECE_ELEMENTS;
        read = shard_read(f, s->rank, piece, (size_t)n * bytes, s->at[state] + done * (int64_t)bytes);
        if (read) fragment_sums(s, whole, done, n, piece, bytes, sum);
    }
    free(piece);
    if (!read || memcmp(sum, s->sum[state], sizeof sum) == 0) return read;
    folder_rank_file(path, f->folder, s->rank);
    snprintf(f->reason, sizeof f->reason, "%s is damaged: bytes %lld to %lld, the %s of %s from row %lld on", path,
             (long long)s->at[state], (long long)(s->at[state] + s->count * (int64_t)bytes - 1), state_names[state],
             name, (long long)(s->first_row + s->first / s->columns));
    return false;
}
