/* Where the algorithms of matrix products come from: trials, the library's first answer, a file that earlier runs have
 * written, whole or spoiled. */
#include "machine/cuda/products/algorithms.h"
#include "products.h"
#include <sys/stat.h>

static const char CACHE[] = "build/emulator/matmul-algorithms";

static void list_algorithms(machine_tuning options)
{
    char text[OUTPUT];
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, nothing);
    tune(options);
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, NULL);
    cuda_matmul_algorithms(text, sizeof text);
    fputs(text, stderr);
}

static void list_tried(void) { list_algorithms((machine_tuning){ .algorithm_cache = CACHE }); }
static void list_deterministic(void)
{
    list_algorithms((machine_tuning){ .algorithm_cache = CACHE, .deterministic = true });
}
static void list_elsewhere(void)
{
    list_algorithms((machine_tuning){ .algorithm_cache = "build/no/such/folder/algorithms" });
}
static void list_with_transfers(void)
{
    list_algorithms((machine_tuning){ .algorithm_cache = CACHE, .transfer_multiprocessors = 8 });
}

/* Memory for trials does not suffice. */
static void list_untried(void)
{
    void *memory;
    char text[OUTPUT];
    one_product(&shapes[2], all_formats[0], WRITE, 0, nothing);
    CUDA_CHECK(cudaMalloc(&memory, 4096));
    cuda_matmul_tune(&(machine_tuning){ 0 }, memory, 4096);
    one_product(&shapes[2], all_formats[0], WRITE, 0, NULL);
    cuda_matmul_algorithms(text, sizeof text);
    fputs(text, stderr);
    CUDA_CHECK(cudaFree(memory));
}

/* So many lines of the list hold the words. */
static int says(void (*body)(void), const char *words)
{
    char said[OUTPUT];
    int count = 0;
    if (!child(body, said)) fail_msg("%.2000s", said);
    for (const char *at = said; (at = strstr(at, words)); at++) count++;
    return count;
}

static size_t read_cache(char text[OUTPUT])
{
    FILE *file = fopen(CACHE, "r");
    size_t length = file ? fread(text, 1, OUTPUT - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    return length;
}

static void write_cache(const char *text, size_t length)
{
    FILE *file = fopen(CACHE, "w");
    assert_non_null(file);
    fwrite(text, 1, length, file);
    fclose(file);
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; (text = strchr(text, '\n')); text++) lines++;
    return lines;
}

static void expect_lines(const char *when, size_t room, int lines, const char *last)
{
    char text[OUTPUT];
    memset(text, '!', sizeof text);
    cuda_matmul_algorithms(text, room);
    size_t length = strlen(text), end = strlen(last);
    bool ends = length >= end && strcmp(text + length - end, last) == 0;
    if (length < room && lines_of(text) == lines && ends) return;
    fprintf(stderr, "%s: %d lines, expected: %d, the last %s: %s", when, lines_of(text), lines, last, text);
    exit(3);
}

/* What was only tuned, or ran on an earlier machine, is not listed; what does not fit is counted, and no line is cut.
 */
static void list_what_ran(void)
{
    char text[OUTPUT];
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, nothing);
    tune((machine_tuning){ 0 });
    expect_lines("nothing ran", sizeof text, 0, "");
    one_product(&shapes[3], all_formats[1], WRITE, 0, NULL);
    expect_lines("one ran", sizeof text, 1, "\n");
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, NULL);
    cuda_matmul_algorithms(text, sizeof text);
    size_t whole = strlen(text), line = strcspn(text, "\n") + 1;
    expect_lines("all fit", whole + 1, 3, "\n");
    for (size_t room = 32; room < line + 32; room++) expect_lines("no room", room, 1, "and 3 more\n");
    for (size_t room = line + 32; room < line + 64; room++) expect_lines("room for one", room, 2, "and 2 more\n");
    expect_lines("nearly all fit", whole, 3, "and 1 more\n");
    cuda_matmul_open();
    expect_lines("another machine", sizeof text, 0, "");
    cuda_matmul_close();
}

static void test_list(void **state) { passes(list_what_ran); }

static const char TRIED[] = "the fastest tried", KEPT[] = "tried in an earlier run",
                  FIRST[] = "the library's first answer";

static void test_cache(void **state)
{
    char text[OUTPUT], again[OUTPUT];
    unlink(CACHE);
    assert_int_equal(says(list_tried, TRIED), 3);
    size_t length = read_cache(text);
    assert_true(length > 0);
    assert_int_equal(says(list_tried, KEPT), 3);
    assert_true(read_cache(again) == length && memcmp(text, again, length) == 0);
    assert_int_equal(says(list_deterministic, FIRST), 3);
    assert_true(read_cache(again) == length && memcmp(text, again, length) == 0);
    assert_int_equal(says(list_with_transfers, TRIED), 3);
    read_cache(again);
    assert_int_equal(lines_of(again), 6);
    assert_int_equal(strncmp(text, again, length) == 0 || strstr(again, text) != NULL, 1);
    assert_int_equal(says(list_tried, KEPT), 3);
    assert_int_equal(says(list_elsewhere, "algorithm cache build/no/such/folder/algorithms: No such file or directory"),
                     1);
    assert_int_equal(says(list_untried, FIRST), 1);
}

/* The first line whole, but of an algorithm that the library does not know. */
static void change_algorithm(char *text)
{
    char *end = strchr(text, '\n') - 16, *id = strstr(text, "\tid ") + 4, after;
    uint64_t sum = 14695981039346656037u;
    *id = '9';
    for (const char *at = text; at < end; at++) sum = (sum ^ (uint8_t)*at) * 1099511628211u;
    after = end[16];
    snprintf(end, 17, "%016llx", (unsigned long long)sum);
    end[16] = after;
}

/* A file that ends anywhere, or has one wrong byte, costs new trials of the lines that it spoils and no more. */
static void test_corrupted_cache(void **state)
{
    char text[OUTPUT], spoiled[OUTPUT];
    unlink(CACHE);
    assert_int_equal(says(list_tried, TRIED), 3);
    size_t length = read_cache(text), line = strcspn(text, "\n") + 1;
    static const size_t cuts[] = { 0, 1, 40, 200 };
    for (int i = 0; i < 4; i++) {
        write_cache(text, line + cuts[i]);
        assert_int_equal(says(list_tried, KEPT), 1);
        assert_int_equal(says(list_tried, KEPT), 3);
    }
    for (size_t at = 3; at < line - 1; at += line / 5) {
        memcpy(spoiled, text, length);
        spoiled[at] ^= 1;
        write_cache(spoiled, length);
        assert_int_equal(says(list_tried, TRIED), 1);
    }
    strcpy(spoiled, text);
    change_algorithm(spoiled);
    write_cache(spoiled, length);
    assert_int_equal(says(list_tried, TRIED), 1);
    assert_int_equal(says(list_tried, KEPT), 3);
    unlink(CACHE);
}

/* A file without one whole line is not ours; nor is what a link leads to. Modes stay. */
static void test_files_of_others(void **state)
{
    static const char deck[] = "a deck\nof somebody\n[llama3.1-8b]\n";
    static const char ELSEWHERE[] = "build/emulator/matmul-algorithms-elsewhere";
    char text[OUTPUT];
    struct stat status;
    write_cache(deck, sizeof deck - 1);
    assert_int_equal(says(list_tried, "is no file of algorithms; it is not replaced"), 1);
    assert_int_equal(read_cache(text), sizeof deck - 1);
    assert_memory_equal(text, deck, sizeof deck - 1);
    unlink(CACHE), unlink(ELSEWHERE);
    assert_int_equal(symlink("matmul-algorithms-elsewhere", CACHE), 0);
    assert_int_equal(says(list_tried, "is a link, and none is followed"), 1);
    assert_int_not_equal(stat(ELSEWHERE, &status), 0);
    unlink(CACHE);
    write_cache("", 0);
    assert_int_equal(chmod(CACHE, 0600), 0);
    assert_int_equal(says(list_tried, TRIED), 3);
    assert_true(stat(CACHE, &status) == 0 && (status.st_mode & 0777) == 0600 && status.st_size > 0);
    unlink(CACHE);
}

int main(void)
{
    algorithms_try_from(0.0, 0.0);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_list), cmocka_unit_test(test_cache),
                                        cmocka_unit_test(test_corrupted_cache),
                                        cmocka_unit_test(test_files_of_others) };
    return cmocka_run_group_tests_name("emulator/cuda_algorithms", tests, NULL, NULL);
}
