/* A lock on the journal reserves the names. The kernel releases the lock when the process ends. */
#include "bench/record/place.h"
#include "bench/record/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAMES = 100000 };
/* TRY_AGAIN: the file has been removed or renamed. */
typedef enum { TAKEN, TRY_AGAIN, ANOTHER_RUN, REFUSED } attempt;

typedef struct {
    char *text;
    size_t length;
} sentence;

/* Returns false. */
static bool refuse(const sentence *s, const char *path, const char *why)
{
    snprintf(s->text, s->length, "%s %s", path, why);
    return false;
}

static bool refuse_errno(const sentence *s, const char *verb, const char *path)
{
    snprintf(s->text, s->length, "cannot %s %s: %s", verb, path, strerror(errno));
    return false;
}

/* An empty file may be replaced: an earlier run or a script may have left it. */
static bool may_replace(const char *path, const sentence *s)
{
    struct stat status;
    if (lstat(path, &status) != 0) return errno == ENOENT || refuse_errno(s, "look at", path);
    if (S_ISLNK(status.st_mode)) return refuse(s, path, "is a link: name its target");
    if (!S_ISREG(status.st_mode)) return refuse(s, path, "is not a regular file");
    if (!(status.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) || access(path, W_OK) != 0)
        return refuse(s, path, "exists and is read-only; it is not replaced");
    return status.st_size == 0 || is_record(path) ||
           refuse(s, path, "exists and is not a record of xgsw; it is not replaced");
}

static bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* gsw.h5 -> gsw-1.h5; without an extension, the number is appended. Returns false if the name is too long. */
static bool number_name(char out[PLACE_LENGTH], const char *path, int number)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    int stem = (int)(dot && dot != base ? dot - path : (long)strlen(path));
    return snprintf(out, PLACE_LENGTH, "%.*s-%d%s", stem, path, number, path + stem) < PLACE_LENGTH;
}

/* gsw.h5.journal -> gsw.h5.journal-1 */
static bool number_journal(char out[PLACE_LENGTH], const char *path, int number)
{
    return snprintf(out, PLACE_LENGTH, "%s-%d", path, number) < PLACE_LENGTH;
}

static bool has_companion(const char *record, const char *end)
{
    char path[PLACE_LENGTH + PLACE_END];
    snprintf(path, sizeof path, "%s%s", record, end);
    return exists(path);
}

void place_end(char out[PLACE_LENGTH + PLACE_END], const char *record, const char *end)
{
    size_t length = strlen(record);
    bool ends = length > 3 && strcmp(record + length - 3, ".h5") == 0;
    snprintf(out, PLACE_LENGTH + PLACE_END, "%.*s%s", (int)(ends ? length - 3 : length), record, end);
}

/* A name is not free if a deleted record has left a signature or verdict. */
static bool is_free(const char *record)
{
    char verdict[PLACE_LENGTH + PLACE_END];
    place_end(verdict, record, ".verdict");
    return !exists(record) && !exists(verdict) && !has_companion(record, ".journal") && !has_companion(record, ".sig");
}

/* Finds a free name and gives it to the file, as a second name if the file system has links. On failure returns false
 * and sets errno. */
static bool give_free_name(const char *path, bool (*add_number)(char *, const char *, int), char name[PLACE_LENGTH])
{
    for (int number = 1; number < MOST_NAMES; number++) {
        if (!add_number(name, path, number)) return errno = ENAMETOOLONG, false;
        if (!is_free(name)) continue;
        if (link(path, name) == 0) return true;
        if (errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK) return rename(path, name) == 0;
        if (errno != EEXIST) return false;
    }
    errno = EEXIST;
    return false;
}

static bool is_journal(int file)
{
    char begin[sizeof JOURNAL_BEGIN] = "";
    ssize_t got = pread(file, begin, sizeof begin - 1, 0);
    return got > 0 && memcmp(begin, JOURNAL_BEGIN, (size_t)got) == 0;
}

/* Renames the journal of a run that has ended. */
static attempt rename_old_journal(record_place *p, const sentence *s)
{
    char name[PLACE_LENGTH];
    if (!give_free_name(p->journal, number_journal, name)) return refuse_errno(s, "rename", p->journal), REFUSED;
    if (unlink(p->journal) != 0 && errno != ENOENT) return refuse_errno(s, "rename", p->journal), REFUSED;
    snprintf(p->note[0], sizeof p->note[0],
             "an earlier run was killed; its steps are in %s. To recover them: validation/validate.py --recover %s",
             name, name);
    return TRY_AGAIN;
}

/* If the file system has no locks, uses an empty journal; any other journal may belong to a running program. */
static attempt inspect_journal(record_place *p, int file, const sentence *s)
{
    struct stat opened, named;
    bool locked = flock(file, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) return ANOTHER_RUN;
    if (fstat(file, &opened) != 0) return refuse_errno(s, "look at", p->journal), REFUSED;
    if (lstat(p->journal, &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev)
        return TRY_AGAIN;
    if (!S_ISREG(opened.st_mode)) return refuse(s, p->journal, "is not a regular file"), REFUSED;
    if (opened.st_size == 0) return TAKEN;
    if (!is_journal(file))
        return refuse(s, p->journal, "exists and is not a journal of xgsw; it is not replaced"), REFUSED;
    return locked ? rename_old_journal(p, s) : ANOTHER_RUN;
}

static attempt lock_journal(record_place *p, const sentence *s)
{
    for (;;) {
        int file = open(p->journal, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
        if (file < 0) return refuse_errno(s, "create", p->journal), REFUSED;
        attempt a = inspect_journal(p, file, s);
        p->file = file;
        if (a == TAKEN) return a;
        close(file);
        if (a != TRY_AGAIN) return a;
    }
}

static bool name_journal(record_place *p, const sentence *s)
{
    int length = snprintf(p->journal, sizeof p->journal, "%s.journal", p->record);
    return length < (int)sizeof p->journal || refuse(s, p->record, "is too long a name");
}

bool place_reserve(record_place *p, const char *name, char *reason, size_t length)
{
    const sentence s = { reason, length };
    *p = (record_place){ .none = strcmp(name, "none") == 0, .file = -1 };
    attempt a = ANOTHER_RUN;
    for (int number = 0; !p->none && a == ANOTHER_RUN && number < MOST_NAMES; number++) {
        if (!number) snprintf(p->record, sizeof p->record, "%s", name);
        else if (!number_name(p->record, name, number)) return refuse(&s, name, "is too long a name");
        if (number && !is_free(p->record)) continue;
        if (!name_journal(p, &s) || !may_replace(p->record, &s)) return false;
        a = lock_journal(p, &s);
        if (a == TAKEN && number)
            snprintf(p->note[1], sizeof p->note[1], "another run is writing %s; the record of this one is %s", name,
                     p->record);
    }
    return p->none || a == TAKEN;
}

/* Renames a file that belongs to the record. Fails if a file has the new name. */
static bool rename_with_record(const char *old, const char *new, const sentence *s)
{
    if (!exists(old)) return true;
    if (exists(new)) return refuse(s, new, "exists, and is not replaced by that of the earlier record");
    return rename(old, new) == 0 || refuse_errno(s, "rename", old);
}

static bool rename_companions(const char *record, const char *name, const sentence *s)
{
    char old[PLACE_LENGTH + PLACE_END], new[PLACE_LENGTH + PLACE_END];
    snprintf(old, sizeof old, "%s.sig", record);
    snprintf(new, sizeof new, "%s.sig", name);
    if (!rename_with_record(old, new, s)) return false;
    place_end(old, record, ".verdict");
    place_end(new, name, ".verdict");
    return rename_with_record(old, new, s);
}

bool place_keep_earlier(record_place *p, char *reason, size_t length)
{
    const sentence s = { reason, length };
    char name[PLACE_LENGTH];
    struct stat status;
    if (p->kept || lstat(p->record, &status) != 0 || status.st_size == 0) return p->kept = true;
    if (!may_replace(p->record, &s)) return false;
    if (!give_free_name(p->record, number_name, name)) return refuse_errno(&s, "rename", p->record);
    return p->kept = rename_companions(p->record, name, &s);
}

void place_delete_journal(const record_place *p)
{
    if (!p->none) unlink(p->journal);
}

void place_close(record_place *p)
{
    if (p->file >= 0) close(p->file);
    p->file = -1;
}
