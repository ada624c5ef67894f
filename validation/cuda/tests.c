/* All unit tests in one program, for the bundle. The Makefile renames each test's main to main_NAME, and its
 * __wrap_op_submit (units/machine/operations/mirror.h) to submit_NAME. TESTS is the list TEST(NAME) TEST(NAME) ... The
 * name under which the program is started (a link) selects the test. */
#include "machine/queue/machine.h"
#include <stdio.h>
#include <string.h>

typedef int test_main(int argc, char **argv);
typedef mark test_submit(queue *q, const op *o);

/* Only tests of operations define submit_NAME; for the others the address is NULL. */
#define TEST(name)                                                                                                     \
    extern test_main main_##name;                                                                                      \
    __attribute__((weak)) extern test_submit submit_##name;
TESTS
#undef TEST
#define TEST(name) { #name, main_##name, submit_##name },
static const struct {
    const char *name;
    test_main *run;
    test_submit *submit;
} tests[] = { TESTS };

static test_submit *chosen_submit;
test_submit __real_op_submit, __wrap_op_submit;

mark __wrap_op_submit(queue *q, const op *o) { return chosen_submit ? chosen_submit(q, o) : __real_op_submit(q, o); }

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        if (strcmp(name, tests[i].name) == 0) {
            chosen_submit = tests[i].submit;
            return tests[i].run(argc, argv);
        }
    fprintf(stderr, "%s: start this program through a link that has the name of a test\n", argv[0]);
    return 2;
}
