/* This program intercepts the system calls of a commit. Their order must leave a complete record if power fails at any
 * time. Short writes are continued, and the message names the limit that was hit. (record/failures.t tests what failing
 * calls leave behind.) */
#include "bench/facts/sink.h"
#include "bench/record/journal.h"
#include "record_folder.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static char reason[512], order[512];
static bool armed;

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(steps_come_in_order), TEST(a_limit_on_file_size_is_said),
                                        TEST(an_entry_may_take_several_writes) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
