/* What every unit test includes: cmocka, and the headers of the C library that it and most tests need. */
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* TESTS(list, functions...): declares the array `list` with a test of each function, under its name. TESTS_WITH: with
 * setup and teardown of each test. */
#define TESTS(list, ...) TESTS_WITH(list, NULL, NULL, __VA_ARGS__)
#define TESTS_WITH(list, setup, teardown, ...)                                                                         \
    char list##_names[] = #__VA_ARGS__;                                                                                \
    const CMUnitTestFunction list##_functions[] = { __VA_ARGS__ };                                                     \
    struct CMUnitTest list[sizeof list##_functions / sizeof *list##_functions] = { 0 };                                \
    tests_fill(list, list##_names, list##_functions, setup, teardown)

static inline void tests_fill(struct CMUnitTest *test, char *names, const CMUnitTestFunction *function,
                              CMFixtureFunction setup, CMFixtureFunction teardown)
{
    for (char *name; (name = strtok_r(names, ", ", &names)); test++)
        *test = (struct CMUnitTest){ name, *function++, setup, teardown, NULL };
}

/* TEST_PROGRAM(name, setup, teardown, functions...): the program's main. setup, teardown: of the group. WORLD_PROGRAM:
 * with MPI; the program includes machine/world.h. */
#define TEST_PROGRAM(name, setup, teardown, ...)                                                                       \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        TESTS(tests, __VA_ARGS__);                                                                                     \
        return cmocka_run_group_tests_name(name, tests, setup, teardown);                                              \
    }
#define WORLD_PROGRAM(name, setup, teardown, ...)                                                                      \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        TESTS(tests, __VA_ARGS__);                                                                                     \
        world_start(&argc, &argv);                                                                                     \
        int failed = cmocka_run_group_tests_name(name, tests, setup, teardown);                                        \
        world_stop();                                                                                                  \
        return failed;                                                                                                 \
    }
