/* What a user reads: printed by one rank only. */
#pragma once
#include <stdbool.h>

/* Only the rank for which this was called with true prints (default: true). */
void say_enable(bool enabled);
bool say_enabled(void);
/* Why something that was said could not be written; NULL: all was. */
const char *say_failure(void);
/* One printf to stdout, flushed at newline. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
