/* Output for the user, printed by one rank only. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

/* Sets whether this rank prints (default: true). */
void say_enable(bool enabled);
bool say_enabled(void);
/* Gives say a second file, which say_lost closes. */
void say_copy(FILE *file);
/* Prints to stdout and to the copy as printf, if this rank prints; flushes after a newline. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints to stdout only: text that the next line replaces on a terminal. */
void say_passing(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns whether some output could not be written, and prints on stderr why. Call it last. */
bool say_lost(void);
