/* The length of a test, by the words of its row in tests.list: brief without a word, full with `full`, longer with
 * `long`, which is full, too (validation/run_test). */
#pragma once
#include <stdbool.h>
#include <stdlib.h>

static inline bool test_is_long(void) { return getenv("XGSW_TEST_LONG") != NULL; }
static inline bool test_is_full(void) { return getenv("XGSW_TEST_FULL") != NULL; }

/* Restarts the emulator's random order; NULL in tests that are not linked with the emulator. */
void emulator_seed(unsigned long long seed) __attribute__((weak));

/* Returns whether the test runs on the emulated GPU, which is slow, and is brief. */
static inline bool test_is_brief_emulation(void) { return emulator_seed && !test_is_full(); }
