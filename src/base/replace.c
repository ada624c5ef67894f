/* Replacement of a file: temporary name, fsync, rename, fsync of the folder. */
#include "base/replace.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *path;
    char temporary[PATH_MAX];
    char *reason;
    size_t reason_length;
    bool synced;
} replacement;

static bool refuse(const replacement *r, const char *verb, const char *path, const char *why)
{
    snprintf(r->reason, r->reason_length, "cannot %s %s: %s", verb, path, why);
    return false;
}

static bool name_temporary(replacement *r)
{
    int length = snprintf(r->temporary, sizeof r->temporary, "%s.tmp-%ld", r->path, (long)getpid());
    if (length < (int)sizeof r->temporary) return true;
    return refuse(r, "write", r->path, strerror(ENAMETOOLONG));
}

/* Creates the temporary file with the mode of the file that it replaces. Removes one that a killed process with our
 * process number may have left. */
static int create(const replacement *r)
{
    struct stat present;
    bool replaces = lstat(r->path, &present) == 0 && S_ISREG(present.st_mode);
    mode_t mode = replaces ? present.st_mode & 0777 : 0666;
    unlink(r->temporary);
    int file = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0) refuse(r, "create", r->temporary, strerror(errno));
    else if (replaces && fchmod(file, mode) != 0) refuse(r, "set the mode of", r->temporary, strerror(errno));
    else return file;
    if (file >= 0) close(file), unlink(r->temporary);
    return -1;
}

/* Refuses a file above the limit, because writing it would not fail but kill the process. */
static bool within_limit(const replacement *r, size_t length)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || length <= limit.rlim_cur)
        return true;
    char why[160];
    snprintf(why, sizeof why, "it needs %zu bytes, and the limit on the size of a file (ulimit -f) is %llu bytes",
             length, (unsigned long long)limit.rlim_cur);
    return refuse(r, "write", r->path, why);
}

static bool write_all(int file, const char *bytes, size_t length)
{
    while (length) {
        ssize_t written = write(file, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written == 0) errno = ENOSPC;
        if (written <= 0) return false;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* Writes the temporary file, and waits for the disk if it is synced. Always closes it. */
static bool fill(const replacement *r, int file, const void *bytes, size_t length)
{
    bool filled = write_all(file, bytes, length) && (!r->synced || fsync(file) == 0);
    int error = errno;
    if (close(file) == 0 && filled) return true;
    return refuse(r, "write", r->temporary, strerror(filled ? errno : error));
}

/* EINVAL means that the file system cannot fsync a folder; nothing more can be done then. */
bool sync_folder(const char *name)
{
    int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return false;
    bool synced = fsync(folder) == 0 || errno == EINVAL;
    int error = errno;
    close(folder);
    errno = error;
    return synced;
}

static bool sync_parent(const replacement *r)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", r->path);
    const char *name = dirname(copy);
    return sync_folder(name) || refuse(r, "sync", name, strerror(errno));
}

static bool replace(replacement *r, const void *bytes, size_t length)
{
    if (!name_temporary(r) || !within_limit(r, length)) return false;
    int file = create(r);
    if (file < 0) return false;
    bool replaced = fill(r, file, bytes, length);
    if (replaced && rename(r->temporary, r->path) != 0) replaced = refuse(r, "rename to", r->path, strerror(errno));
    if (replaced) return !r->synced || sync_parent(r);
    unlink(r->temporary);
    return false;
}

bool replace_file(const char *path, const void *bytes, size_t length, char *reason, size_t reason_length)
{
    replacement r = { .path = path, .reason = reason, .reason_length = reason_length, .synced = true };
    return replace(&r, bytes, length);
}

bool replace_file_unsynced(const char *path, const void *bytes, size_t length)
{
    return replace(&(replacement){ .path = path }, bytes, length);
}
