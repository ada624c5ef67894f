/* How far a test goes: its row in tests.list says `long`, or not. */
#pragma once
#include <stdbool.h>
#include <stdlib.h>

static inline bool test_is_long(void) { return getenv("XGSW_TEST_LONG") != NULL; }
