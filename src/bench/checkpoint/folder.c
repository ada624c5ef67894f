/* Creating, finding and removing folders of checkpoints. */
#include "bench/checkpoint/folder.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/replace.h"
#include "machine/world.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* MARKER: a file that only the folder of rank 0 has. */
static const char MARKER[] = "seen", TEMPORARY[] = ".tmp";
enum { MARKER_LENGTH = 128, STEP_DIGITS = 8 };

static bool refuse(char reason[CHECKPOINT_SENTENCE], const char *verb, const char *path)
{
    snprintf(reason, CHECKPOINT_SENTENCE, "cannot %s %s: %s", verb, path, strerror(errno));
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

void folder_index(char path[FOLDER_LENGTH], char sum[FOLDER_LENGTH], const char *folder)
{
    join(path, folder, "index.h5");
    join(sum, folder, "index.h5.sha256");
}

static void name_folder(checkpoint_folder *f, const char *parent, int64_t step)
{
    char name[NAME_LENGTH];
    *f = (checkpoint_folder){ .step = step };
    snprintf(f->parent, sizeof f->parent, "%s", parent);
    snprintf(name, sizeof name, "step-%0*lld", STEP_DIGITS, (long long)step);
    join(f->final, parent, name);
    strcat(name, TEMPORARY);
    join(f->temporary, parent, name);
}

/* Returns the step of a name like step-00000050, followed by `end`; -1 if the name is different. */
static int64_t step_of(const char *name, const char *end)
{
    char *after = NULL;
    bool matches = strncmp(name, "step-", 5) == 0 && strlen(name) == 5 + STEP_DIGITS + strlen(end);
    long long step = matches ? strtoll(name + 5, &after, 10) : -1;
    return matches && strcmp(after, end) == 0 ? step : -1;
}

/* Removes the files of a checkpoint, and the folder unless it has other files. */
static void remove_checkpoint(const char *folder)
{
    char path[FOLDER_LENGTH];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        join(path, folder, e->d_name);
        if (!strncmp(e->d_name, "rank-", 5) || !strncmp(e->d_name, "index.", 6) || !strcmp(e->d_name, MARKER))
            unlink(path);
    }
    if (d) closedir(d);
    rmdir(folder);
}

static bool make_with_parents(const char *path)
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

/* Also removes temporary folders of runs that terminated during a save. */
static bool make_temporary(const checkpoint_folder *f, char reason[CHECKPOINT_SENTENCE])
{
    char folder[FOLDER_LENGTH];
    if (!make_with_parents(f->parent)) return refuse(reason, "make", f->parent);
    DIR *d = opendir(f->parent);
    for (struct dirent *e; d && (e = readdir(d));) {
        join(folder, f->parent, e->d_name);
        if (step_of(e->d_name, TEMPORARY) >= 0) remove_checkpoint(folder);
    }
    if (d) closedir(d);
    return mkdir(f->temporary, 0777) == 0 || errno == EEXIST || refuse(reason, "make", f->temporary);
}

static bool has_marker(const char *path, const char *text)
{
    char found[MARKER_LENGTH] = "";
    FILE *file = fopen(path, "re");
    bool read = file && fgets(found, sizeof found, file);
    if (file) fclose(file);
    return read && strcmp(found, text) == 0;
}

bool folder_agree(char reason[CHECKPOINT_SENTENCE])
{
    world_share_sentence(reason, CHECKPOINT_SENTENCE);
    return !reason[0];
}

bool folder_make(checkpoint_folder *f, const char *parent, int64_t step, char reason[CHECKPOINT_SENTENCE])
{
    char text[MARKER_LENGTH] = "", path[FOLDER_LENGTH];
    name_folder(f, parent, step);
    join(path, f->temporary, MARKER);
    snprintf(text, sizeof text, "%.64s %ld %.6f", world_host(), (long)getpid(), clock_date());
    world_broadcast(text, sizeof text, 0);
    if (world_rank() == 0 && make_temporary(f, reason))
        replace_file(path, text, strlen(text), reason, CHECKPOINT_SENTENCE);
    if (!folder_agree(reason)) return false;
    f->owner = has_marker(path, text) ? 0 : world_node(world_rank());
    f->is_owner = f->owner == world_rank();
    world_barrier(); /* all ranks have looked for the marker, so another folder of that name may be created */
    if (f->is_owner && world_rank() != 0) make_temporary(f, reason);
    return folder_agree(reason);
}

bool folder_has_space(const checkpoint_folder *f, double bytes, double *free_bytes, char reason[CHECKPOINT_SENTENCE])
{
    struct statvfs s;
    double *need = allocate(world_ranks(), sizeof *need, "bytes of ranks");
    need[f->owner] = bytes;
    world_sum(need, world_ranks());
    bool known = statvfs(f->temporary, &s) == 0;
    *free_bytes = known ? (double)s.f_bavail * (double)s.f_frsize : 0.0;
    if (known && need[f->owner] > *free_bytes)
        snprintf(reason, CHECKPOINT_SENTENCE, "the checkpoint needs %.4g GB on %s, where %.4g GB are free",
                 need[f->owner] / 1e9, f->parent, *free_bytes / 1e9);
    free(need);
    return folder_agree(reason);
}

bool folder_commit(const checkpoint_folder *f, char reason[CHECKPOINT_SENTENCE])
{
    char seen[FOLDER_LENGTH];
    join(seen, f->temporary, MARKER);
    if (f->is_owner) unlink(seen);
    if (f->is_owner && !sync_folder(f->temporary)) refuse(reason, "sync", f->temporary);
    if (!folder_agree(reason)) return false;
    if (f->is_owner && rename(f->temporary, f->final) != 0) refuse(reason, "rename", f->temporary);
    else if (f->is_owner && !sync_folder(f->parent)) refuse(reason, "sync", f->parent);
    return folder_agree(reason);
}

void folder_abandon(const checkpoint_folder *f)
{
    if (world_rank() == 0 || f->is_owner) remove_checkpoint(f->temporary);
}

/* Returns the largest step, or -1. indexed: only of checkpoints with an index, which is on rank 0's node only. */
static int64_t newest_step(const char *parent, bool indexed)
{
    int64_t found = -1;
    char folder[FOLDER_LENGTH], index[FOLDER_LENGTH], sum[FOLDER_LENGTH];
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));) {
        int64_t step = step_of(e->d_name, "");
        join(folder, parent, e->d_name);
        folder_index(index, sum, folder);
        if (step > found && (!indexed || access(index, F_OK) == 0)) found = step;
    }
    if (d) closedir(d);
    return found;
}

void folder_remove(const checkpoint_folder *f, int64_t step)
{
    checkpoint_folder old;
    name_folder(&old, f->parent, step);
    if (f->is_owner) remove_checkpoint(old.final);
}

bool folder_is_fresh(const char *parent, int64_t after, char reason[CHECKPOINT_SENTENCE])
{
    checkpoint_folder f;
    int64_t step = newest_step(parent, false);
    name_folder(&f, parent, step);
    if (!make_with_parents(parent) || access(parent, W_OK | X_OK) != 0) return refuse(reason, "write into", parent);
    if (step > after)
        snprintf(reason, CHECKPOINT_SENTENCE, "%s belongs to another run: load it, remove it, or give another folder",
                 f.final);
    return step <= after;
}

bool folder_newest(const char *parent, char path[FOLDER_LENGTH])
{
    checkpoint_folder f;
    char sum[FOLDER_LENGTH];
    folder_index(path, sum, parent);
    bool is_checkpoint = access(path, F_OK) == 0;
    int64_t step = newest_step(parent, true);
    name_folder(&f, parent, step);
    snprintf(path, FOLDER_LENGTH, "%s", is_checkpoint ? parent : f.final);
    return is_checkpoint || step >= 0;
}

/* A line of mountinfo is "36 35 98:0 /root /mount options - ext4 /dev/sda options". */
void folder_file_system(const char *folder, char type[32])
{
    char line[4096], device[32];
    struct stat s = { 0 };
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    snprintf(type, 32, "unknown");
    stat(folder, &s);
    snprintf(device, sizeof device, " %u:%u ", major(s.st_dev), minor(s.st_dev));
    while (mounts && fgets(line, sizeof line, mounts)) {
        const char *end = strstr(line, " - ");
        if (end && strstr(line, device) && strstr(line, device) < end) sscanf(end, " - %31s", type);
    }
    if (mounts) fclose(mounts);
}
