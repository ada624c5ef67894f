/* The algorithm of a product: the fastest of trials or the library's first proposal; the list of algorithms. */
#include "machine/cuda/products/algorithms.h"
#include "products.h"

static void list_algorithms(machine_tuning options)
{
    char text[OUTPUT];
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, nothing);
    tune(options);
    for (int s = 2; s < 5; s++) one_product(&shapes[s], all_formats[1], WRITE, 0, NULL);
    cuda_matmul_algorithms(text, sizeof text);
    fputs(text, stderr);
}

static void list_tried(void) { list_algorithms((machine_tuning){ 0 }); }
static void list_deterministic(void) { list_algorithms((machine_tuning){ .deterministic = true }); }

/* The memory is too small for trials. */
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

/* Returns how many lines of the list contain the words. */
static int says(void (*body)(void), const char *words)
{
    char said[OUTPUT];
    int count = 0;
    if (!child(body, said)) fail_msg("%.2000s", said);
    for (const char *at = said; (at = strstr(at, words)); at++) count++;
    return count;
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

/* The list has no product that was only tuned or ran on an earlier machine. Lines that do not fit are counted, not
 * cut. */
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

static void test_sources(void **state)
{
    static const char TRIED[] = "the fastest tried", FIRST[] = "the library's first answer";
    assert_int_equal(says(list_tried, TRIED), 3);
    assert_int_equal(says(list_deterministic, FIRST), 3);
    assert_int_equal(says(list_untried, FIRST), 1);
}

int main(void)
{
    algorithms_try_from(0.0, 0.0);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_list), cmocka_unit_test(test_sources) };
    return cmocka_run_group_tests_name("emulator/cuda_algorithms", tests, NULL, NULL);
}
