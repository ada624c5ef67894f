/* Preloaded into a rank by validation/machine/hangs.t and slow.t. MISDEED="RANK POINT DEED" makes one rank misbehave at
 * one point. Points: start (before MPI), deck (the second broadcast), step (message number MESSAGE), gather (results
 * after the steps), commit (fsync), end (before MPI_Finalize), exit (after it). "1 start slow": rank 1 takes 1.5 times
 * as long. "1 gather late": it arrives LATE seconds late. "1 pair3 delayed": its long messages to rank 3 are delayed by
 * DELAY microseconds. FOLDER_HANGS: opening a file of NAME.stall never returns; all: on every rank after some steps;
 * RANK: on that rank, from gather on. */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 100, LATE = 9, DELAY = 100000, LONG_MESSAGE = 12 << 20 };
static int broadcasts, messages, gathers;

static const char *own_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : getenv("PMI_RANK");
}

/* Returns the deed of this rank at the point, or "". */
static const char *deed_at(const char *point)
{
    static char rank[16], where[16], deed[16];
    const char *said = getenv("MISDEED");
    if (!said || sscanf(said, "%15s %15s %15s", rank, where, deed) != 3) return "";
    return own_rank() && strcmp(rank, own_rank()) == 0 && strcmp(where, point) == 0 ? deed : "";
}

/* ---- slow: a signal handler wastes a third of the processor time ---- */

static const double WASTED = 0.5; /* relative to the time before */
static double used_at;

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void waste(int number)
{
    (void)number;
    double now = processor_seconds(), end = now + WASTED * (now - used_at);
    while ((used_at = processor_seconds()) < end) continue;
}

/* Interrupts only the calling thread, every millisecond if the system can. Uses a separate stack, because kernels
 * generated at run time may use memory below theirs. */
static void slow_down(void)
{
    struct sigaction action = { .sa_handler = waste, .sa_flags = SA_RESTART | SA_ONSTACK };
    static char memory[1 << 16];
    stack_t other = { .ss_sp = memory, .ss_size = sizeof memory };
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
    struct itimerspec each = { { 0, 1000000 }, { 0, 1000000 } };
    timer_t timer;
    event._sigev_un._tid = gettid();
    sigaltstack(&other, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    used_at = processor_seconds();
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) || timer_settime(timer, 0, &each, NULL)) abort();
}

/* Commits the deed. Returns the deed if the caller must commit it. */
static const char *commit(const char *point)
{
    static const struct {
        const char *deed;
        int number;
    } signals[] = { { "kill", SIGKILL }, { "terminate", SIGTERM }, { "interrupt", SIGINT },
                    { "stop", SIGSTOP }, { "segv", SIGSEGV },      { "abort", SIGABRT } };
    const char *deed = deed_at(point);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcmp(deed, signals[i].deed) == 0) raise(signals[i].number);
    if (strcmp(deed, "exit") == 0) _exit(0);
    for (volatile int ever = strcmp(deed, "endless") == 0; ever;) continue;
    if (strcmp(deed, "slow") == 0) slow_down();
    if (strcmp(deed, "late") == 0) sleep(LATE);
    if (strcmp(deed, "asleep") == 0)
        for (;;) pause();
    return deed;
}

int MPI_Init_thread(int *count, char ***arguments, int wanted, int *provided)
{
    commit("start");
    return PMPI_Init_thread(count, arguments, wanted, provided);
}

int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
    const char *deed = ++broadcasts == 2 ? commit("deck") : "";
    *request = MPI_REQUEST_NULL;
    if (strcmp(deed, "skip") == 0) return MPI_SUCCESS;
    if (strcmp(deed, "extra") == 0) PMPI_Ibcast(calloc(1, 1 << 16), count, type, root, comm, request);
    return PMPI_Ibcast(data, strcmp(deed, "count") == 0 ? count - 1 : count, type, root, comm, request);
}

int MPI_Igather(const void *from, int sent, MPI_Datatype type, void *to, int heard, MPI_Datatype of, int root,
                MPI_Comm comm, MPI_Request *request)
{
    const char *deed = messages && ++gathers == 1 ? commit("gather") : "";
    *request = MPI_REQUEST_NULL;
    if (strcmp(deed, "skip") == 0) return MPI_SUCCESS;
    return PMPI_Igather(from, strcmp(deed, "count") == 0 ? sent - 1 : sent, type, to, heard, of, root, comm, request);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    char pair[16];
    const char *deed = ++messages == MESSAGE ? commit("step") : "";
    snprintf(pair, sizeof pair, "pair%d", peer);
    if (count > LONG_MESSAGE && strcmp(deed_at(pair), "delayed") == 0) usleep(DELAY);
    *request = MPI_REQUEST_NULL;
    if (strcmp(deed, "skip") == 0) return MPI_SUCCESS;
    if (strcmp(deed, "nan") == 0) memset((void *)data, 0xFF, (size_t)count);
    return PMPI_Isend(data, strcmp(deed, "count") == 0 ? count - 1 : count, type, peer, tag, comm, request);
}

int fsync(int file)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    commit("commit");
    return next(file);
}

int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    const char *hangs = getenv("FOLDER_HANGS");
    bool all = hangs && strcmp(hangs, "all") == 0, here = hangs && own_rank() && strcmp(hangs, own_rank()) == 0;
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    while (((all && messages > MESSAGE / 4) || (here && gathers)) && strstr(path, ".stall/")) pause();
    return next(path, flags, mode);
}

int MPI_Finalize(void)
{
    commit("end");
    int code = PMPI_Finalize();
    commit("exit");
    return code;
}
