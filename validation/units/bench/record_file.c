/* Reads the record back through HDF5. With --sample PATH only writes a sample, for record/validate.t; with
 * --deck DECK RANKS PATH writes the cases of a deck, all skipped, as if every rank had a GPU, for record/settings.t. */
/* HDF5 1.14 provides the calls of 1.10 under their old names. */
#define H5_USE_110_API
#include "base/build_info.h"
#include "base/sha256.h"
#include "bench/facts/fields.h"
#include "bench/record/writer.h"
#include "record_folder.h"
#include <fcntl.h>
#include <hdf5.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char reason[512];

static void write_sample(const int *which, int count)
{
    record *r = sample_open(path, count, reason, sizeof reason);
    assert_non_null(r);
    for (int i = 0; i < count; i++) sample_add(r, which[i]);
    if (!record_commit(r, reason, sizeof reason)) fail_msg("%s", reason);
    record_close(r);
}

static hid_t open_sample(void)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static double read_real(hid_t file, const char *name)
{
    double value;
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(set >= 0);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) >= 0);
    H5Dclose(set);
    return value;
}

/* Returns the first string of a dataset, or of an attribute if `attribute` is not NULL. */
static const char *read_text(hid_t file, const char *object, const char *attribute)
{
    static char value[4096];
    memset(value, 0, sizeof value);
    hid_t o = H5Oopen(file, object, H5P_DEFAULT), a = attribute ? H5Aopen(o, attribute, H5P_DEFAULT) : o;
    assert_true(o >= 0 && a >= 0);
    hid_t type = attribute ? H5Aget_type(a) : H5Dget_type(o);
    assert_true(H5Tget_size(type) < sizeof value);
    assert_true((attribute ? H5Aread(a, type, value) : H5Dread(o, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value)) >= 0);
    H5Tclose(type);
    if (attribute) H5Aclose(a);
    H5Oclose(o);
    return value;
}

static void reads_back_what_was_added(void **state)
{
    write_sample((const int[]){ SAMPLE_HOST, SAMPLE_SKIPPED, SAMPLE_FAILED }, 3);
    bench_case c = sample_case(SAMPLE_HOST);
    case_result r = sample_result(&c, SAMPLE_HOST);
    hid_t file = open_sample();
    assert_true(read_real(file, "/case_0001/results/median_seconds") == r.figures.median_seconds);
    assert_true(read_real(file, "/case_0001/results/tokens_per_second_per_gpu") == r.figures.tokens_per_second / 4);
    assert_true(isnan(read_real(file, "/case_0001/results/recipe_mfu")));
    assert_true(read_real(file, "/case_0001/check_model/residual") == 1.25);
    assert_true(read_real(file, "/case_0008/check_model/residual") == 400.0);
    double steps[13], ranks[13 * 4];
    hid_t set = H5Dopen2(file, "/case_0001/steps/step_seconds", H5P_DEFAULT),
          table = H5Dopen2(file, "/case_0001/ranks/rank_seconds", H5P_DEFAULT);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, steps) >= 0);
    assert_true(H5Dread(table, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, ranks) >= 0);
    assert_memory_equal(steps, r.figures.step_seconds, sizeof steps);
    assert_memory_equal(ranks, r.seen.ranks.step, sizeof ranks);
    H5Dclose(set), H5Dclose(table);
    assert_string_equal(read_text(file, "/case_0001", "verdict"), "PASSED");
    assert_string_equal(read_text(file, "/case_0001", "validity"), "VALID");
    assert_string_equal(read_text(file, "/case_0005", "verdict"), "SKIPPED");
    assert_string_equal(read_text(file, "/case_0005", "skipped"), "needs 64 ranks, there are 32");
    assert_string_equal(read_text(file, "/case_0008", "fault"), "drop all_reduce 3 1");
    assert_string_equal(read_text(file, "/case_0008/results/fail_reasons", NULL),
                        "check: residual 400, limit 16: layers.1.down, step 0, rank 1");
    assert_true(H5Lexists(file, "/case_0005/results", H5P_DEFAULT) == 0);
    H5Fclose(file);
    result_close(&r);
}

static void says_where_it_comes_from(void **state)
{
    setenv("OMP_SAMPLE", "7", 1), setenv("SLURM_JWT", "a-secret-of-the-test", 1),
        setenv("OMPI_MCA_orte_precondition_transports", "a-secret-of-the-test", 1);
    write_sample((const int[]){ SAMPLE_HOST }, 1);
    unsetenv("SLURM_JWT"), unsetenv("OMPI_MCA_orte_precondition_transports");
    hid_t file = open_sample();
    char hex[SHA256_HEX], line[600];
    sha256_of(sample_text, strlen(sample_text), hex);
    assert_string_equal(read_text(file, "/provenance/deck", NULL), sample_text);
    assert_string_equal(read_text(file, "/provenance/deck_sha256", NULL), hex);
    assert_string_equal(read_text(file, "/provenance/command_line", NULL), "./xgsw --ranks 'it'\\''s 4' gsw.dat");
    assert_string_equal(read_text(file, "/provenance/git_commit", NULL), build_commit);
    assert_memory_equal(read_text(file, "/provenance/hosts", NULL), "node1node1node1", 15);
    assert_string_equal(read_text(file, "/provenance/cuda_library", NULL), "CUDA 13.0");
    assert_string_equal(read_text(file, "/provenance/device_identity", NULL), "GPU-0");
    assert_memory_equal(read_text(file, "/provenance/device_driver", NULL), "580.82580.82580.82", 18);
    assert_string_equal(read_text(file, "/provenance/hdf5_library", NULL), writer_library(line, sizeof line));
    assert_int_equal(strlen(read_text(file, "/provenance/binary_sha256", NULL)), 64);
    assert_int_equal(strlen(read_text(file, "/provenance/written", NULL)), strlen("2026-01-31T23:59:59Z"));
    snprintf(line, sizeof line, "grep -q a-secret-of-the-test '%s'", path);
    assert_int_not_equal(system(line), 0);
    snprintf(line, sizeof line, "grep -q OMP_SAMPLE=7 '%s'", path);
    assert_int_equal(system(line), 0);
    H5Fclose(file);
}

static void longer_texts_keep_their_bytes(void **state)
{
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    bench_case first = { .number = 1 };
    snprintf(first.record, sizeof first.record, "%s", path);
    deck planned = { .item = &first };
    run_source run = { .deck = &planned, .deck_text = text, .deck_length = sizeof text - 1 };
    record *r = sample_place(&run, path, reason, sizeof reason);
    assert_true(r && record_commit(r, reason, sizeof reason));
    record_close(r);
    hid_t file = open_sample(), set = H5Dopen2(file, "/provenance/deck", H5P_DEFAULT), type = H5Dget_type(set);
    assert_int_equal(H5Tget_size(type), sizeof text - 1);
    H5Tclose(type), H5Dclose(set);
    assert_string_equal(read_text(file, "/provenance/deck_name", NULL), "n/a");
    assert_string_equal(read_text(file, "/provenance/cuda_library", NULL), "n/a");
    assert_string_equal(read_text(file, "/provenance/device_name", NULL), "");
    H5Fclose(file);
}

/* Numbers have units, chunked data have a checksum, strings have a fixed length. */
static herr_t guarded(hid_t file, const char *name, const H5O_info_t *info, void *count)
{
    if (info->type != H5O_TYPE_DATASET) return 0;
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), type = H5Dget_type(set), layout = H5Dget_create_plist(set);
    H5T_class_t class = H5Tget_class(type);
    if ((class == H5T_FLOAT || class == H5T_INTEGER) && H5Aexists(set, "units") <= 0) fail_msg("%s has no units", name);
    if (class == H5T_STRING && H5Tis_variable_str(type)) fail_msg("%s is a string of variable length", name);
    bool chunked = H5Pget_layout(layout) == H5D_CHUNKED, compact = H5Pget_layout(layout) == H5D_COMPACT;
    unsigned flags, filter_config;
    size_t values = 0;
    if (chunked &&
        H5Pget_filter_by_id2(layout, H5Z_FILTER_FLETCHER32, &flags, &values, NULL, 0, NULL, &filter_config) < 0)
        fail_msg("%s has no checksum", name);
    if (!chunked && !compact && H5Dget_storage_size(set) > 0) fail_msg("%s lies where nothing guards it", name);
    H5Pclose(layout), H5Tclose(type), H5Dclose(set);
    ++*(int *)count;
    return 0;
}

static void every_dataset_is_guarded(void **state)
{
    write_sample((const int[]){ SAMPLE_HOST, SAMPLE_RECIPE, SAMPLE_PROXY, SAMPLE_NOT_VALID, SAMPLE_SKIPPED,
                                SAMPLE_EXPERTS, SAMPLE_FP8 },
                 7);
    hid_t file = open_sample();
    int count = 0;
    H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, guarded, &count, H5O_INFO_BASIC);
    assert_true(count > 4 * 50);
    H5Fclose(file);
}

static void plots_without_a_script(void **state)
{
    write_sample((const int[]){ SAMPLE_SKIPPED, SAMPLE_HOST }, 2);
    hid_t file = open_sample();
    char at[256] = "";
    snprintf(at, sizeof at, "/%s", read_text(file, "/", "default"));
    assert_string_equal(at, "/case_0001");
    strcat(strcat(at, "/"), read_text(file, at, "default"));
    assert_string_equal(read_text(file, at, "NX_class"), "NXdata");
    assert_string_equal(read_text(file, at, "axes"), "step");
    strcat(strcat(at, "/"), read_text(file, at, "signal"));
    assert_string_equal(at, "/case_0001/steps/step_seconds");
    assert_string_equal(read_text(file, at, "units"), "s");
    H5Fclose(file);
}

static void what_changes_before_a_commit_is_written(void **state)
{
    record *r = sample_open(path, 1, reason, sizeof reason);
    bench_case c = sample_case(SAMPLE_HOST);
    case_result result = sample_result(&c, SAMPLE_HOST);
    record_add(r, &result);
    for (int i = 1; i <= 3; i++) {
        result.seen.total_seconds = i;
        assert_true(record_commit(r, reason, sizeof reason));
    }
    hid_t file = open_sample();
    assert_true(read_real(file, "/case_0001/results/total_seconds") == 3.0);
    H5Fclose(file);
    record_close(r);
    result_close(&result);
}

/* Every field has a dataset or an attribute with its name; numeric datasets have units. */
static void every_field_is_written(void **state)
{
    write_sample((const int[]){ SAMPLE_HOST }, 1);
    hid_t file = open_sample();
    char name[256];
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        for (const field *f = g->field; f < g->field + g->fields; f++) {
            snprintf(name, sizeof name, "/case_0001/%s/%s", g->name, f->name);
            bool there = g->name[0] ? H5Lexists(file, name, H5P_DEFAULT) > 0
                                    : H5Aexists_by_name(file, "/case_0001", f->name, H5P_DEFAULT) > 0;
            if (!there) fail_msg("%s %s is not in the record", g->name, f->name);
            if (g->name[0] && f->units) assert_string_equal(read_text(file, name, "units"), f->units);
        }
    }
    H5Fclose(file);
}

/* Counts only timed steps: the mean of fractions, the range of scales. Other precisions have no rows. */
static void fp8_is_summed_over_steps(void **state)
{
    bench_case c = sample_case(SAMPLE_FP8);
    case_result r = sample_result(&c, SAMPLE_FP8), other = { .given = &sample_given[SAMPLE_HOST] };
    assert_true(fabs(r.seen.fp8[FP8_INPUT].underflowed - 1e-4) < 1e-18 && r.seen.fp8[FP8_INPUT].saturated == 0.0);
    assert_true(r.seen.fp8[FP8_INPUT].scale_least == 16.0 && r.seen.fp8[FP8_INPUT].scale_most == 256.0);
    assert_true(r.seen.fp8[FP8_GRADIENT].scale_least == 32768.0 && r.seen.fp8[FP8_GRADIENT].scale_most == 1048576.0);
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        if (strcmp(g->name, "fp8")) continue;
        assert_int_equal(field_rows(g->field, &r), FP8_KINDS);
        assert_int_equal(field_rows(g->field, &other), 0);
        assert_string_equal(field_value(g, g->field, &r, FP8_GRADIENT).text, "gradient");
    }
    result_close(&r);
}

static void none_writes_nothing(void **state)
{
    record *r = sample_open("none", 1, reason, sizeof reason);
    sample_add(r, SAMPLE_HOST);
    assert_true(record_commit(r, reason, sizeof reason));
    record_close(r);
    assert_int_equal(files_in_folder(), 0);
    struct stat status;
    assert_int_not_equal(stat("none", &status), 0);
}

static void refused(const char *name, const char *why)
{
    *reason = 0;
    assert_null(sample_open(name, 1, reason, sizeof reason));
    if (!strstr(reason, why)) fail_msg("\"%s\" does not say \"%s\"", reason, why);
}

static void places_that_cannot_be_written_are_refused(void **state)
{
    char other[600];
    snprintf(other, sizeof other, "%s/missing/sample.h5", folder);
    refused(other, "No such file or directory");
    refused(folder, "not a regular file");
    refused("/dev/null", "not a regular file");
    fclose(fopen(path, "w"));
    snprintf(other, sizeof other, "%s/sample.h5", path);
    refused(other, "Not a directory");
    assert_int_equal(files_in_folder(), 1);
}

/* In a child without the capabilities of root, which may write everywhere. */
static void a_read_only_folder_is_refused(void **state)
{
    fflush(NULL);
    int status, child = fork();
    if (child == 0) {
        struct __user_cap_header_struct own = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
        chmod(folder, 0555);
        if (syscall(SYS_capset, &own, none)) _exit(2);
        record *r = sample_open(path, 1, reason, sizeof reason);
        _exit(!r && strstr(reason, "Permission denied") ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(files_in_folder(), 0);
    chmod(folder, 0755);
}

static void opening_touches_no_existing_file(void **state)
{
    FILE *old = fopen(path, "w");
    fputs("old", old);
    fclose(old);
    record_close(sample_open(path, 1, reason, sizeof reason));
    char word[8] = "";
    old = fopen(path, "r");
    assert_non_null(fgets(word, sizeof word, old));
    fclose(old);
    assert_string_equal(word, "old");
    assert_int_equal(files_in_folder(), 1);
}

static int write_for_script(const char *name)
{
    record *r = sample_open(name, SAMPLES - 1, reason, sizeof reason);
    for (int which = 0; r && which < SAMPLES - 1; which++) sample_add(r, which);
    if (r && record_commit(r, reason, sizeof reason)) return 0;
    fprintf(stderr, "%s\n", reason);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--sample") == 0) return write_for_script(argv[2]);
    TESTS_WITH(tests, make_record_folder, remove_folder, reads_back_what_was_added, says_where_it_comes_from,
               longer_texts_keep_their_bytes, every_dataset_is_guarded, plots_without_a_script,
               what_changes_before_a_commit_is_written, every_field_is_written, fp8_is_summed_over_steps,
               none_writes_nothing, places_that_cannot_be_written_are_refused, a_read_only_folder_is_refused,
               opening_touches_no_existing_file);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
