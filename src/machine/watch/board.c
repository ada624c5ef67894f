/* The board: a file in shared memory. */
#include "machine/watch/board.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = { "/dev/shm", "/tmp" };
static const double SILENT_SECONDS = 1.0; /* without a tick, before /proc is read for the state of a process */

/* ---- memory ---- */

static size_t board_bytes(int slots) { return sizeof(board) + (size_t)slots * sizeof(board_slot); }

/* Reserves memory at once: if the file system is full, a later write would end the process. */
static board *map(int file, size_t bytes)
{
    struct stat status;
    if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) return NULL;
    if (posix_fallocate(file, 0, (off_t)bytes)) return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void set_identity(board *b)
{
    uint64_t drawn = 0, none = 0;
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn || drawn == 0) drawn = (uint64_t)getpid() + 1;
    atomic_compare_exchange_strong(&b->identity, &none, drawn);
}

board *board_attach(const char *name, int slots)
{
    board *b = NULL;
    for (int i = 0; i < 2 && !b; i++) {
        char path[BOARD_NAME + 16];
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0) continue;
        b = map(file, board_bytes(slots));
        close(file);
    }
    if (!b) return NULL;
    set_identity(b);
    b->slots = slots;
    return b;
}

board *board_private(void)
{
    board *b = calloc(1, board_bytes(1));
    if (!b) return NULL;
    set_identity(b);
    b->slots = 1;
    return b;
}

void board_unlink(const char *name)
{
    for (int i = 0; i < 2; i++) {
        char path[BOARD_NAME + 16];
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        unlink(path);
    }
}

static uint64_t own_pid_namespace(void)
{
    static _Atomic uint64_t known;
    struct stat status;
    if (!known && stat("/proc/self/ns/pid", &status) == 0) known = (uint64_t)status.st_ino;
    return known;
}

static bool is_gone(int pid) { return kill(pid, 0) && errno == ESRCH; }

bool board_claim(board *b, int slot, int rank)
{
    if (slot < 0 || slot >= b->slots) return false;
    board_slot *s = &b->slot[slot];
    int32_t before = 0;
    if (!atomic_compare_exchange_strong(&s->pid, &before, (int32_t)getpid()) && !is_gone(before)) return false;
    s->pid = (int32_t)getpid();
    s->rank = rank;
    s->pid_namespace = own_pid_namespace();
    s->tick = clock_seconds();
    gethostname(s->host, sizeof s->host - 1);
    s->presence = RANK_PRESENT;
    return true;
}

/* The slots become absent, so that a process that starts meanwhile sees no ranks that have left. */
void board_leave(board *b, int slot, const char *name)
{
    b->slot[slot].presence = RANK_LEFT;
    for (int i = 0; i < b->slots; i++)
        if (b->slot[i].presence != RANK_LEFT) return;
    for (int i = 0; i < b->slots; i++) {
        int32_t left = RANK_LEFT;
        atomic_compare_exchange_strong(&b->slot[i].presence, &left, RANK_ABSENT);
    }
    board_unlink(name);
}

/* ---- reading ---- */

/* Returns the letter after the name. The name is in parentheses and may contain parentheses itself. */
static char process_state(int pid)
{
    char path[32], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return errno == ENOENT ? 'X' : '?';
    size_t length = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[length] = 0;
    const char *end = strrchr(line, ')');
    if (!end || !end[1]) return '?';
    return end[2] == 'Z' ? 'X' : end[2];
}

bool board_is_gone(const board *b, int slot)
{
    const board_slot *s = &b->slot[slot];
    return s->pid_namespace == own_pid_namespace() && is_gone(s->pid);
}

static char state_of(const board_slot *s, double silent)
{
    if (s->pid_namespace != own_pid_namespace()) return '?';
    if (is_gone(s->pid)) return 'X';
    return silent > SILENT_SECONDS ? process_state(s->pid) : 'R';
}

void board_read(const board *b, int slot, double now, rank_state *s)
{
    board_slot *from = (board_slot *)&b->slot[slot];
    *s = (rank_state){ .rank = -1, .presence = (rank_presence)from->presence, .process = '?' };
    if (s->presence == RANK_ABSENT) return;
    s->rank = from->rank;
    s->pid = from->pid;
    s->heartbeat = from->activity.progress;
    s->silent = now - from->tick;
    s->patience = from->limit + from->activity.allowance;
    s->process = s->presence == RANK_ENDED ? 'R' : state_of(from, s->silent);
    memcpy(s->host, from->host, sizeof s->host);
    s->waits = from->activity.waits;
    activity_load(&from->activity.doing, &s->doing);
    activity_load(&from->activity.waiting, &s->waiting);
    activity_load(&from->activity.completed, &s->completed);
    for (int i = 0; i < ACTIVITY_GROUPS; i++) {
        s->entered[i].key = from->activity.entered[i].key;
        s->entered[i].order = from->activity.entered[i].order;
    }
}
