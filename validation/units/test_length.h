/* The length of a test: full if its row in tests.list has `long`. */
#pragma once
#include <stdbool.h>
#include <stdlib.h>

static inline bool test_is_long(void) { return getenv("XGSW_TEST_LONG") != NULL; }
