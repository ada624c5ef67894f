/* Output for the user, printed by one rank only. */
#pragma once
#include <stdbool.h>

/* Sets whether this rank prints (default: true). */
void say_enable(bool enabled);
bool say_enabled(void);
/* Returns why some output could not be written; NULL if all was written. */
const char *say_failure(void);
/* Prints to stdout as printf, if this rank prints; flushes after a newline. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
