/* The length of a test, by the words of its row in tests.list: brief without a word, full with `full`, longer with
 * `long`. */
#pragma once
#include "machine/queue/machine.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_is_long(void) { return getenv("XGSW_TEST_LONG") != NULL; }
static inline bool test_is_full(void) { return test_is_long() || getenv("XGSW_TEST_FULL"); }

/* Returns whether the test runs on the emulated GPU, which is slow, and is brief. */
static inline bool test_is_brief_emulation(void)
{
    const char *tested = getenv("XGSW_TEST_MACHINE");
    if (test_is_full() || !tested || strcmp(tested, "cuda") != 0) return false;
    return strncmp(machine_device_of(MACHINE_CUDA).name, "Emulated", strlen("Emulated")) == 0;
}
