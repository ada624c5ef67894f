/* Folders of checkpoints. */
#include "bench/checkpoint/folder.h"
#include "base/memory.h"
#include "base/replace.h"
#include "machine/world.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* SEEN: a file by which other nodes know the folder of rank 0. */
static const char SEEN[] = "seen", TEMPORARY[] = ".tmp";
enum { SEEN_LENGTH = 128, STEP_DIGITS = 8 };

static bool refuse(char *reason, size_t length, const char *verb, const char *path)
{
    snprintf(reason, length, "cannot %s %s: %s", verb, path, strerror(errno));
    return false;
}

static void join(char path[FOLDER_LENGTH], const char *folder, const char *name)
{
    snprintf(path, FOLDER_LENGTH, "%.*s/%.*s", FOLDER_LENGTH - NAME_LENGTH - 2, folder, NAME_LENGTH - 1, name);
}

void folder_rank_file(char path[FOLDER_LENGTH], const char *folder, int64_t rank)
{
    char name[NAME_LENGTH];
    snprintf(name, sizeof name, "rank-%05lld.h5", (long long)rank);
    join(path, folder, name);
}

void folder_index(char path[FOLDER_LENGTH], const char *folder) { join(path, folder, "index.h5"); }

void folder_index_sum(char path[FOLDER_LENGTH], const char *folder) { join(path, folder, "index.h5.sha256"); }

/* Makes the folder and those above it. */
static bool make_all(const char *path)
{
    char part[PATH_LENGTH];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return false;
        *slash = '/';
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* Removes the files of a checkpoint and then the folder; other files stay, and so does a folder that has some. */
static void remove_checkpoint(const char *folder)
{
    char path[FOLDER_LENGTH];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, "rank-", 5) || !strncmp(e->d_name, "index.", 6) || !strcmp(e->d_name, SEEN))
            join(path, folder, e->d_name), unlink(path);
    if (d) closedir(d);
    rmdir(folder);
}

/* Removes what runs left there that ended during a save. */
static void remove_unfinished(const char *parent)
{
    char folder[FOLDER_LENGTH];
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        join(folder, parent, e->d_name);
        if (!strncmp(e->d_name, "step-", 5) && end && !strcmp(end, TEMPORARY)) remove_checkpoint(folder);
    }
    if (d) closedir(d);
}

static bool make_here(const checkpoint_folder *f, char *reason, size_t length)
{
    if (!make_all(f->parent)) return refuse(reason, length, "make", f->parent);
    remove_unfinished(f->parent);
    return mkdir(f->made, 0777) == 0 || refuse(reason, length, "make", f->made);
}

static bool write_seen(const checkpoint_folder *f, const char *text, char *reason, size_t length)
{
    char path[FOLDER_LENGTH];
    join(path, f->made, SEEN);
    return replace_file(path, text, strlen(text), reason, length);
}

static bool is_seen(const checkpoint_folder *f, const char *text)
{
    char path[FOLDER_LENGTH], found[SEEN_LENGTH] = "";
    join(path, f->made, SEEN);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, found, sizeof found - 1) : 0;
    if (file >= 0) close(file);
    return got > 0 && strcmp(found, text) == 0;
}

static void name_folder(checkpoint_folder *f, const char *parent, int64_t step)
{
    char name[NAME_LENGTH];
    *f = (checkpoint_folder){ .step = step };
    snprintf(f->parent, sizeof f->parent, "%s", parent);
    snprintf(name, sizeof name, "step-%0*lld", STEP_DIGITS, (long long)step);
    join(f->whole, parent, name);
    strcat(name, TEMPORARY);
    join(f->made, parent, name);
}

/* True on all ranks if no rank has a sentence; else all have the first. */
static bool agree(char *reason, size_t length)
{
    world_hear(reason, length);
    return !reason[0];
}

bool folder_make(checkpoint_folder *f, const char *parent, int64_t step, char *reason, size_t length)
{
    char text[SEEN_LENGTH] = "";
    name_folder(f, parent, step);
    reason[0] = 0;
    if (world_rank() == 0) {
        snprintf(text, sizeof text, "%.64s %ld %lld", world_host(), (long)getpid(), (long long)time(NULL));
        if (make_here(f, reason, length)) write_seen(f, text, reason, length);
    }
    if (!agree(reason, length)) return folder_abandon(f), false;
    world_broadcast(text, sizeof text, 0);
    bool sees = is_seen(f, text);
    f->leads = world_rank() == 0 || (!sees && world_node(world_rank()) == world_rank());
    f->owner = sees ? 0 : world_node(world_rank());
    world_barrier(); /* what a node makes is not the folder of rank 0 that another rank of it looks for */
    if (f->leads && world_rank() != 0) make_here(f, reason, length);
    if (agree(reason, length)) return true;
    folder_abandon(f);
    return false;
}

/* A file that is larger than the limit would end the process. */
static bool within_limit(double bytes, char *reason, size_t length)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= (double)limit.rlim_cur)
        return true;
    snprintf(reason, length, "a file of the checkpoint has %.0f bytes, and the limit (ulimit -f) is %llu bytes", bytes,
             (unsigned long long)limit.rlim_cur);
    return false;
}

bool folder_has_room(const checkpoint_folder *f, double bytes, double *free_bytes, char *reason, size_t length)
{
    struct statvfs s;
    double *need = allocate(world_ranks(), sizeof *need, "bytes of ranks");
    reason[0] = 0;
    need[f->owner] = bytes;
    world_sum(need, world_ranks());
    bool told = statvfs(f->made, &s) == 0;
    *free_bytes = told ? (double)s.f_bavail * (double)s.f_frsize : 0.0;
    if (told && need[f->owner] > *free_bytes)
        snprintf(reason, length, "the checkpoint needs %.3f GB on %s, where %.3f GB are free", need[f->owner] / 1e9,
                 f->parent, *free_bytes / 1e9);
    else within_limit(bytes, reason, length);
    free(need);
    return agree(reason, length);
}

/* Where names cannot be exchanged, the old one goes first. */
static bool rename_over(const checkpoint_folder *f)
{
    if (access(f->whole, F_OK) != 0) return rename(f->made, f->whole) == 0;
    bool exchanged = renameat2(AT_FDCWD, f->made, AT_FDCWD, f->whole, RENAME_EXCHANGE) == 0;
    remove_checkpoint(exchanged ? f->made : f->whole);
    return exchanged || rename(f->made, f->whole) == 0;
}

bool folder_commit(const checkpoint_folder *f, char *reason, size_t length)
{
    char seen[FOLDER_LENGTH];
    reason[0] = 0;
    join(seen, f->made, SEEN);
    if (world_rank() == 0) unlink(seen);
    if (f->leads && !sync_folder(f->made)) refuse(reason, length, "sync", f->made);
    if (!agree(reason, length)) return folder_abandon(f), false;
    if (f->leads && !rename_over(f)) refuse(reason, length, "rename", f->made);
    if (f->leads && !reason[0] && !sync_folder(f->parent)) refuse(reason, length, "sync", f->parent);
    return agree(reason, length);
}

void folder_abandon(const checkpoint_folder *f)
{
    world_barrier();
    if (world_rank() == 0 || f->leads) remove_checkpoint(f->made);
}

/* The step of a name step-00000050; -1: it is none. */
static int64_t step_of(const char *name)
{
    char *end = NULL;
    if (strncmp(name, "step-", 5) != 0 || strlen(name) != 5 + STEP_DIGITS) return -1;
    long long step = strtoll(name + 5, &end, 10);
    return *end ? -1 : step;
}

/* The largest step below `below` that has a folder with an index or, on a node without one, a folder; -1: none. */
static int64_t step_before(const char *parent, int64_t below, bool indexed)
{
    int64_t found = -1;
    char folder[FOLDER_LENGTH], index[FOLDER_LENGTH];
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));) {
        int64_t step = step_of(e->d_name);
        join(folder, parent, e->d_name);
        folder_index(index, folder);
        if (step > found && step < below && (!indexed || access(index, F_OK) == 0)) found = step;
    }
    if (d) closedir(d);
    return found;
}

void folder_prune(const checkpoint_folder *f, int64_t keep)
{
    checkpoint_folder old;
    int64_t step = f->step + 1;
    for (int64_t kept = 0; f->leads && (step = step_before(f->parent, step, false)) >= 0; kept++) {
        name_folder(&old, f->parent, step);
        if (kept >= keep) remove_checkpoint(old.whole);
    }
    world_barrier();
}

bool folder_newest(const char *parent, char whole[FOLDER_LENGTH])
{
    checkpoint_folder f;
    folder_index(whole, parent);
    bool itself = access(whole, F_OK) == 0;
    int64_t step = itself ? -1 : step_before(parent, INT64_MAX, true);
    if (itself) snprintf(whole, FOLDER_LENGTH, "%s", parent);
    if (step < 0) return itself;
    name_folder(&f, parent, step);
    snprintf(whole, FOLDER_LENGTH, "%s", f.whole);
    return true;
}

/* A line of mountinfo: "36 35 98:0 /root /mount options - ext4 /dev/sda options". */
void folder_file_system(const char *folder, char type[32])
{
    char line[4096], device[32];
    struct stat s;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    snprintf(type, 32, "unknown");
    snprintf(device, sizeof device, " %u:%u ", stat(folder, &s) == 0 ? major(s.st_dev) : 0, minor(s.st_dev));
    while (mounts && fgets(line, sizeof line, mounts)) {
        const char *end = strstr(line, " - ");
        if (end && strstr(line, device) && strstr(line, device) < end) sscanf(end, " - %31s", type);
    }
    if (mounts) fclose(mounts);
}
