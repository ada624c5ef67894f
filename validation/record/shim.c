/* Preloaded into xgsw. Kills the run or makes a call fail at a given point. XGSW_SHIM="POINT K ACTION". POINT: journal
 * (append), print (flush of stdout); create, write, sync, rename, folder: calls of a commit; keep (of the earlier
 * record); forget (of the journal); hdf5 (any HDF5 call below, which only the writer makes). K: the K-th time, from 1.
 * ACTION: before, after: SIGKILL before or after the call; torn: SIGKILL after half of the write; a number: the call
 * fails with this errno. These points exist only on rank 0, because only rank 0 writes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { GO_ON, FAIL_NOW, TEAR };
static int times;

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void die(void) { kill(getpid(), SIGKILL); }

static int is_mine(const char *point, char action[16])
{
    const char *plan = getenv("XGSW_SHIM"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char wanted[16];
    int k;
    if (!plan || (rank && strcmp(rank, "0")) || sscanf(plan, "%15s %d %15s", wanted, &k, action) != 3) return 0;
    return strcmp(wanted, point) == 0 && ++times == k;
}

/* Called before the call. Sets *dies_after if the process must be killed after the call. */
static int arrive(const char *point, int *dies_after)
{
    char action[16];
    *dies_after = 0;
    if (!point || !is_mine(point, action)) return GO_ON;
    if (!strcmp(action, "before")) die();
    *dies_after = !strcmp(action, "after");
    if (!strcmp(action, "torn")) return TEAR;
    errno = atoi(action);
    return errno ? FAIL_NOW : GO_ON;
}

/* Only for the process's own files; the names of MPI's files differ. */
static const char *point_of(int file, const char *of_journal, const char *of_record)
{
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) < 0) return NULL;
    if (strstr(path, ".h5.journal")) return of_journal;
    return strstr(path, ".h5.tmp-") ? of_record : NULL;
}

ssize_t writev(int file, const struct iovec *part, int parts)
{
    ssize_t (*call)(int, const struct iovec *, int) = (ssize_t(*)(int, const struct iovec *, int))real("writev");
    int dies, what = arrive(point_of(file, "journal", NULL), &dies);
    struct iovec half = *part;
    if (what == FAIL_NOW) return -1;
    half.iov_len = (half.iov_len + 1) / 2;
    ssize_t written = what == TEAR ? call(file, parts > 1 ? part : &half, 1) : call(file, part, parts);
    if (dies || what == TEAR) die();
    return written;
}

ssize_t write(int file, const void *bytes, size_t length)
{
    ssize_t (*call)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))real("write");
    int dies, what = arrive(point_of(file, NULL, "write"), &dies);
    if (what == FAIL_NOW) return -1;
    ssize_t written = call(file, bytes, what == TEAR ? length / 2 : length);
    if (dies || what == TEAR) die();
    return written;
}

#define SIMPLE(type, name, parameters, arguments, point)                                                               \
    type name parameters                                                                                               \
    {                                                                                                                  \
        type(*call) parameters = (type(*) parameters)real(#name);                                                      \
        int dies;                                                                                                      \
        if (arrive(point, &dies) == FAIL_NOW) return -1;                                                               \
        type result = call arguments;                                                                                  \
        if (dies) die();                                                                                               \
        return result;                                                                                                 \
    }

static const char *sync_point(int file)
{
    struct stat status;
    return fstat(file, &status) == 0 && S_ISDIR(status.st_mode) ? "folder" : point_of(file, NULL, "sync");
}
static const char *name_point(const char *path, const char *part, const char *point)
{
    return strstr(path, part) ? point : NULL;
}

SIMPLE(int, fsync, (int file), (file), sync_point(file))
SIMPLE(int, fflush, (FILE * file), (file), file == stdout ? "print" : NULL)
SIMPLE(int, rename, (const char *from, const char *to), (from, to), name_point(from, ".h5.tmp-", "rename"))
SIMPLE(int, link, (const char *from, const char *to), (from, to), name_point(from, ".h5", "keep"))
SIMPLE(int, unlink, (const char *path), (path), name_point(path, ".h5.journal", "forget"))
SIMPLE(int, fchmod, (int file, mode_t mode), (file, mode), point_of(file, NULL, "create"))
SIMPLE(hid_t, H5Fcreate, (const char *name, unsigned flags, hid_t create, hid_t how), (name, flags, create, how),
       "hdf5")
SIMPLE(hid_t, H5Gcreate2, (hid_t at, const char *name, hid_t a, hid_t b, hid_t c), (at, name, a, b, c), "hdf5")
SIMPLE(hid_t, H5Dcreate2, (hid_t at, const char *name, hid_t type, hid_t space, hid_t a, hid_t b, hid_t c),
       (at, name, type, space, a, b, c), "hdf5")
SIMPLE(herr_t, H5Dwrite, (hid_t set, hid_t type, hid_t a, hid_t b, hid_t c, const void *value),
       (set, type, a, b, c, value), "hdf5")
SIMPLE(herr_t, H5Awrite, (hid_t attribute, hid_t type, const void *value), (attribute, type, value), "hdf5")
