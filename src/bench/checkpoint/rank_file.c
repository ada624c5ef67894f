/* Writing and reading files of ranks. */
#include "bench/checkpoint/rank_file.h"
#include "base/clock.h"
#include "base/memory.h"
#include "machine/op/activity.h"
#include "machine/world.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool refuse(char reason[CHECKPOINT_SENTENCE], const char *verb, const char *path)
{
    snprintf(reason, CHECKPOINT_SENTENCE, "rank %d on %s cannot %s %s: %s", world_rank(), world_host(), verb, path,
             strerror(errno));
    return false;
}

/* ---- writing ---- */

static bool write_all(int file, const char *from, int64_t bytes, int64_t at)
{
    while (bytes > 0) {
        ssize_t done = pwrite(file, from, (size_t)bytes, at);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        if (done <= 0) return false;
        from += done, at += done, bytes -= done;
    }
    activity_progress();
    return true;
}

static bool write_state(int file, machine *m, own_fragment *o, saved_state s)
{
    bool written = true;
    for (piece p = { .fragment = &o->saved, .state = s, .width = o->p->rule.columns }; written && piece_next(&p);) {
        tensor x = machine_view(m, piece_view(o, &p));
        piece_sums(&p, x.data, o->saved.sum[s]);
        written = write_all(file, x.data, piece_bytes(&p), piece_file_offset(&p));
        machine_view_end(m, &x);
    }
    return written;
}

static bool write_fragments(int file, const trainer *t, own_fragments *own)
{
    for (own_fragment *o = own->list; o < own->list + own->count; o++)
        for (int s = 0; s < STATES && o->writes; s++) {
            o->saved.at[s] = own->dataset[o->dataset + s].at + o->shard_offset * o->saved.bytes[s];
            if (!write_state(file, t->machine, o, (saved_state)s)) return false;
        }
    return true;
}

/* If the file system cannot reserve space, a full disk is noticed during writing. */
static bool reserve(int file, int64_t bytes)
{
    return fallocate(file, 0, 0, bytes) == 0 || errno == EOPNOTSUPP || errno == ENOSYS;
}

/* Synchronizes in parts, so that the stall watch sees progress on a slow disk. If the file system cannot do that, fsync
 * does all. */
static bool sync_file(int file, int64_t length, double *seconds)
{
    enum { PART = 64 << 20 };
    const unsigned now = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    double begin = clock_seconds();
    for (int64_t at = 0; at < length && sync_file_range(file, at, PART, now) == 0; at += PART) activity_progress();
    bool synced = fsync(file) == 0;
    *seconds = clock_seconds() - begin;
    return synced;
}

bool rank_file_write(const char *folder, const trainer *t, own_fragments *own, double *sync,
                     char reason[CHECKPOINT_SENTENCE])
{
    char path[FOLDER_LENGTH];
    if (own->datasets == 0) return true;
    folder_rank_file(path, folder, world_rank());
    int64_t length = raw_file_create(path, own->dataset, own->datasets, reason, CHECKPOINT_SENTENCE);
    int file = length ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (!length) return false;
    if (file < 0) return refuse(reason, "open", path);
    bool written = reserve(file, length) && write_fragments(file, t, own) && sync_file(file, length, sync);
    if (!written) refuse(reason, "write", path);
    return close(file) == 0 ? written : refuse(reason, "close", path);
}

/* ---- reading ---- */

rank_files rank_files_open(const char *folder, bool uncached, char reason[CHECKPOINT_SENTENCE])
{
    rank_files f = { .folder = folder, .uncached = uncached, .reason = reason };
    memset(f.file, -1, sizeof f.file);
    return f;
}

void rank_files_close(rank_files *f)
{
    for (int i = 0; i < RANK_FILES; i++)
        if (f->file[i] >= 0) close(f->file[i]);
}

/* Closes the oldest file if necessary. Returns -1 and a sentence if the file cannot be opened. */
static int open_file(rank_files *f, int64_t rank, const char *path)
{
    for (int i = 0; i < RANK_FILES; i++)
        if (f->file[i] >= 0 && f->rank[i] == rank) return f->file[i];
    int *file = &f->file[f->next];
    if (*file >= 0) close(*file);
    f->rank[f->next] = rank;
    f->next = (f->next + 1) % RANK_FILES;
    *file = open(path, O_RDONLY | O_CLOEXEC);
    if (*file < 0) refuse(f->reason, "open", path);
    else if (f->uncached) posix_fadvise(*file, 0, 0, POSIX_FADV_DONTNEED);
    return *file;
}

bool rank_file_read(rank_files *f, int64_t rank, void *to, int64_t bytes, int64_t at)
{
    char path[FOLDER_LENGTH], *next = to;
    folder_rank_file(path, f->folder, rank);
    int file = open_file(f, rank, path);
    while (file >= 0 && bytes > 0) {
        ssize_t got = pread(file, next, (size_t)bytes, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refuse(f->reason, "read", path);
        if (got == 0) {
            snprintf(f->reason, CHECKPOINT_SENTENCE, "%s ends at byte %lld, before the end of its fragments", path,
                     (long long)at);
            return false;
        }
        next += got, at += got, bytes -= got;
    }
    activity_progress();
    return file >= 0;
}

bool rank_file_verify(rank_files *f, const saved_fragment *s, saved_state state, const char *name, int64_t width)
{
    char path[FOLDER_LENGTH], *x = allocate(PIECE_ELEMENTS, (size_t)s->bytes[state], "a piece of a checkpoint");
    uint64_t sum[SUMS] = { 0 };
    bool read = true;
    for (piece p = { .fragment = s, .state = state, .width = width }; read && piece_next(&p);) {
        read = rank_file_read(f, s->rank, x, piece_bytes(&p), piece_file_offset(&p));
        if (read) piece_sums(&p, x, sum);
    }
    free(x);
    if (!read || memcmp(sum, s->sum[state], sizeof sum) == 0) return read;
    folder_rank_file(path, f->folder, s->rank);
    snprintf(f->reason, CHECKPOINT_SENTENCE, "%s is damaged: bytes %lld to %lld, the %s of %s from row %lld on", path,
             (long long)s->at[state], (long long)(s->at[state] + s->count * s->bytes[state] - 1), state_names[state],
             name, (long long)(s->first_row + s->first / s->columns));
    return false;
}
