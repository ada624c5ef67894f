/* Every deck of validation/decks/bad is refused with exactly the lines beside it, on two ranks, in well under a second
 * of this process's own time. */
#include "deck_source.h"
#include <glob.h>
#include <stdlib.h>
#include <time.h>

enum { LARGEST = 2 << 20 };

static size_t read_file(const char *path, char *into)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    size_t length = fread(into, 1, LARGEST, file);
    fclose(file);
    into[length] = '\0';
    return length;
}

static void is_refused(void **state)
{
    const char *path = *state;
    char *bytes = malloc(LARGEST + 1), *wanted = malloc(LARGEST + 1), *got = calloc(1, LARGEST + 1), *end = got,
         expected[4096];
    deck_source source = {
        .name = "DECK", .text = bytes, .length = read_file(path, bytes), .ranks = 2, .cuda_missing = "REASON"
    };
    snprintf(expected, sizeof expected, "%.*s.expected", (int)strlen(path) - 4, path);
    read_file(expected, wanted);
    clock_t start = clock();
    deck d = deck_read(&source);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    for (int i = 0; i < d.messages; i++) end += sprintf(end, "%s\n", d.message[i].line);
    assert_string_equal(got, wanted);
    assert_true(d.messages > 0);
    assert_int_equal(d.cases, 0);
    assert_null(d.item);
    assert_true(seconds < 0.5);
    free(bytes);
    free(wanted);
    free(got);
}

int main(void)
{
    glob_t found;
    if (glob("validation/decks/bad/*.dat", 0, NULL, &found) != 0 || found.gl_pathc < 100) {
        printf("Bail out! fewer than 100 decks in validation/decks/bad; run from the top of the tree\n");
        return 1;
    }
    struct CMUnitTest *tests = calloc(found.gl_pathc, sizeof *tests);
    for (size_t i = 0; i < found.gl_pathc; i++)
        tests[i] = (struct CMUnitTest){ .name = strrchr(found.gl_pathv[i], '/') + 1,
                                        .test_func = is_refused,
                                        .initial_state = found.gl_pathv[i] };
    int failed = _cmocka_run_group_tests("refused", tests, found.gl_pathc, NULL, NULL);
    free(tests);
    globfree(&found);
    return failed;
}
