/* The record when the disk, the limits or HDF5 itself fail: the old file stays, no temporary one is left, a sentence
 * says why. Calls to the system and to HDF5 pass through this program, which counts them and lets the k-th fail. */
#include "bench/record/journal.h"
#include "bench/result/sinks.h"
#include "record_sample.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static char folder[64], path[128], reason[512];

/* --- Calls that can fail ----------------------------------------------------------------------------------------- */

static struct {
    bool armed;
    int calls, fail_at, error;
    char order[512];
} disk;
static struct {
    bool armed;
    int calls, fail_at;
} library;

static bool disk_fails(const char *call)
{
    if (!disk.armed) return false;
    disk.calls++;
    if (strlen(disk.order) < sizeof disk.order - 32) strcat(strcat(disk.order, disk.order[0] ? " " : ""), call);
    errno = disk.error;
    return disk.calls == disk.fail_at;
}

/* At most 64 KiB go through at a time, so that one file takes several writes. */
ssize_t write(int file, const void *bytes, size_t length)
{
    if (disk_fails("write")) return -1;
    return syscall(SYS_write, file, bytes, disk.armed && length > 65536 ? 65536 : length);
}

ssize_t writev(int file, const struct iovec *part, int parts)
{
    const struct iovec *first = part->iov_len || parts == 1 ? part : part + 1;
    if (disk.armed) return syscall(SYS_write, file, first->iov_base, first->iov_len > 1000 ? 1000 : first->iov_len);
    return syscall(SYS_writev, file, part, parts);
}

int fsync(int file)
{
    struct stat status;
    fstat(file, &status);
    return disk_fails(S_ISDIR(status.st_mode) ? "fsync(folder)" : "fsync") ? -1 : (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to)
{
    return disk_fails("rename") ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

/* HDF5's own function behind ours. */
#define HDF5(type, name, parameters, arguments)                                                                        \
    type name parameters                                                                                               \
    {                                                                                                                  \
        type(*real) parameters;                                                                                        \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&real, &found, sizeof real);                                                                            \
        if (library.armed && ++library.calls == library.fail_at) return -1;                                            \
        return real arguments;                                                                                         \
    }
HDF5(hid_t, H5Fcreate, (const char *name, unsigned flags, hid_t create, hid_t how), (name, flags, create, how))
HDF5(herr_t, H5Fclose, (hid_t file), (file))
HDF5(hid_t, H5Pcreate, (hid_t class), (class))
HDF5(herr_t, H5Pset_libver_bounds, (hid_t list, H5F_libver_t low, H5F_libver_t high), (list, low, high))
HDF5(herr_t, H5Pset_fapl_core, (hid_t list, size_t increment, hbool_t backing), (list, increment, backing))
HDF5(herr_t, H5Pset_chunk, (hid_t list, int rank, const hsize_t *size), (list, rank, size))
HDF5(herr_t, H5Pset_fletcher32, (hid_t list), (list))
HDF5(hid_t, H5Gcreate2, (hid_t at, const char *name, hid_t a, hid_t b, hid_t c), (at, name, a, b, c))
HDF5(hid_t, H5Screate_simple, (int rank, const hsize_t *size, const hsize_t *most), (rank, size, most))
HDF5(hid_t, H5Dcreate2, (hid_t at, const char *name, hid_t type, hid_t space, hid_t a, hid_t b, hid_t c),
     (at, name, type, space, a, b, c))
HDF5(herr_t, H5Dwrite, (hid_t set, hid_t type, hid_t a, hid_t b, hid_t c, const void *value),
     (set, type, a, b, c, value))
HDF5(herr_t, H5Dclose, (hid_t set), (set))
HDF5(hid_t, H5Acreate_by_name,
     (hid_t at, const char *object, const char *name, hid_t type, hid_t space, hid_t a, hid_t b, hid_t c),
     (at, object, name, type, space, a, b, c))
HDF5(herr_t, H5Awrite, (hid_t attribute, hid_t type, const void *value), (attribute, type, value))
HDF5(hid_t, H5Tcopy, (hid_t type), (type))

/* --- One old record, and what must be true after a failed commit ------------------------------------------------- */

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/xgsw-failures-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/sample.h5", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];
    disk.armed = library.armed = false;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static record *old_record(void)
{
    unlink(path);
    record *r = sample_open(path, 2, reason, sizeof reason);
    if (!r) return NULL;
    sample_add(r, SAMPLE_HOST);
    return record_commit(r, reason, sizeof reason) ? r : NULL;
}

/* Without the journal. */
static int64_t files_in_folder(void)
{
    int64_t count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.' && !strstr(e->d_name, ".journal");
    closedir(d);
    return count;
}

/* Number of cases in the file, -1 if it cannot be opened. */
static int cases_in_file(void)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return -1;
    int cases =
        (int)(H5Lexists(file, "case_0001", H5P_DEFAULT) > 0) + (int)(H5Lexists(file, "case_0004", H5P_DEFAULT) > 0);
    H5Fclose(file);
    return cases;
}

static void arm_disk(int fail_at, int error)
{
    memset(&disk, 0, sizeof disk);
    disk.fail_at = fail_at, disk.error = error, disk.armed = true;
    *reason = 0;
}

/* --- Tests ------------------------------------------------------------------------------------------------------- */

static void steps_come_in_order(void **state)
{
    record *r = old_record();
    arm_disk(0, 0);
    assert_true(record_commit(r, reason, sizeof reason));
    disk.armed = false;
    const char *rest = disk.order;
    int writes = 0;
    for (; strncmp(rest, "write ", 6) == 0; rest += 6) writes++;
    assert_true(writes >= 1);
    assert_string_equal(rest, "fsync rename fsync(folder)");
    record_close(r);
}

/* The k-th call of a commit fails, for every k until one commit goes through. */
static void every_disk_call_may_fail(void **state)
{
    int k = 0;
    for (bool committed = false; !committed; k++) {
        record *r = old_record();
        sample_add(r, SAMPLE_NOT_VALID);
        arm_disk(k + 1, k % 2 ? ENOSPC : EIO);
        committed = record_commit(r, reason, sizeof reason);
        disk.armed = false;
        record_close(r);
        bool in_place = strstr(disk.order, "fsync(folder)"); /* only not surely on the disk */
        assert_int_equal(cases_in_file(), in_place ? 2 : 1);
        assert_int_equal(files_in_folder(), 1);
        if (!committed) assert_non_null(strstr(reason, k % 2 ? "No space left on device" : "Input/output error"));
    }
    assert_true(k > 4);
}

/* A record makes thousands of calls, which repeat themselves: unless there is time, some of them. */
static void any_hdf5_call_may_fail(void **state)
{
    int stride = getenv("XGSW_TEST_LONG") ? 1 : 41;
    record *r = old_record();
    sample_add(r, SAMPLE_NOT_VALID);
    library.fail_at = 0, library.calls = 0, library.armed = true;
    assert_true(record_commit(r, reason, sizeof reason));
    int calls = library.calls;
    library.armed = false;
    record_close(r);
    r = old_record();
    sample_add(r, SAMPLE_NOT_VALID);
    for (int k = 1; k <= calls; k += stride) {
        library.fail_at = k, library.calls = 0, library.armed = true;
        *reason = 0;
        assert_false(record_commit(r, reason, sizeof reason));
        library.armed = false;
        assert_int_equal(library.calls, k); /* nothing was asked after the failure */
        assert_int_equal(strncmp(reason, "HDF5 failed in ", 15), 0);
        if (k % 100 == 1) assert_int_equal(cases_in_file(), 1);
    }
    assert_int_equal(cases_in_file(), 1);
    assert_int_equal(files_in_folder(), 1);
    assert_true(record_commit(r, reason, sizeof reason));
    assert_int_equal(cases_in_file(), 2);
    record_close(r);
    print_message("# each of %d HDF5 calls failed once\n", calls);
}

/* Runs in a child of its own, so that limits and mounts stay there; 0 passed, 77 cannot be tried here. */
static int in_child(int (*body)(void))
{
    fflush(NULL);
    int status = 0, child = fork();
    if (child == 0) _exit(body());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int beyond_the_limit(void)
{
    record *r = old_record();
    struct stat old;
    if (!r || stat(path, &old) != 0) return 1;
    sample_add(r, SAMPLE_NOT_VALID);
    struct rlimit limit = { (rlim_t)old.st_size, (rlim_t)old.st_size };
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
    if (record_commit(r, reason, sizeof reason) || !strstr(reason, "ulimit -f")) return 2;
    return cases_in_file() == 1 && files_in_folder() == 1 ? 0 : 3;
}

static void a_limit_on_file_size_is_said(void **state)
{
    int status = in_child(beyond_the_limit);
    if (status == 77) skip();
    assert_int_equal(status, 0);
    assert_int_equal(cases_in_file(), 1);
}

/* A tmpfs of every size from too small for the first record to large enough for both. */
static int on_full_disks(void)
{
    int failed = 0, done = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
    for (int pages = 1; pages <= 50; pages++) {
        char size[32];
        snprintf(size, sizeof size, "size=%dk", 8 * pages);
        if (mount("none", folder, "tmpfs", 0, size) != 0) return 77;
        record *r = old_record();
        if (r) sample_add(r, SAMPLE_NOT_VALID);
        bool committed = r && record_commit(r, reason, sizeof reason);
        if (!committed && !strstr(reason, "No space left on device")) return 2;
        if (cases_in_file() != (committed ? 2 : r ? 1 : -1) || files_in_folder() != (r ? 1 : 0)) return 3;
        committed ? done++ : failed++;
        record_close(r);
        umount2(folder, MNT_DETACH);
    }
    return failed > 5 && done > 5 ? 0 : 4;
}

static void a_full_disk_is_said(void **state)
{
    int status = in_child(on_full_disks);
    if (status == 77) skip();
    assert_int_equal(status, 0);
}

/* Behind its beginning the journal has one entry, a piece, whole: 1000 bytes at most went through at a time. */
static void an_entry_may_take_several_writes(void **state)
{
    static bench_case c;
    static run_source run;
    static deck planned = { .item = &c, .cases = 1 };
    char begin[sizeof JOURNAL_BEGIN] = "";
    journal_entry e;
    void *journal;
    run = (run_source){ .deck = &planned, .deck_text = "deck", .deck_length = 4 };
    record_close(sample_place(&run, path, reason, sizeof reason));
    disk.armed = true;
    bool opened = journal_sink.open(&journal, &run, reason, sizeof reason);
    disk.armed = false;
    if (!opened) fail_msg("%s", reason);
    off_t length = lseek(run.place->file, 0, SEEK_END);
    assert_int_equal(pread(run.place->file, begin, sizeof begin - 1, 0), sizeof begin - 1);
    assert_int_equal(pread(run.place->file, &e, sizeof e, sizeof begin - 1), sizeof e);
    assert_string_equal(begin, JOURNAL_BEGIN);
    assert_true(e.kind == JOURNAL_PIECE && e.bytes > 1000);
    assert_int_equal(length, sizeof begin - 1 + sizeof e + e.bytes);
}

static int in_removed_folder(void)
{
    record *r = old_record();
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 2;
    return r && !record_commit(r, reason, sizeof reason) && strstr(reason, "No such file or directory") ? 0 : 1;
}

static void a_folder_removed_under_way_is_said(void **state) { assert_int_equal(in_child(in_removed_folder), 0); }

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(steps_come_in_order),
                                        TEST(every_disk_call_may_fail),
                                        TEST(any_hdf5_call_may_fail),
                                        TEST(a_limit_on_file_size_is_said),
                                        TEST(a_full_disk_is_said),
                                        TEST(a_folder_removed_under_way_is_said),
                                        TEST(an_entry_may_take_several_writes) };
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
