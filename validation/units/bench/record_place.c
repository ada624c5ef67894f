/* Where records go: which files are replaced, and what happens to earlier records and to journals of killed runs. */
#include "base/sha256.h"
#include "record_folder.h"
#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>

static char reason[4096];

static const char *beside(const char *name)
{
    static char other[4][160];
    static unsigned next;
    return snprintf(other[++next % 4], 160, "%s/%s", folder, name) > 0 ? other[next % 4] : NULL;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(three_runs_leave_three_records),
                                        TEST(the_mode_is_kept),
                                        TEST(a_signature_left_alone_keeps_its_name),
                                        TEST(files_of_others_are_refused),
                                        TEST(a_damaged_record_is_refused),
                                        TEST(read_only_records_are_refused),
                                        TEST(links_are_refused),
                                        TEST(a_second_run_takes_another_name),
                                        TEST(a_killed_runs_journal_is_kept),
                                        TEST(a_foreign_journal_is_refused) };
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
