/* The file of a record. Its place: which files are replaced, and what happens to earlier records and to journals of
 * killed runs. Its commit: this program intercepts system calls, whose order must leave a complete record if power
 * fails at any time; short writes are continued, and the message names the limit that was hit. (record/failures.t tests
 * what failing calls leave behind.) */
#include "base/sha256.h"
#include "bench/facts/sink.h"
#include "bench/record/journal.h"
#include "record_folder.h"
#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static char reason[4096], order[512];
static bool armed;

/* ---- the place ---- */

static const char *beside(const char *name)
{
    static char other[4][600];
    static unsigned next;
    return snprintf(other[++next % 4], 600, "%s/%s", folder, name) > 0 ? other[next % 4] : NULL;
}

static bool is_there(const char *name)
{
    struct stat status;
    return lstat(name, &status) == 0;
}

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    fputs(text, f);
    fclose(f);
}

/* A complete run, or a run that was killed and leaves its journal. */
static void run_once(const char *name, bool killed)
{
    record_place place;
    run_source run = { .place = &place };
    bench_case first = { .number = 1 };
    deck planned = { .item = &first, .cases = 1 };
    run.deck = &planned, run.deck_text = "deck", run.deck_length = 4;
    if (!place_reserve(&place, name, reason, sizeof reason)) fail_msg("%s", reason);
    run.provenance = provenance_open(&run);
    record *r = record_open(&run);
    if (killed) assert_int_equal(write(place.file, JOURNAL_BEGIN, sizeof JOURNAL_BEGIN - 1), sizeof JOURNAL_BEGIN - 1);
    else if (!record_commit(r, reason, sizeof reason)) fail_msg("%s", reason);
    if (!killed) place_delete_journal(&place);
    record_close(r);
    provenance_close(run.provenance);
    place_close(&place);
}

static void hash(const char *name, char hex[SHA256_HEX])
{
    static char bytes[1 << 20];
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    sha256_of(bytes, fread(bytes, 1, sizeof bytes, f), hex);
    fclose(f);
}

static void three_runs_leave_three_records(void **state)
{
    char first[SHA256_HEX], kept[SHA256_HEX];
    run_once(path, false);
    hash(path, first);
    write_text(beside("sample.h5.sig"), "of the first");
    write_text(beside("sample.verdict"), "of the first");
    run_once(path, false);
    run_once(path, false);
    hash(beside("sample-1.h5"), kept);
    assert_string_equal(first, kept);
    assert_true(is_there(beside("sample-2.h5")));
    assert_true(is_there(path));
    assert_true(is_there(beside("sample-1.h5.sig")) && is_there(beside("sample-1.verdict")));
    assert_false(is_there(beside("sample.h5.sig")) || is_there(beside("sample.verdict")));
    assert_false(is_there(beside("sample.h5.journal")));
}

/* The signature belongs to a record that was removed without it. */
static void a_signature_left_alone_keeps_its_name(void **state)
{
    run_once(path, false);
    write_text(beside("sample.h5.sig"), "of the first");
    write_text(beside("sample-1.h5.sig"), "of a removed one");
    run_once(path, false);
    assert_true(is_there(path));
    assert_false(is_there(beside("sample-1.h5")));
    assert_true(is_there(beside("sample-2.h5")));
    assert_true(is_there(beside("sample-2.h5.sig")));
    assert_false(is_there(beside("sample.h5.sig")));
}

static void the_mode_is_kept(void **state)
{
    struct stat now, kept;
    run_once(path, false);
    assert_int_equal(chmod(path, 0600), 0);
    run_once(path, false);
    assert_int_equal(stat(path, &now), 0);
    assert_int_equal(stat(beside("sample-1.h5"), &kept), 0);
    assert_int_equal(now.st_mode & 0777, 0600);
    assert_int_equal(kept.st_mode & 0777, 0600);
}

/* The existing file stays unchanged, and no other file is created. */
static void refused(const char *why)
{
    record_place place;
    *reason = 0;
    assert_false(place_reserve(&place, path, reason, sizeof reason));
    if (!strstr(reason, why)) fail_msg("\"%s\" does not say \"%s\"", reason, why);
}

static void files_of_others_are_refused(void **state)
{
    write_text(path, "a deck\nof somebody\n[llama3.1-8b]\n");
    refused("not a record of xgsw");
    unlink(path);
    H5Fclose(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    refused("not a record of xgsw");
    unlink(path);
    hid_t access_list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access_list, H5F_LIBVER_V110, H5F_LIBVER_V110);
    H5Fclose(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access_list));
    refused("not a record of xgsw");
    H5Pclose(access_list);
    unlink(path);
    write_text(path, "\211HDF\r\n\032\n\003 and no more");
    refused("not a record of xgsw");
    assert_false(is_there(beside("sample.h5.journal")));
}

static void a_damaged_record_is_refused(void **state)
{
    run_once(path, false);
    assert_int_equal(truncate(path, 4096), 0);
    refused("not a record of xgsw");
}

static void read_only_records_are_refused(void **state)
{
    run_once(path, false);
    assert_int_equal(chmod(path, 0444), 0);
    refused("read-only");
}

static void links_are_refused(void **state)
{
    run_once(beside("other.h5"), false);
    assert_int_equal(symlink(beside("other.h5"), path), 0);
    refused("is a link");
    unlink(path);
    assert_int_equal(symlink(beside("other.h5"), beside("sample.h5.journal")), 0);
    refused("cannot create");
}

/* The first run holds a lock while it lives. */
static void a_second_run_takes_another_name(void **state)
{
    record_place first, second, third;
    assert_true(place_reserve(&first, path, reason, sizeof reason));
    assert_true(place_reserve(&second, path, reason, sizeof reason));
    assert_string_equal(second.record, beside("sample-1.h5"));
    assert_non_null(strstr(second.note[1], "another run is writing"));
    assert_true(place_reserve(&third, path, reason, sizeof reason));
    assert_string_equal(third.record, beside("sample-2.h5"));
    place_close(&first), place_close(&second), place_close(&third);
    assert_true(place_reserve(&first, path, reason, sizeof reason));
    assert_string_equal(first.record, path);
    place_close(&first);
}

static void a_killed_runs_journal_is_kept(void **state)
{
    record_place place;
    run_once(path, true);
    run_once(path, true);
    assert_true(place_reserve(&place, path, reason, sizeof reason));
    assert_non_null(strstr(place.note[0], "--recover"));
    assert_non_null(strstr(place.note[0], beside("sample.h5.journal-2")));
    assert_true(is_there(beside("sample.h5.journal-1")));
    place_close(&place);
}

static void a_foreign_journal_is_refused(void **state)
{
    write_text(beside("sample.h5.journal"), "my diary\n");
    refused("not a journal of xgsw");
}

/* ---- the commit ---- */

static void note(const char *call)
{
    if (armed && strlen(order) < sizeof order - 32) strcat(strcat(order, order[0] ? " " : ""), call);
}

/* Writes at most 64 KiB per call, so that one file takes several writes. */
ssize_t write(int file, const void *bytes, size_t length)
{
    note("write");
    return syscall(SYS_write, file, bytes, armed && length > 65536 ? 65536 : length);
}

/* Writes at most 1000 bytes per call. */
ssize_t writev(int file, const struct iovec *part, int parts)
{
    const struct iovec *first = part->iov_len || parts == 1 ? part : part + 1;
    if (armed) return syscall(SYS_write, file, first->iov_base, first->iov_len > 1000 ? 1000 : first->iov_len);
    return syscall(SYS_writev, file, part, parts);
}

int fsync(int file)
{
    struct stat status;
    fstat(file, &status);
    note(S_ISDIR(status.st_mode) ? "fsync(folder)" : "fsync");
    return (int)syscall(SYS_fsync, file);
}

int rename(const char *from, const char *to)
{
    note("rename");
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

static record *old_record(void)
{
    record *r = sample_open(path, 2, reason, sizeof reason);
    if (!r) return NULL;
    sample_add(r, SAMPLE_HOST);
    return record_commit(r, reason, sizeof reason) ? r : NULL;
}

static void steps_come_in_order(void **state)
{
    record *r = old_record();
    armed = true;
    assert_true(record_commit(r, reason, sizeof reason));
    armed = false;
    const char *rest = order;
    while (strncmp(rest, "write ", 6) == 0) rest += 6;
    assert_true(rest > order);
    assert_string_equal(rest, "fsync rename fsync(folder)");
    record_close(r);
}

/* Returns 0 if the second, longer record is refused and the message names the limit; 77 if no limit can be set. */
static int beyond_the_limit(void)
{
    record *r = old_record();
    struct stat old, now;
    if (!r || stat(path, &old) != 0) return 1;
    sample_add(r, SAMPLE_NOT_VALID);
    struct rlimit limit = { (rlim_t)old.st_size, (rlim_t)old.st_size };
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
    if (record_commit(r, reason, sizeof reason) || !strstr(reason, "ulimit -f")) return 2;
    return stat(path, &now) == 0 && now.st_ino == old.st_ino && files_in_folder() == 1 ? 0 : 3;
}

/* Uses a child process, because the limit cannot be raised again. */
static void a_limit_on_file_size_is_said(void **state)
{
    fflush(NULL);
    int status = 0, child = fork();
    if (child == 0) _exit(beyond_the_limit());
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_int_equal(status, 0);
}

/* After its header, the journal has one complete entry. */
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
    armed = true;
    bool opened = journal_sink.open(&journal, &run, reason, sizeof reason);
    armed = false;
    if (!opened) fail_msg("%s", reason);
    off_t length = lseek(run.place->file, 0, SEEK_END);
    assert_int_equal(pread(run.place->file, begin, sizeof begin - 1, 0), sizeof begin - 1);
    assert_int_equal(pread(run.place->file, &e, sizeof e, sizeof begin - 1), sizeof e);
    assert_string_equal(begin, JOURNAL_BEGIN);
    assert_true(e.kind == JOURNAL_PIECE && e.bytes > 1000);
    assert_int_equal(length, sizeof begin - 1 + sizeof e + e.bytes);
}

int main(void)
{
    TESTS_WITH(tests, make_record_folder, remove_folder, three_runs_leave_three_records, the_mode_is_kept,
               a_signature_left_alone_keeps_its_name, files_of_others_are_refused, a_damaged_record_is_refused,
               read_only_records_are_refused, links_are_refused, a_second_run_takes_another_name,
               a_killed_runs_journal_is_kept, a_foreign_journal_is_refused, steps_come_in_order,
               a_limit_on_file_size_is_said, an_entry_may_take_several_writes);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
